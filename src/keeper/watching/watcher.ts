// The watcher of one replica: which allocations are its own, when each is looked at, and what any replica can tell about all of them.
import { setMaxListeners } from 'node:events'
import { mayRun } from '../../core/cluster.ts'
import { textOf } from '../../core/errors.ts'
import { contains, type GroupScope, type Level } from '../../core/scope.ts'
import { Alarm } from '../alarm.ts'
import type { Paths } from '../paths.ts'
import type { Clock, Cluster, Files, Log, Meter, Variables } from '../ports.ts'
import type { Replica } from '../replica.ts'
import type { Snapshot } from '../watch.ts'
import { WatchedJobs } from './jobs.ts'
import type { Sight } from './look.ts'
import { WatchMemory } from './memory.ts'
import { Pace } from './pace.ts'
import { reportOf, Reports, statusIn } from './report.ts'
import { WatchedAllocation, type WatchDeps, type WatchState, type WatchStatus } from './watched-allocation.ts'

export interface WatcherDeps extends Pick<WatchDeps, 'request'> {
  readonly variables: Variables
  readonly cluster: Cluster
  readonly files: Files
  readonly clock: Clock
  readonly log: Log
  readonly meter: Meter
  readonly paths: Paths
  readonly replica: Replica
  /** The newest list of our variables. */
  readonly snapshot: () => Snapshot
}

/** A group with watched files as people look at it. */
export interface WatchedView {
  readonly scope: GroupScope
  readonly faults: readonly string[]
  readonly warnings: readonly string[]
  readonly allocations: readonly (WatchStatus & { readonly allocation: string; readonly place: string; readonly node: string })[]
}

/** Between two looks at one allocation, unless there are too many for the pace. */
const INTERVAL_MS = 30_000
/** What is left of the pace for lists and requests. */
const LOOKS_OF_PACE = 0.9
const AT_ONCE = 8
/** A client that gave no answer, or a namespace without the right, is asked again after this, once. */
const BLOCKED_MS = 30_000
const TOO_MANY_MS = 600_000
const REPORT_MS = 5_000
const SWEEP_MS = 60_000
const SWEPT_AT_ONCE = 10
const SHORTEST_SLEEP_MS = 20
const WITHDRAW_MS = 2_000
const NEVER = new AbortController().signal

interface Turn {
  readonly watched: WatchedAllocation
  isMine: boolean
  isBusy: boolean
  due: number
}

export class Watcher {
  readonly #deps: WatcherDeps
  readonly #ofOne: WatchDeps
  readonly #jobs: WatchedJobs
  readonly #reports: Reports
  readonly #alarm: Alarm
  readonly #turns = new Map<string, Turn>()
  /** Nodes that are away, and namespaces without the right, until when that is taken for granted, and why. */
  readonly #blocked = new Map<string, { readonly until: number; readonly why: string }>()
  readonly #life = new AbortController()
  #alive: ReadonlySet<string> | null = null
  /** Those that this replica looks at, and which of them is begun with. */
  #own: readonly Turn[] = []
  #from = 0
  #busy = 0
  #intervalMs = INTERVAL_MS
  #running: Promise<unknown> = Promise.resolve()

