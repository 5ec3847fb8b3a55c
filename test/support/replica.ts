import { randomUUID } from 'node:crypto'
import { DevNomad, type DevNomadOptions, type JobSpec } from '../../src/devnomad/devnomad.ts'
import { systemClock } from '../../src/keeper/clock.ts'
import type { Clock } from '../../src/keeper/ports.ts'
import { startReplica, type ReplicaSettings, type RunningReplica } from '../../src/server.ts'

export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body as JSON; an empty object when it is none. */
  readonly body: Record<string, unknown>
}
export interface Sent {
  readonly body?: unknown
  /** A body as it is. */
  readonly raw?: string
  readonly headers?: Record<string, string>
  readonly signal?: AbortSignal
}

const TTL_MS = 10_000
const STEP_MS = 20
const SECOND = 1e9

/** One replica before a simulated Nomad, both in real time and over real HTTP. */
export class ReplicaUnderTest {
  readonly nomad: DevNomad
  /** Of the management, with ACLs; else empty. */
  readonly token: string
  readonly logs: string[] = []
  /** Every answer, for what holds of all of them. */
  readonly seen: { readonly method: string; readonly path: string; readonly answer: HttpAnswer }[] = []
  #listening: { readonly address: string; close(): Promise<void> } | null = null
  #replica: RunningReplica | null = null

  private constructor(options: Partial<DevNomadOptions>) {
    this.nomad = new DevNomad({ clock: systemClock, newId: randomUUID, lagMs: 50, ...options })
    const made = options.acl === true ? this.nomad.acl.bootstrap() : null
    this.token = made !== null && 'SecretID' in made ? made.SecretID : ''
  }

  /** `speed`: how many times as fast the waits of the replica are; its wall time is the real one. */
  static async start(
    settings: Partial<ReplicaSettings> = {},
    options: Partial<DevNomadOptions> = {},
    speed = 1,
  ): Promise<ReplicaUnderTest> {
    const under = new ReplicaUnderTest(options)
    try {
      return await under.#start(settings, fasterBy(speed))
    } catch (error) {
      await under.close()
      throw error
    }
  }

  async #start(settings: Partial<ReplicaSettings>, clock: Clock): Promise<this> {
    this.#listening = await this.nomad.listen()
    this.#replica = await startReplica(
      {
        listen: '127.0.0.1:0',
        prefix: 'lockkeeper',
        leaseTtlMs: TTL_MS,
        name: 'replica-1',
        logLevel: 'debug',
        nomad: {
          addresses: [this.nomadAddress],
          namespace: 'default',
          token: this.token === '' ? {} : { value: this.token },
          tls: { skipVerify: false },
        },
        ...settings,
      },
      { clock, logTo: { write: (line) => void this.logs.push(line) } },
    )
    await this.until(async () => this.replica.keeper.locks.canList())
    return this
  }

  get replica(): RunningReplica {
    if (this.#replica === null) throw new Error('not started')
    return this.#replica
  }
  get nomadAddress(): string {
    return this.#listening?.address ?? ''
  }

  async ask(method: string, path: string, sent: Sent = {}): Promise<HttpAnswer> {
    const json = sent.body === undefined ? {} : { 'content-type': 'application/json' }
    const text = sent.raw ?? (sent.body === undefined ? undefined : JSON.stringify(sent.body))
    const answer = await exchange(`${this.replica.address}${path}`, {
      method,
      headers: { ...json, ...sent.headers },
      ...(text === undefined ? {} : { body: text }),
      ...(sent.signal === undefined ? {} : { signal: sent.signal }),
    })
    this.seen.push({ method, path, answer })
    return answer
  }

  /** Asks Nomad itself. */
  async askNomad(method: string, path: string, body?: object): Promise<HttpAnswer> {
    return await exchange(`${this.nomadAddress}${path}`, {
      method,
      headers: this.token === '' ? {} : { 'x-nomad-token': this.token },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  }

  /** Somebody writes a variable by hand. */
  async putVariable(path: string, items: Record<string, string>): Promise<void> {
    const { status } = await this.askNomad('PUT', `/v1/var/${path}`, { Path: path, Items: items })
    if (status !== 200) throw new Error(`the variable was not written: ${status}`)
  }

  async itemsOf(path: string): Promise<Record<string, string> | null> {
    const { status, body } = await this.askNomad('GET', `/v1/var/${path}`)
    return status === 404 ? null : (body['Items'] as Record<string, string>)
  }

  /** A hold in a shared semaphore, which waits for its grant. */
  async hold(shared: string, unit = 'unit-1', more: object = {}, wait = '10s'): Promise<HttpAnswer> {
    const body = { shared, unit, reason: 'a test', key: `key-${unit}`, ...more }
    return await this.ask('POST', `/v1/holds?wait=${wait}`, { body })
  }

  /** Registers a job of one group `api` and waits until its allocations run; gives their IDs. */
  async job(id: string, more: JobShape = {}): Promise<string[]> {
    this.nomad.registerJob(jobSpec(id, more))
    let running: { ID: string; ClientStatus: string }[] = []
    await this.until(async () => {
      const { text } = await this.askNomad('GET', `/v1/job/${encodeURIComponent(id)}/allocations`)
      running = (JSON.parse(text) as typeof running).filter(({ ClientStatus }) => ClientStatus === 'running')
      return running.length === (more.count ?? 2)
    })
    return running.map(({ ID }) => ID)
  }

  async until(holds: () => Promise<boolean>, boundMs = 15_000): Promise<void> {
    const end = Date.now() + boundMs
    while (!(await holds())) {
      if (Date.now() > end) throw new Error(`not so within ${boundMs} ms`)
      await systemClock.sleep(STEP_MS)
    }
  }

  async close(): Promise<void> {
    await this.#replica?.close()
    this.nomad.close()
    await this.#listening?.close()
  }
}

interface JobShape {
  readonly type?: string
  /** Of its one group; 2 if not given. */
  readonly count?: number
  readonly meta?: Record<string, string>
  readonly templates?: readonly object[]
}

function jobSpec(id: string, { type = 'service', count = 2, meta, templates = [] }: JobShape): JobSpec {
  return {
    ID: id,
    Type: type,
    Meta: meta ?? null,
    TaskGroups: [
      {
        Name: 'api',
        Count: count,
        Update: {
          MaxParallel: 1,
          HealthCheck: 'task_states',
          MinHealthyTime: SECOND / 10,
          HealthyDeadline: 60 * SECOND,
          ProgressDeadline: 120 * SECOND,
        },
        Tasks: [
          {
            Name: 'app',
            Driver: 'dev',
            Config: { healthy_after: '0s' },
            Templates: templates,
            Identities: [{ Name: 'lockkeeper', Audience: ['lockkeeper'], TTL: 3_600 * SECOND, File: true }],
          },
        ],
      },
    ],
  } as JobSpec
}

function fasterBy(speed: number): Clock {
  return {
    now: () => systemClock.now() * speed,
    wall: () => systemClock.wall(),
    sleep: (ms, signal) => systemClock.sleep(ms / speed, signal),
    after: (ms, run) => systemClock.after(ms / speed, run),
    within: (ms, signal, work) => systemClock.within(ms / speed, signal, work),
  }
}

async function exchange(url: string, init: RequestInit): Promise<HttpAnswer> {
  const response = await fetch(url, init)
  const text = await response.text()
  const { status, headers } = response
  return { status, headers, text, body: objectIn(text) }
}

function objectIn(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}
