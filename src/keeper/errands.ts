// Acting for somebody (managed mode, protocol M): from a committed grant of a stored request to the act, under the lease of this
// replica. Whatever process dies, another one looks at the baseline and goes on: what has moved is observed, what has not is done.
import { LAG_MS, mayRun, type GroupSpec } from '../core/cluster.ts'
import { hasStartedSince, isSatisfied, meantTasks, NOT_STARTED, type EndState } from '../core/request.ts'
import type { GroupScope, Scope } from '../core/scope.ts'
import { acted, release, takeBack, takeOver } from '../core/semaphore.ts'
import type { Hold, State } from '../core/state.ts'
import { actOn, MOST_BOUND_MS } from './act.ts'
import type { Commit } from './changes.ts'
import type { Chores } from './chores.ts'
import { specOf, type JobLook } from './cluster-view.ts'
import { whyNot } from './confirm.ts'
import type { HandOutDeps } from './hand-out.ts'
import { isLost } from './lease.ts'
import type { Actions } from './ports.ts'
import { entryOf, isManaged, type Entry, type ManagedEntry } from './queue.ts'
import type { Snapshot } from './watch.ts'

export interface ErrandDeps extends HandOutDeps {
  readonly actions: Actions
}

/** What it needs of its semaphore. */
interface Here {
  readonly commit: Commit
  readonly state: () => State | null
  readonly seeLook: (look: JobLook) => void
}

/** The replica that a semaphore falls to grants at once; another one when nothing has changed for so long, and it could. */
const STEP_IN_MS = 3_000
const LOOK_AGAIN_MS = 1_000
/** Before a request whose grant was taken back is granted again: longer each time that Nomad refuses the act. */
const PAUSE_MS = 1_000
const MOST_PAUSE_MS = 60_000
const STARTED = 'it was started after what was asked for'

export class Errands {
  readonly #deps: ErrandDeps
  readonly #scope: Scope
  readonly #chores: Chores
  readonly #semaphore: Here
  readonly #path: string
  /** When this replica saw the state change last. */
  #movedAt = -Infinity
  #index = -1
  readonly #pauses = new Map<string, { until: number; ms: number }>()
  /** By hold: a call was sent and not answered, and until this monotonic time it may be executed, or not be seen (protocol M2). */
  readonly #unsure = new Map<string, number>()
  /** By hold: the tasks that are done already, each with the ModifyIndex of the request that it was done for. */
  readonly #did = new Map<string, Map<string, number>>()

  constructor(deps: ErrandDeps, scope: Scope, chores: Chores, semaphore: Here) {
    this.#deps = deps
    this.#scope = scope
    this.#chores = chores
    this.#semaphore = semaphore
    this.#path = deps.paths.semaphore(scope)
  }