  constructor(deps: WatcherDeps) {
    const { variables, cluster, files, clock, log, meter, paths, replica, snapshot, request } = deps
    // As many listen to it as there are looks; Node takes more than ten for a leak.
    setMaxListeners(0, this.#life.signal)
    const pace = new Pace(clock, replica)
    this.#deps = deps
    this.#alarm = new Alarm(clock)
    this.#jobs = new WatchedJobs(cluster, clock, pace, log)
    this.#reports = new Reports(variables, paths, replica, log, snapshot)
    const memory = new WatchMemory(variables, paths, snapshot)
    const isOpen: WatchDeps['isOpen'] = ({ scope }, allocation, notBefore) =>
      snapshot().at < notBefore ? null : snapshot().entries.has(paths.managedRequest(scope, allocation))
    this.#ofOne = { cluster, files, clock, log, meter, pace, memory, request, isOpen }
  }

  start(): void {
    const { signal } = this.#life
    this.#running = Promise.all([this.#findJobs(signal), this.#look(signal), this.#tell(signal)])
  }

  /** Ends the looks. Another replica takes over what was ours. */
  async stop(): Promise<void> {
    this.#life.abort(new Error('the watcher ends'))
    await this.#running
    const { clock } = this.#deps
    await clock.within(WITHDRAW_MS, undefined, (bounded) => this.#reports.withdraw(bounded)).catch(() => undefined)
  }

  /** Between two looks at one allocation of this replica. */
  get intervalMs(): number {
    return this.#intervalMs
  }

  /** How many allocations this replica looks at, by state. */
  counts(): Readonly<Record<WatchState, number>> {
    const counts = { current: 0, changed: 0, found_out: 0, unknown: 0 }
    for (const { watched } of this.#own) counts[watched.status.state]++
    return counts
  }

  /** All watched groups at or below the level. `missing`: what keeps a replica from looking, in sentences. */
  async watched(level: Level, signal: AbortSignal): Promise<{ groups: WatchedView[]; missing: string[] }> {
    const { replica } = this.#deps
    const others = [...replica.alive].filter((id) => id !== replica.id)
    const reports = new Map(await Promise.all(others.map(async (id) => [id, await this.#reports.of(id, signal)] as const)))
    const status = (id: string): WatchStatus => {
      const owner = replica.ownerOf(id)
      const turn = this.#turns.get(id)
      return owner === replica.id && turn !== undefined ? turn.watched.status : statusIn(reports.get(owner) ?? null, id)
    }
    const groups = this.#jobs
      .groups()
      .filter(({ scope }) => contains(level, scope))
      .map(({ scope, watch, allocations }) => ({
        scope,
        faults: watch.faults,
        warnings: watch.warnings,
        allocations: allocations.map((one) => ({ allocation: one.id, place: one.name, node: one.nodeName, ...status(one.id) })),
      }))
    const told = [...reports.values()].flatMap((report) => report?.missing ?? [])
    return { groups, missing: [...new Set([...this.#missing(), ...told])] }
  }

  async #findJobs(signal: AbortSignal): Promise<void> {
    let sweptAt = -Infinity
    while (!signal.aborted) {
      await this.#jobs.refresh(signal)
      if (signal.aborted) return
      this.#see()
      const now = this.#deps.clock.now()
      if (now - sweptAt >= SWEEP_MS && this.#jobs.missing === null) {
        sweptAt = now
        await this.#sweep(signal).catch((error: unknown) => this.#deps.log.debug({ error: textOf(error) }, 'not swept'))
      }
      await this.#deps.clock.sleep(INTERVAL_MS, signal).catch(() => undefined)
    }
  }

  #see(): void {
    const seen = new Set<string>()
    for (const group of this.#jobs.groups()) {
      if (group.watch.tasks.length === 0) continue
      for (const allocation of group.allocations) {
        seen.add(allocation.id)
        const turn = this.#turns.get(allocation.id)
        if (turn !== undefined) turn.watched.see(group, allocation)
        else {
          const watched = new WatchedAllocation(this.#ofOne, group, allocation)
          this.#turns.set(allocation.id, { watched, isMine: false, isBusy: false, due: 0 })
        }
      }
    }
    for (const id of this.#turns.keys()) if (!seen.has(id)) this.#turns.delete(id)
    this.#ofOne.memory.retain((id) => seen.has(id))
    this.#share()
    this.#alarm.wake()
  }

  /** Takes what falls to us and gives away what does not, as soon as a replica comes or goes. */
  #share(): void {
    const { replica, clock } = this.#deps
    this.#alive = replica.alive
    const gained: [string, Turn][] = []
    for (const [id, turn] of this.#turns) {
      const isMine = replica.isMine(id)
      if (isMine && !turn.isMine) gained.push([id, turn])
      if (!isMine && turn.isMine) turn.watched.leave()
      turn.isMine = isMine
    }
    this.#own = [...this.#turns.values()].filter(({ isMine }) => isMine)
    const calls = this.#own.reduce((sum, { watched }) => sum + watched.calls, 0)
    this.#intervalMs = Math.max(INTERVAL_MS, (calls * 1_000) / (this.#ofOne.pace.share * LOOKS_OF_PACE))
    for (const [id, turn] of gained) turn.due = clock.now() + fractionOf(id) * this.#intervalMs
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { clock, replica } = this.#deps
    while (!signal.aborted) {
      if (this.#alive !== replica.alive) this.#share()
      const now = clock.now()
      const next = this.#begin(now, signal)
      // Whoever ends makes room for the next: all that ended meanwhile are followed at once.
      await this.#alarm.sleep(Math.min(INTERVAL_MS, next - now), signal)
      await clock.sleep(SHORTEST_SLEEP_MS, signal).catch(() => undefined)
    }
    while (this.#busy > 0) await this.#alarm.sleep(INTERVAL_MS, NEVER)
  }

  /** Begins what is due, as much as there is room for, and goes on where it ended the last time. Tells when the next is due. */
  #begin(now: number, signal: AbortSignal): number {
    let next = Infinity
    const first = this.#from
    for (let n = 0; n < this.#own.length; n++) {
      const at = (first + n) % this.#own.length
      const turn = this.#own[at] as Turn
      if (turn.isBusy) continue
      if (turn.watched.isOver) turn.due = Math.min(turn.due, now)
      if (turn.due > now) {
        next = Math.min(next, turn.due)
        continue
      }
      this.#from = at
      if (this.#busy >= AT_ONCE) return Infinity
      void this.#lookAt(turn, signal)
    }
    return next
  }

  async #lookAt(turn: Turn, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#deps
    const { watched } = turn
    turn.isBusy = true
    this.#busy++
    let next = this.#intervalMs
    try {
      const why = this.#whyBlocked(watched, clock.now())
      if (why === null) {
        const { blocked, soonMs } = await watched.look(signal)
        this.#block(watched, blocked, clock.now())
        next = blocked === 'too_many' ? TOO_MANY_MS : (soonMs ?? next)
      } else watched.status = { state: 'unknown', detail: why }
    } catch (error) {
      if (!signal.aborted) {
        watched.status = { state: 'unknown', detail: textOf(error) }
        log.debug({ allocation: watched.allocation.id, error: textOf(error) }, 'a look at watched files has failed')
      }
    } finally {
      turn.isBusy = false
      this.#busy--
      turn.due = Math.max(turn.due, clock.now() - next) + next
      this.#alarm.wake()
    }
  }

  #whyBlocked({ allocation: { node, namespace } }: WatchedAllocation, now: number): string | null {
    const block = [`node ${node}`, `namespace ${namespace}`].map((key) => this.#blocked.get(key)).find((one) => one !== undefined)
    return block !== undefined && now < block.until ? block.why : null
  }

  #block({ allocation: { node, namespace }, status }: WatchedAllocation, blocked: Sight['blocked'], now: number): void {
    const why = status.detail
    if (blocked !== 'away') this.#blocked.delete(`node ${node}`)
    else this.#blocked.set(`node ${node}`, { until: now + BLOCKED_MS, why })
    if (blocked === 'denied') {
      if (!this.#blocked.has(`namespace ${namespace}`)) this.#deps.log.warn({ namespace }, missingRight(namespace))
      this.#blocked.set(`namespace ${namespace}`, { until: now + BLOCKED_MS, why: missingRight(namespace) })
    } else if (blocked === null) this.#blocked.delete(`namespace ${namespace}`)
  }

  #missing(): string[] {
    const rights = [...this.#blocked].filter(([key]) => key.startsWith('namespace ')).map(([, { why }]) => why)
    return this.#jobs.missing === null ? rights : [this.#jobs.missing, ...rights]
  }

  async #tell(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#deps.clock.sleep(REPORT_MS, signal).catch(() => undefined)
      if (signal.aborted || this.#turns.size === 0) continue
      const mine = this.#own.map(({ watched }) => [watched.allocation.id, watched.status] as const)
      await this.#reports.store(reportOf(mine, this.#missing()), signal)
    }
  }

  /** What is remembered of allocations that are gone, and told by replicas that are gone. */
  async #sweep(signal: AbortSignal): Promise<void> {
    const { replica, cluster, clock } = this.#deps
    const { memory } = this.#ofOne
    const left = memory.listed().filter((id) => !this.#turns.has(id) && replica.isMine(id))
    for (const id of left.slice(0, SWEPT_AT_ONCE)) {
      const allocation = await cluster.allocation(id, signal)
      if (allocation === null || !mayRun(allocation)) await memory.forget(id, signal)
    }
    await this.#reports.sweep(clock.now(), signal)
  }
}

/** Where in the interval an allocation has its turn, 0 ≤ x < 1: its ID is random, so they spread evenly. */
function fractionOf(id: string): number {
  const digits = Number.parseInt(id.slice(0, 8), 16)
  return Number.isNaN(digits) ? 0 : digits / 2 ** 32
}

function missingRight(namespace: string): string {
  return `files in namespace ${namespace} cannot be seen: the token has no right read-fs there, see deploy/acl/watch.policy.hcl`
}
