import { randomBytes } from 'node:crypto'
import { NomadApi } from './nomad-api.ts'
import { startClient, startDevNomad, startReplica, type Child, type Client, type Replica } from './processes.ts'
import type { Load, Nomad } from './loads.ts'

export const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

export interface Window {
  readonly done: number
  readonly errors: number
  readonly lastError: string
  readonly seconds: number
  readonly times: readonly number[]
}

/** Where one figure is measured: a Nomad, a prefix of its own in it, and the processes that it starts. Everything ends with it. */
export class Stage {
  readonly prefix = `lockkeeper-bench-${randomBytes(4).toString('hex')}`
  readonly nomad: Nomad
  readonly api: NomadApi
  readonly #children: Child[]

  constructor(nomad: Nomad, children: Child[]) {
    this.nomad = nomad
    this.api = new NomadApi(nomad.address, nomad.token)
    this.#children = children
  }

  async replica(): Promise<Replica> {
    const replica = await startReplica(this.nomad.address, this.prefix)
    this.#children.push(replica)
    return replica
  }

  client(load: Load): Client {
    const client = startClient(load)
    this.#children.push(client)
    return client
  }

  /** What a load does in `ms`, after a warm-up: the first seconds of a process are two to three times as slow. */
  async measured(
    load: Load,
    warmMs: number,
    ms: number,
    around: (begin: boolean) => Promise<void> = async () => {},
  ): Promise<Window> {
    const client = this.client(load)
    await sleep(warmMs)
    await around(true)
    const before = await client.counts()
    await sleep(ms)
    await around(false)
    const after = await client.counts()
    await client.end()
    return {
      done: after.done - before.done,
      errors: after.errors - before.errors,
      lastError: after.lastError,
      seconds: (after.at - before.at) / 1_000,
      times: after.times.slice(before.times.length),
    }
  }

  async end(): Promise<void> {
    for (const child of this.#children.toReversed()) if (child !== this.#children[0]) await child.end()
    // On a real Nomad nothing stays behind; leases are left to expire, and go then.
    const { variables } = await this.api.list(`${this.prefix}/`).catch(() => ({ variables: [] }))
    for (const { Path } of variables) await this.api.remove(Path).catch(() => undefined)
    this.api.close()
    await this.#children[0]?.end()
  }
}

export type OpenStage = () => Promise<Stage>

/** A stage with a simulated Nomad of its own, or at the real one. */
export function stages(real: Nomad | null, writeMs: number): OpenStage {
  return async () => {
    if (real !== null) return new Stage(real, [{ end: async () => {} } as Child])
    const nomad = await startDevNomad(writeMs)
    return new Stage({ address: nomad.address }, [nomad])
  }
}