  /** Which requests this replica may grant now: it could act, and it is its turn among the replicas. For one decision. */
  mayGrantNow(): (entry: Entry) => boolean {
    const { replica, clock } = this.#deps
    const now = clock.now()
    if (replica.lease?.valid() !== true) return () => false
    let isMine: boolean | null = null
    return ({ path, knownAt }) => {
      if ((this.#pauses.get(path)?.until ?? -Infinity) > now) return false
      return (isMine ??= replica.isMine(this.#path)) || now - Math.max(knownAt, this.#movedAt) >= STEP_IN_MS
    }
  }

  /** Ends requests that have nothing left to do: their unit is stopping or gone, or was started after what was asked for. */
  dismiss(look: JobLook, group: GroupSpec | null, held: ReadonlySet<string>): void {
    // One that is held ends with its hold (protocol M5). One that came after the look is not judged by it.
    const judged = [...this.#chores.queue.known.entries.values()]
      .filter(isManaged)
      .filter(({ record, knownAt }) => !held.has(record.unit) && knownAt <= look.at)
    if (judged.length === 0) return
    const units = new Map(look.allocations.filter(mayRun).map((allocation) => [allocation.id, allocation]))
    for (const entry of judged) {
      const unit = units.get(entry.record.unit)
      if (unit === undefined) this.#end(entry, 'gone', 'its allocation is stopping or gone')
      else if (group !== null && isSatisfied(entry.record, unit, group)) this.#end(entry, 'done', STARTED)
    }
  }

  #end(entry: ManagedEntry, state: EndState, reason: string): void {
    this.#chores.run(`end ${entry.path} ${entry.modifyIndex}`, () => this.#chores.queue.end(entry, state, reason))
  }

  /** Goes on with every managed hold that is ours to act for, committed at `index` or before. */
  start(state: State, index: number): void {
    // A read from a leader that was deposed may show a hold acting that is so no more.
    if (index < this.#index) return
    if (index !== this.#index) this.#movedAt = this.#deps.clock.now()
    this.#index = index
    for (const path of this.#pauses.keys()) if (!this.#chores.queue.known.entries.has(path)) this.#pauses.delete(path)
    const held = new Set(state.holds.map(({ id }) => id))
    for (const known of [this.#unsure, this.#did]) for (const id of known.keys()) if (!held.has(id)) known.delete(id)
    for (const hold of state.holds) {
      if (!this.#isOurs(hold)) continue
      this.#chores.run(`act ${hold.id} ${hold.lease.path}`, () => this.#run(hold, state, index))
    }
  }

  /** A managed hold whose replica is lost goes on under the lease of another one (protocol M3). */
  async takeOverLost(snapshot: Snapshot): Promise<void> {
    const { replica } = this.#deps
    for (const hold of this.#semaphore.state()?.holds ?? []) {
      const { lease } = replica
      if (hold.phase !== 'acting' || !hold.managed || !isLost(hold.lease, snapshot)) continue
      if (lease?.valid() !== true || !replica.isMine(hold.id)) continue
      const by = { lease: { path: lease.path, index: lease.index, proof: lease.proof }, actor: replica.name }
      await this.#semaphore.commit((now, _, at) => takeOver(now, hold.id, hold.lease.path, by, at))
    }
  }

  /** A replica with a new lease drops the work of its old one. */
  #isOurs(hold: Hold): boolean {
    return hold.managed && hold.phase === 'acting' && hold.lease.path === this.#deps.replica.lease?.path
  }

  async #run(hold: Hold, committed: State, index: number): Promise<void> {
    const { clock, signal } = this.#deps
    // What its predecessor did at its last moment must be visible first (facts §4).
    if (hold.adopted > 0) await clock.sleep(LAG_MS, signal)
    let isConfirmed = false
    for (;;) {
      const unsureMs = (this.#unsure.get(hold.id) ?? -Infinity) - clock.now()
      if (unsureMs > 0) await clock.sleep(unsureMs, signal)
      const look = await this.#look()
      if (!this.#stands(hold)) return
      const where = standing(hold, look)
      if (where.kind === 'over') return await this.#acted(hold, hold)
      if (where.kind === 'acted') return await this.#seenActed(hold, look, index)
      if (where.kind === 'to_do' && !isConfirmed) {
        const known = () => this.#semaphore.state() ?? committed
        const why = await whyNot(this.#deps, this.#scope, hold.id, index, known, this.#semaphore.seeLook)
        if (why !== null) return await this.#stop(hold, where.moved, why)
        isConfirmed = true
      }
      if (where.kind === 'to_do' && (await this.#act(hold, look, index, where.moved))) return
      await clock.sleep(LOOK_AGAIN_MS, signal)
    }
  }

  /** True: it is over for us. False: look again. Only what is seen then tells whether an act without an answer has happened. */
  async #act(hold: Hold, look: JobLook, index: number, moved: readonly string[]): Promise<boolean> {
    const { actions, replica, clock, meter, signal } = this.#deps
    const request = await this.#request(hold, index)
    const group = specOf(look, this.#scope as GroupScope)
    if (group === null) return false
    if (request === null || this.#isDone(request, look)) {
      if (request !== null) await this.#chores.queue.end(request, 'done', STARTED)
      await this.#stop(hold, moved, request === null ? 'its request was withdrawn' : 'it was started meanwhile')
      return true
    }
    const { tasks, action, signal: name } = request.record
    const running = meantTasks(tasks, group).map((task) => task.name)
    const lease = replica.lease
    if (lease === null || !this.#stands(hold)) return true
    if (hold.adopted === 0) meter.count('grants')
    const done = this.#did.get(hold.id) ?? new Map<string, number>()
    this.#did.set(hold.id, done)
    // What was done for the request as it stood before is done again (protocol M6).
    const did = new Set([...moved, ...[...done.keys()].filter((task) => done.get(task) === request.modifyIndex)])
    const what = { unit: hold.unit, action, tasks, running, signal: name, did }
    const wasUnsure = this.#unsure.has(hold.id)
    this.#unsure.set(hold.id, clock.now() + MOST_BOUND_MS + LAG_MS)
    const said = await actOn(actions, replica, lease, what, clock, signal)
    for (const task of did) done.set(task, request.modifyIndex)
    if (said.kind === 'unknown') {
      this.#unsure.set(hold.id, clock.now() + LAG_MS)
      return false
    }
    if (!wasUnsure) this.#unsure.delete(hold.id)
    if (said.kind === 'refused') {
      const last = this.#pauses.get(request.path)?.ms ?? PAUSE_MS
      await this.#stop(hold, moved, said.why, Math.min(2 * last, MOST_PAUSE_MS))
    } else if (said.kind === 'done') {
      const isWhole = moved.length === 0 || this.#isDone({ ...request, record: { ...request.record, tasks: moved } }, look)
      await this.#acted(hold, { request: isWhole ? request.modifyIndex : null, tasks, action })
    }
    return said.kind === 'refused' || said.kind === 'done'
  }

  async #acted({ id, lease }: Hold, { request, tasks, action }: Pick<Hold, 'request' | 'tasks' | 'action'>): Promise<void> {
    await this.#semaphore.commit((state, policy, now) => acted(state, id, lease.path, { request, tasks, action }, policy, now))
  }

  /** It was restarted since its baseline, by whomever. That baseline may be older than the request, which is done only by what came
   *  after it; else it stays. */
  async #seenActed(hold: Hold, look: JobLook, index: number): Promise<void> {
    const request = await this.#request(hold, index)
    const isDone = request !== null && this.#isDone(request, look)
    await this.#acted(hold, { ...hold, request: isDone ? request.modifyIndex : null })
  }

  #isDone({ record }: ManagedEntry, look: JobLook): boolean {
    const unit = look.allocations.find(({ id }) => id === record.unit)
    const group = specOf(look, this.#scope as GroupScope)
    return unit !== undefined && group !== null && isSatisfied(record, unit, group)
  }

  /** Only where nothing can have been done is a grant taken back (protocol M3). What was done is observed. What may have been, too, until
   *  the unit is seen to be as it was: while the agent of its node is silent, the servers show it so (protocol E6). The request stays. */
  async #stop(hold: Hold, moved: readonly string[], why: string, pauseMs = PAUSE_MS): Promise<void> {
    const { id, adopted, lease } = hold
    if (moved.length > 0) return await this.#acted(hold, { ...hold, request: null, tasks: moved })
    const mayHaveActed = adopted > 0 || this.#unsure.has(id) || (this.#did.get(id)?.size ?? 0) > 0
    if (!mayHaveActed) return await this.#takeBack(hold, why, pauseMs)
    await this.#semaphore.commit((state, policy, now) => release(state, id, lease.path, 'failed', policy, now))
  }

  /** Whether the hold is still ours, as far as is known here. */
  #stands({ id, lease }: Hold): boolean {
    const current = this.#semaphore.state()?.holds.find((held) => held.id === id)
    return current !== undefined && current.lease.path === lease.path && this.#isOurs(current)
  }

  async #takeBack(hold: Hold, why: string, pauseMs: number): Promise<void> {
    const { clock, meter, paths } = this.#deps
    const path = paths.managedRequest(this.#scope, hold.unit)
    this.#pauses.set(path, { until: clock.now() + pauseMs, ms: pauseMs })
    meter.count('grants_taken_back')
    await this.#semaphore.commit((state, _, now) => takeBack(state, hold.id, hold.lease.path, why, now))
  }

  async #look(): Promise<JobLook> {
    const look = await this.#deps.cluster.look(this.#scope as GroupScope, this.#deps.clock.now())
    this.#semaphore.seeLook(look)
    return look
  }

  /** The request as it is now, read at `index` or later (protocol M4). Null: it is not there any more. */
  async #request(hold: Hold, index: number): Promise<ManagedEntry | null> {
    const { variables, clock, paths, signal } = this.#deps
    const path = paths.managedRequest(this.#scope, hold.unit)
    for (;;) {
      const list = await variables.list(path, undefined, signal)
      if (list.index >= index) {
        const meta = list.variables.find((one) => one.path === path)
        const known = this.#chores.queue.known.entries.get(path)
        if (meta === undefined) return null
        if (known?.modifyIndex === meta.modifyIndex && isManaged(known)) return known
        const { variable } = await variables.get(path, undefined, signal)
        const entry = variable === null ? null : entryOf(variable, clock.now())
        if (entry?.modifyIndex === meta.modifyIndex) return isManaged(entry) ? entry : null
      }
      await clock.sleep(LOOK_AGAIN_MS, signal)
    }
  }
}

interface Standing {
  /** `down`: between two starts, or starting: what comes of it will be seen. */
  readonly kind: 'over' | 'acted' | 'down' | 'to_do'
  /** The tasks that were restarted, or told to stop. */
  readonly moved: readonly string[]
}

/** Where the unit stands against the hold's baseline. */
function standing({ unit, tasks, action, baseline }: Hold, look: JobLook): Standing {
  const allocation = look.allocations.find(({ id }) => id === unit)
  if (allocation === undefined || !mayRun(allocation)) return { kind: 'over', moved: [] }
  if (action !== 'restart') return { kind: 'to_do', moved: [] }
  const meant = Object.entries(allocation.tasks).filter(([name]) => tasks.length === 0 || tasks.includes(name))
  const hasMoved = ([name, task]: (typeof meant)[number]) => task.stopping || hasStartedSince(baseline[name] ?? NOT_STARTED, task)
  const moved = meant.filter(hasMoved).map(([name]) => name)
  if (moved.length > 0 && (tasks.length === 0 || moved.length === meant.length)) return { kind: 'acted', moved }
  return { kind: meant.some((one) => !hasMoved(one) && one[1].state === 'running') ? 'to_do' : 'down', moved }
}
