// The servers of Nomad, killed and frozen by the commands that were given.
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Fault } from './journal.ts'
import type { Nomad } from './nomad.ts'
import type { Settings } from './settings.ts'

export class Servers {
  readonly count: number
  readonly leaders: { readonly at: number; readonly server: number }[] = []
  readonly #commands: Settings['commands']
  readonly #nomad: Nomad
  readonly #faults: Fault[]
  /** The RPC address of each, which is how a leader is named. */
  readonly #rpc: string[] = []
  readonly #down = new Map<number, { readonly verb: 'start' | 'continue'; readonly fault: Fault }>()
  readonly #over = new AbortController()
  #watching: Promise<void> = Promise.resolve()

  constructor(settings: Settings, nomad: Nomad, faults: Fault[]) {
    this.count = settings.servers.length
    this.#commands = settings.commands
    this.#nomad = nomad
    this.#faults = faults
  }

  async start(): Promise<void> {
    for (let nth = 0; nth < this.count; nth++) {
      const answer = await this.#nomad.at(nth, 'GET', '/v1/agent/self')
      if (answer?.status !== 200) throw new Error(`${this.#nomad.addresses[nth]} does not answer`)
      const { member } = answer.body as { member: { Addr: string; Tags: Record<string, string> } }
      this.#rpc.push(`${member.Addr}:${member.Tags['port']}`)
    }
    this.#watching = this.#watch()
  }

  /** The number of the leader, from 1; null: none is known. */
  get leader(): number | null {
    return this.leaders.at(-1)?.server ?? null
  }

  get troubled(): number {
    return this.#down.size
  }

  async down(server: number, how: 'kill' | 'stall'): Promise<void> {
    if (this.#down.has(server)) return
    const kind = how === 'kill' ? 'kill' : 'freeze'
    const fault: Fault = { at: Date.now(), kind, target: 'server', who: String(server), until: null }
    this.#down.set(server, { verb: how === 'kill' ? 'start' : 'continue', fault })
    this.#faults.push(fault)
    await this.#run(how, server)
  }

  async up(server: number): Promise<void> {
    const down = this.#down.get(server)
    if (down === undefined) return
    await this.#run(down.verb, server)
    down.fault.until = Date.now()
    this.#down.delete(server)
  }

  async allUp(): Promise<void> {
    for (const server of this.#down.keys()) await this.up(server)
  }

  async stop(): Promise<void> {
    this.#over.abort()
    await this.#watching
  }

  async #run(verb: keyof Settings['commands'], server: number): Promise<void> {
    const command = this.#commands[verb].replaceAll('{}', String(server))
    await promisify(execFile)('/bin/sh', ['-c', command], { timeout: 30_000 })
  }

  async #watch(): Promise<void> {
    while (!this.#over.signal.aborted) {
      const asked = Array.from({ length: this.count }, (_, nth) =>
        this.#nomad.at(nth, 'GET', '/v1/status/leader', undefined, 1_000),
      )
      const names = (await Promise.all(asked)).map((answer) => (answer?.status === 200 ? String(answer.body) : ''))
      // One that was frozen may still name itself: what most say.
      const leader = names.find((name) => name !== '' && names.filter((other) => other === name).length * 2 > this.count)
      const server = leader === undefined ? 0 : this.#rpc.indexOf(leader) + 1
      if (server > 0 && server !== this.leader) this.leaders.push({ at: Date.now(), server })
      await sleep(500)
    }
  }
}
