import { DevNomad, type JobSpec } from '../../src/devnomad/devnomad.ts'
import type { Granted, Waiting } from '../../src/keeper/ask.ts'
import { Keeper, type AskInput } from '../../src/keeper/keeper.ts'
import type { Cluster, Log, Variables } from '../../src/keeper/ports.ts'
import { Problem } from '../../src/core/errors.ts'
import type { State } from '../../src/core/state.ts'
import { createCluster } from '../../src/nomad/cluster.ts'
import { createActions } from '../../src/nomad/actions.ts'
import { createNomadClient } from '../../src/nomad/client.ts'
import { createFiles } from '../../src/nomad/files.ts'
import { SendFault, type Send } from '../../src/nomad/transport.ts'
import { createVariables } from '../../src/nomad/variables.ts'
import { ManualClock } from './manual-clock.ts'
import { sequentialIds } from './sequential-ids.ts'

export type { Granted, Waiting }

/** Requests go straight into devnomad: no sockets, so everything happens in virtual time. */
export function sendTo(
  nomad: DevNomad,
  before: (method: string, path: string, body: string) => Promise<void> = async () => undefined,
): Send {
  return async ({ method, path, headers, body, signal }) => {
    try {
      await before(method, path, body ?? '')
      const answer = await nomad.handle({ method, path, headers, ...(body === undefined ? {} : { body }), signal })
      const { status, body: text } = answer
      const found = new Map(Object.entries(answer.headers).map(([name, value]) => [name.toLowerCase(), value]))
      return { status, headers: (name) => found.get(name.toLowerCase()) ?? null, body: text }
    } catch (error) {
      if (signal.aborted) throw signal.reason
      throw new SendFault('unknown', String(error))
    }
  }
}

export interface WorldOptions {
  readonly allocations?: number
  readonly maxParallel?: number
  readonly minHealthyTime?: number
  readonly healthyDeadline?: number
  readonly meta?: Record<string, string>
  readonly startAfter?: string
  readonly healthyAfter?: string
  readonly checks?: boolean
  readonly type?: string
}

const SECOND = 1e9

export function groupOfDev(options: WorldOptions = {}, name = 'api') {
  const { allocations = 5, maxParallel = 1, minHealthyTime = 2, healthyDeadline = 60 } = options
  const service = {
    Name: 'web',
    Provider: 'nomad',
    Checks: [{ Name: 'up', Type: 'http', Path: '/', Interval: SECOND, Timeout: SECOND }],
  }
  const config = { start_after: options.startAfter ?? '0s', healthy_after: options.healthyAfter ?? '2s' }
  return {
    Name: name,
    Count: allocations,
    Meta: options.meta ?? null,
    Update: {
      MaxParallel: maxParallel,
      HealthCheck: 'checks',
      MinHealthyTime: minHealthyTime * SECOND,
      HealthyDeadline: healthyDeadline * SECOND,
      ProgressDeadline: 600 * SECOND,
    },
    RestartPolicy: { Attempts: 10, Delay: SECOND, Interval: 600 * SECOND, Mode: 'delay' },
    Services: options.checks === false ? [] : [service],
    Tasks: [{ Name: 'app', Driver: 'dev', Config: config }],
  }
}

export function jobOfDev(options: WorldOptions = {}, id = 'web'): JobSpec {
  return { ID: id, Type: options.type ?? 'service', TaskGroups: [groupOfDev(options)] } as unknown as JobSpec
}

