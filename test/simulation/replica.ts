import { documentOf, problemOf } from '../../src/api/problems.ts'
import { ERRORS } from '../../src/core/errors.ts'
import type { Scope } from '../../src/core/scope.ts'
import type { Hold, Outcome } from '../../src/core/state.ts'
import { Keeper, type AskInput } from '../../src/keeper/keeper.ts'
import type { Log, NewId } from '../../src/keeper/ports.ts'
import type { RequestAnswer, RequestInput } from '../../src/keeper/requests.ts'
import { formatDuration, parseDuration } from '../../src/core/duration.ts'
import type { ServiceAnswer } from '../../src/shim/answers.ts'
import type { ServiceCall } from '../../src/shim/client.ts'
import { ErrandLink, type ErrandWatch } from './errand-link.ts'
import { Host } from './host.ts'
import { linkToNomad, type LinkDeps, type Tamper } from './nomad-link.ts'
import type { Truth } from './truth.ts'

/** A grant that leaves a replica. */
export interface Told {
  readonly scope: Scope
  readonly hold: Hold
  readonly by: string
  readonly key: string
}

export interface ReplicaDeps extends LinkDeps {
  readonly newId: NewId
  readonly leaseTtlMs: number
  readonly log: Log
  readonly truth: Truth
  readonly errandWatch: ErrandWatch
  readonly told: (told: Told) => void
  /** Called when a caller is answered with a fault of ours. */
  readonly fault: (text: string) => void
  readonly woken: (what: 'timer' | 'message') => void
}

/** One replica: a real keeper on a host of its own. It never comes back; its successor is another one. */
export class SimulatedReplica {
  readonly host: Host
  readonly keeper: Keeper
  readonly #told: (told: Told) => void
  readonly #tamper: Tamper
  readonly #fault: (text: string) => void

  constructor(name: string, deps: ReplicaDeps) {
    this.host = new Host(name, deps.timeline, deps.woken)
    this.#told = deps.told
    this.#tamper = deps.tamper
    this.#fault = deps.fault
    const { newId, log, leaseTtlMs, timeline, chance, truth, errandWatch, network, tamper } = deps
    const errands = new ErrandLink(this.host, {
      timeline,
      chance,
      truth,
      watch: errandWatch,
      ttlMs: leaseTtlMs,
      torn: () => tamper.torn ?? (network.weather.lost > 0 ? 0.03 : 0),
      bound: (ms) => tamper.bound?.(ms) ?? ms,
    })
    const { variables, cluster, actions } = linkToNomad(this.host, { ...deps, errands })
    const meter = { count: () => undefined }
    this.keeper = new Keeper(
      { variables, cluster, actions, clock: this.host.clock, newId, log, meter },
      { prefix: 'lockkeeper', namespace: 'default', name, leaseTtlMs },
    )
    void this.keeper.start()
  }

  /** Its API, as far as shims use it. `closed` aborts when the caller's connection has closed. */
  async serve(call: ServiceCall, closed: AbortSignal): Promise<ServiceAnswer> {
    const { host } = this
    try {
      return await this.#answer(call, closed)
    } catch (error) {
      const { problem, ours } = problemOf(error, host.name)
      if (ours && !closed.aborted) this.#fault(String(error))
      return { status: ERRORS[problem.kind].status, body: documentOf(problem), retryAfterMs: null }
    }
  }

  /** Its API, as far as managed requests go. */
  async put(input: RequestInput, closed: AbortSignal): Promise<RequestAnswer> {
    return await this.keeper.requests.put(input, closed).catch((error: unknown) => {
      const { problem, ours } = problemOf(error, this.host.name)
      if (ours && !closed.aborted) this.#fault(String(error))
      throw problem
    })
  }

  async #answer({ path, body }: ServiceCall, closed: AbortSignal): Promise<ServiceAnswer> {
    const [, hold, verb] = /^\/v1\/holds\/([^/]+)\/(renew|release)$/.exec(path) ?? []
    if (hold === undefined) return await this.#ask(path, body as AskInput, closed)
    const { lease, outcome = 'done' } = body as { lease: string; outcome?: Outcome }
    const done =
      verb === 'renew' ? await this.keeper.renew(hold, lease, closed) : await this.keeper.release(hold, lease, outcome, closed)
    return { status: 200, body: 'phase' in done ? done : { phase: done.hold.phase }, retryAfterMs: null }
  }

  async #ask(path: string, input: AskInput, closed: AbortSignal): Promise<ServiceAnswer> {
    const waitMs = parseDuration(decodeURIComponent(path.slice(path.indexOf('wait=') + 5))) ?? 0
    const answer = await this.keeper.acquire(this.#tamper.ask?.(input) ?? input, waitMs, closed)
    if (answer.kind === 'satisfied') throw new Error('no shim here asks with a time')
    if (answer.kind === 'waiting') {
      const { wait, position, waiting } = answer
      const { status } = ERRORS[wait.kind]
      return { status, body: { kind: wait.kind, detail: wait.detail, position, waiting }, retryAfterMs: 1_000 }
    }
    const { hold, scope, lease } = answer
    this.#told({ scope, hold, by: this.host.name, key: input.key })
    const ttl = this.keeper.leaseTtlMs
    const times = { ttl: formatDuration(ttl), renew_every: formatDuration(ttl / 3) }
    return {
      status: 201,
      body: { hold: hold.id, lease, token: hold.token, slot: hold.slot, scope, ...times },
      retryAfterMs: null,
    }
  }
}