/** One cluster in virtual time: devnomad, a job `web` with the group `api`, and replicas. */
export class World {
  readonly clock = new ManualClock()
  readonly newId = sequentialIds()
  readonly nomad = new DevNomad({ clock: this.clock, newId: this.newId })
  readonly logs: { level: string; fields: object; text: string }[] = []
  readonly variables: Variables
  readonly cluster: Cluster
  readonly replicas: Keeper[] = []
  /** Every request to Nomad, when it is set to a list. */
  sent: { method: string; path: string; body: string }[] | null = null
  readonly #gates = new Map<Keeper, { dead: boolean }>()
  readonly #steps: { matches: (method: string, path: string) => boolean; act: () => Promise<unknown> }[] = []
  readonly #step = async (method: string, path: string): Promise<void> => {
    const at = this.#steps.findIndex(({ matches }) => matches(method, path))
    if (at >= 0) await this.#steps.splice(at, 1)[0]?.act()
  }

  constructor() {
    const ports = this.#ports()
    this.variables = ports.variables
    this.cluster = ports.cluster
  }

  async withJob(options: WorldOptions = {}): Promise<this> {
    this.nomad.registerJob(jobOfDev(options))
    await this.until(
      async () => !(await this.cluster.deploying('default', 'web')) && (await this.allocations()).length > 0,
      600_000,
    )
    return this
  }

  /** What a replica sees of Nomad; nothing more once it was killed. */
  portsOf(keeper: Keeper) {
    return { ...this.#ports(this.#gates.get(keeper)), clock: this.clock, log: this.#log() }
  }

  async replica(): Promise<Keeper> {
    const gate = { dead: false }
    const { variables, cluster, actions } = this.#ports(gate)
    const { clock, newId } = this
    const meter = { count: () => undefined }
    const keeper = new Keeper(
      { variables, cluster, actions, clock, newId, log: this.#log(), meter },
      {
        prefix: 'lockkeeper',
        namespace: 'default',
        name: `replica-${this.replicas.length}`,
        leaseTtlMs: 15_000,
      },
    )
    this.replicas.push(keeper)
    this.#gates.set(keeper, gate)
    await this.soon(keeper.start())
    await this.until(async () => keeper.locks.canList(), 10_000)
    return keeper
  }

  /** Does something right before the next request that matches reaches Nomad. */
  before(matches: (method: string, path: string) => boolean, act: () => Promise<unknown>): void {
    this.#steps.push({ matches, act })
  }

  /** The process is gone from one moment to the next: nothing of it reaches Nomad any more. */
  async kill(keeper: Keeper): Promise<void> {
    const gate = this.#gates.get(keeper)
    if (gate !== undefined) gate.dead = true
    this.replicas.splice(this.replicas.indexOf(keeper), 1)
    await this.soon(keeper.stop())
  }

  async allocations(job = 'web'): Promise<string[]> {
    const all = await this.cluster.allocations('default', job)
    return all
      .filter(({ desired }) => desired === 'run')
      .map(({ id, name }) => ({ id, name }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
      .map(({ id }) => id)
  }

  /** Moves time on in small steps until the promise has an answer. */
  async soon<T>(work: Promise<T>, boundMs = 120_000): Promise<T> {
    let over = false
    const watched = work.finally(() => (over = true))
    watched.catch(() => undefined)
    for (let waited = 0; !over && waited < boundMs; waited += step(waited))
      await this.clock.advance(waited === 0 ? 0 : step(waited))
    if (!over) throw new Error(`no answer within ${boundMs} ms of virtual time`)
    return await watched
  }

  async until(holds: () => Promise<boolean>, boundMs = 120_000): Promise<void> {
    for (let waited = 0; waited <= boundMs; waited += 100) {
      if (await this.soon(holds())) return
      await this.clock.advance(100)
    }
    throw new Error(`not so within ${boundMs} ms of virtual time`)
  }

  async granted(keeper: Keeper, ask: AskInput, waitMs = 120_000): Promise<Granted> {
    const answer = await this.soon(keeper.acquire(ask, waitMs, new AbortController().signal), waitMs + 10_000)
    if (answer.kind !== 'granted') throw new Error(`it was not granted: ${JSON.stringify(answer)}`)
    return answer
  }

  async waits(keeper: Keeper, ask: AskInput, waitMs = 0): Promise<Waiting> {
    const answer = await this.soon(keeper.acquire(ask, waitMs, new AbortController().signal), waitMs + 10_000)
    if (answer.kind !== 'waiting') throw new Error('it was granted')
    return answer
  }

  async restart(allocation: string): Promise<void> {
    const { status } = await this.soon(
      this.nomad.handle({ method: 'PUT', path: `/v1/client/allocation/${allocation}/restart`, body: '{}' }),
    )
    if (status !== 200) throw new Error(`restart: ${status}`)
  }

  async state(scope: object = { namespace: 'default', job: 'web', group: 'api' }): Promise<State> {
    const path = (this.replicas[0] as Keeper).paths.semaphore(scope as never)
    const { variable } = await this.soon(this.variables.get(path))
    return JSON.parse(variable?.items['state'] ?? 'null') as State
  }

  problems(): string[] {
    return this.logs
      .filter(({ level }) => level === 'warn' || level === 'error')
      .map(({ fields, text }) => `${text} ${JSON.stringify(fields)}`)
  }

  async close(): Promise<void> {
    for (const keeper of this.replicas) await this.soon(keeper.stop())
    this.nomad.close()
    await this.clock.advance(0)
    if (this.clock.pending > 0) throw new Error(`${this.clock.pending} timers are left`)
  }

  #ports(gate: { dead: boolean } = { dead: false }) {
    const settings = { addresses: ['http://devnomad'], namespace: 'default', token: {}, tls: { skipVerify: false } }
    const client = createNomadClient({
      send: sendTo(this.nomad, async (method, path, body) => {
        this.sent?.push({ method, path, body })
        if (gate.dead) throw new Error('killed')
        await this.#step(method, path)
        if (gate.dead) throw new Error('killed')
      }),
      clock: this.clock,
      settings,
      readTokenFile: async () => '',
      random: () => 0.5,
    })
    const cluster = createCluster(client)
    return { variables: createVariables(client), cluster, actions: createActions(client), files: createFiles(client) }
  }

  #log(): Log {
    const at = (level: string) => (fields: object, text: string) => void this.logs.push({ level, fields, text })
    return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
  }
}

/** Small steps at first; who waits for minutes is watched less closely. */
function step(waited: number): number {
  return waited < 10_000 ? 50 : 500
}

export async function problemOf(work: Promise<unknown>): Promise<Problem> {
  try {
    await work
  } catch (error) {
    if (error instanceof Problem) return error
    throw error
  }
  throw new Error('it went well')
}
