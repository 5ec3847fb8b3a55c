// One semaphore at one replica: read, decide, check-and-set, over and over. All that this replica wants to change is merged into
// one write (group commit): a settled hold and the next grant are one. Any number of replicas run this for the same semaphore.
import { admit, inOrder, type Candidate, type Look, type Plan, type Wait } from '../core/admission.ts'
import { NO_GROUP } from '../core/budget.ts'
import { Problem } from '../core/errors.ts'
import { NomadFault } from '../core/nomad-fault.ts'
import { fallbackPolicy, policyFault, type Policy, type ResolvedPolicy } from '../core/policy.ts'
import { isGroupScope, type Scope } from '../core/scope.ts'
import { grant } from '../core/semaphore.ts'
import { MAX_HOLDS, type Hold, type State } from '../core/state.ts'
import { Alarm } from './alarm.ts'
import { Changes, type Commit } from './changes.ts'
import { Chores } from './chores.ts'
import { groupOf, type JobLook } from './cluster-view.ts'
import { Errands, type ErrandDeps } from './errands.ts'
import { HandOut } from './hand-out.ts'
import { askedBy, askedOfUs, newHold } from './new-hold.ts'
import type { ManagedEntry } from './queue.ts'
import { semaphoreItems, type Items, type Stored } from './records.ts'
import { StoredState } from './stored-state.ts'
import { WaitingRoom, requestOf, type Waiter } from './waiting-room.ts'

export interface QueueSeen {
  readonly ordered: readonly Candidate[]
  readonly waits: ReadonlyMap<string, Wait>
}

/** A look at the group that is older than this admits nobody. Observers look once a second. */
const LOOK_MS = 1_500
const TICK_MS = 1_000
const RETRY_MS = 500
/** With thousands of waiters a decision takes a while: then at most a fifth of the time goes into decisions, unless a change of the
 *  state is wanted, which is what frees a slot. */
const SLOW_MS = 2
const PAUSE_FACTOR = 4

export class Semaphore {
  readonly scope: Scope
  readonly room: WaitingRoom
  readonly chores: Chores
  /** Wants a change of the state; see Changes. */
  readonly commit: Commit
  readonly #deps: ErrandDeps
  readonly #stored: StoredState
  readonly #changes: Changes
  readonly #handOut: HandOut
  readonly errands: Errands
  readonly #alarm: Alarm
  /** Rings when a change is wanted. */
  readonly #hurry: Alarm
  readonly #fallback: ResolvedPolicy
  #look: JobLook | null = null
  /** What the look says of our group: worked out once, for all turns until the next look. */
  #group: ReturnType<typeof groupOf> = null

  /** `changed` is called whenever another state is known. */
  constructor(deps: ErrandDeps, scope: Scope, changed: () => void) {
    this.#deps = deps
    this.scope = scope
    this.#stored = new StoredState(deps, scope, deps.paths.semaphore(scope), ({ state }) => {
      if (!('unreadable' in state)) deps.memory.see(state)
      changed()
    })
    this.#fallback = fallbackPolicy(scope)
    this.#alarm = new Alarm(deps.clock)
    this.#alarm.wake()
    this.#hurry = new Alarm(deps.clock)
    this.room = new WaitingRoom(scope, deps.paths, deps.clock)
    this.chores = new Chores(deps, scope, this.room, () => this.wake())
    this.#changes = new Changes(deps.clock, () => {
      this.#hurry.wake()
      this.wake()
    })
    this.commit = (change, signal) => this.#changes.commit(change, signal)
    const seeLook = (look: JobLook) => this.seeLook(look)
    this.errands = new Errands(deps, scope, this.chores, { commit: this.commit, state: () => this.state, seeLook })
    this.#handOut = new HandOut(deps, scope, this.room, this.chores, { commit: this.commit, stored: () => this.stored, seeLook })
  }

  get stored(): Stored | null {
    return this.#stored.known
  }
  /** The state that is stored, as far as it is known and can be read. */
  get state(): State | null {
    const state = this.stored?.state
    return state === undefined || 'unreadable' in state ? null : state
  }
  get look(): JobLook | null {
    return this.#look
  }

  /** The policy in force, from the newest look at the job. */
  get policy(): ResolvedPolicy {
    return this.#group?.resolved ?? this.#fallback
  }

  /** Whether there is nothing to do or to watch here. */
  get isIdle(): boolean {
    const state = this.stored?.state
    const quiet = state !== undefined && ('unreadable' in state || (state.holds.length === 0 && state.failures.length === 0))
    return quiet && !this.#isWaitedFor && this.#changes.size === 0
  }

  get #isWaitedFor(): boolean {
    return this.room.size > 0 || this.chores.queue.known.entries.size > 0
  }

  /** How many wait, here or elsewhere. */
  get waiting(): number {
    return this.room.candidates(this.chores.queue.known, this.state?.holds ?? [], () => false).length
  }

  wake(): void {
    this.#alarm.wake()
  }

  /** A newer look at the job, made by whoever needed it. */
  seeLook(look: JobLook): void {
    if (isGroupScope(this.scope) && look.at > (this.#look?.at ?? -Infinity)) {
      this.#look = look
      this.#group = groupOf(look, this.scope)
    }
    this.wake()
  }

  /** The stored content as somebody read it; older than what is known, it is ignored. */
  seeStored(index: number, items: Items | null, at: number): void {
    this.#stored.see(index, items, at)
    this.wake()
  }

  /** A request as somebody read or wrote it. */
  seeRequest(entry: ManagedEntry): void {
    this.chores.queue.put(entry)
    this.wake()
  }

  /** A request that somebody removed: it was gone at this index. */
  seeRequestGone(path: string, goneAt: number): void {
    this.chores.queue.forget(path, goneAt)
    this.wake()
  }

  /** The queue as it stands, with why each one waits, from a look at the group that begins now. */
  async queue(): Promise<QueueSeen> {
    const { clock, cluster } = this.#deps
    if (isGroupScope(this.scope)) this.seeLook(await cluster.look(this.scope, clock.now()))
    return this.queueNow()
  }

  /** The same, from what is known here. */
  queueNow(): QueueSeen {
    const { state } = this
    if (state === null) return { ordered: [], waits: new Map() }
    const { ordered, plan } = this.#decide(state, this.policy.policy, this.#deps.clock.wall())
    return { ordered, waits: plan.waits }
  }

  /** The hold of a unit, in a state that was read after this call; null: it has none. */
  async heldNow(unit: string, signal: AbortSignal): Promise<Hold | null> {
    const { state } = await this.commit((same) => same, signal)
    return state.holds.find((hold) => hold.unit === unit) ?? null
  }

  /** Turns until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#deps
    while (!signal.aborted) {
      await this.#alarm.sleep(this.#nextTick(), signal)
      if (signal.aborted) break
      try {
        const busyMs = await this.#turn(signal)
        if (busyMs >= SLOW_MS) await this.#hurry.sleep(PAUSE_FACTOR * busyMs, signal)
      } catch (error) {
        if (signal.aborted) break
        log.warn({ scope: this.scope, error: String(error) }, 'a turn failed; it is tried again')
        this.#afterFailure(error)
        await clock.sleep(RETRY_MS, signal).catch(() => undefined)
        this.wake()
      }
    }
    const reason = new Problem('shutting_down', 'this replica is shutting down; ask another one')
    this.#changes.fail(reason)
    for (const waiter of this.room.all()) waiter.poll?.(reason)
  }

  /** What Nomad refuses, it will refuse again: those who wait for it are told. What it did not answer is tried again. */
  #afterFailure(error: unknown): void {
    this.#stored.forget()
    this.room.forgetDecided()
    if (error instanceof NomadFault && error.kind === 'unavailable') return
    const denied = error instanceof NomadFault && error.kind === 'denied'
    const problem = denied
      ? new Problem('nomad_denied', `Nomad refuses to write ${this.#stored.path}; see deploy/acl`, {}, error)
      : error
    this.#changes.fail(problem)
  }

  #nextTick(): number {
    return (isGroupScope(this.scope) && this.#isWaitedFor) || this.chores.isRestless ? TICK_MS : 30 * TICK_MS
  }

  /** One step: what is known, what is wanted, one write. Answers with how long it decided, in milliseconds. */
  async #turn(signal: AbortSignal): Promise<number> {
    const { clock } = this.#deps
    const stored = this.stored ?? (await this.#stored.read(signal))
    if ('unreadable' in stored.state) return this.#refuse(stored.state.unreadable)
    const begunAt = clock.now()
    this.chores.queue.consume(stored.state, stored.index)
    this.#dismiss()
    const { policy } = this.policy
    const now = clock.wall()
    this.#hurry.silence()
    const changes = this.#changes.apply(stored.state, stored.at, policy, now)
    if (changes.unproved) {
      this.#stored.forget()
      return this.#again()
    }
    const { ordered, plan } = this.#decide(changes.state, policy, now)
    const state = this.#withGrants(changes.state, plan, now)
    const writingAt = clock.now()
    const index = await this.#stored.write(stored, state, signal)
    if (index === null) return this.#again()
    // The next holder waits for a list of the locks. It leaves with the next round of the event loop, so all else that is to be sent
    // begins after that: a tenth to a fifth of a hand-over (measured).
    if (this.#handOut.start(state, index)) await clock.sleep(0)
    const writtenAt = clock.now()
    this.#stored.tell(stored.state, state)
    changes.settle(state, index)
    this.room.explain(ordered, plan, state.holds)
    this.errands.start(state, index)
    this.chores.start(ordered, plan, policy.maxParallel === 0 ? MAX_HOLDS : policy.maxParallel, (this.stored ?? stored).at)
    this.#refreshLook()
    return clock.now() - writtenAt + writingAt - begunAt
  }

  #again(): number {
    this.wake()
    return 0
  }

  /** The grants of the plan, as long as the state with them can be stored. */
  #withGrants(before: State, plan: Plan, now: number): State {
    return plan.grants.reduce((state, { candidate, slot, wasUp }) => {
      const granted = grant(state, newHold(this.#asked(candidate.id), { slot, wasUp }, this.#look), now)
      return semaphoreItems(granted) === null ? state : granted
    }, before)
  }

  #asked(candidateId: string) {
    const queue = this.chores.queue.known
    const { replica, newId } = this.#deps
    const waiter = this.room.get(candidateId)
    if (waiter === null) return askedOfUs(queue.entries.get(candidateId) as ManagedEntry, replica, newId())
    return askedBy(waiter, requestOf(waiter, queue)?.modifyIndex ?? null)
  }

  /** Whoever can never be granted need not wait: its allocation is stopping or gone, or the policy has become wrong. */
  #dismiss(): void {
    const look = this.#look
    if (look === null || !isGroupScope(this.scope)) return
    const running = new Set(look.allocations.filter(({ desired }) => desired === 'run').map(({ id }) => id))
    const { faults } = this.policy
    this.errands.dismiss(look, this.#group?.group ?? null, new Set(this.state?.holds.map(({ unit }) => unit)))
    for (const waiter of this.room.all()) {
      if (waiter.confirming || waiter.arrivedAt > look.at) continue
      const gone = `allocation ${waiter.ask.unit} is stopping or gone; there is nothing to restart any more`
      if (!running.has(waiter.ask.unit)) this.#send(waiter, new Problem('allocation_finished', gone))
      else if (faults.length > 0) this.#send(waiter, policyFault(this.scope, faults))
    }
  }

  #send(waiter: Waiter, problem: Problem): void {
    if (this.room.tell(waiter, problem)) this.chores.leave(waiter)
  }

  #decide(state: State, policy: Policy, now: number) {
    const look = this.#admissionLook()
    const candidates = this.room.candidates(this.chores.queue.known, state.holds, this.errands.mayGrantNow())
    const ordered = inOrder(candidates, state, look.group)
    return { ordered, plan: admit(state, ordered, look, policy, now) }
  }

  #admissionLook(): Look {
    const locked = this.#deps.locks.shuts(this.scope)
    if (!isGroupScope(this.scope)) return { locked, deploying: false, group: NO_GROUP }
    const fresh = this.#look !== null && this.#deps.clock.now() - this.#look.at <= LOOK_MS ? this.#look : null
    const group = fresh === null ? null : (this.#group?.view ?? null)
    return { locked, deploying: fresh?.deploying ?? false, group }
  }

  #refuse(why: string): number {
    const text = `the variable ${this.#stored.path} cannot be used: ${why}. It is left as it is and the semaphore stays shut; mend or remove it`
    const problem = new Problem('state_unreadable', text)
    this.#changes.fail(problem)
    for (const waiter of this.room.all()) this.room.tell(waiter, problem)
    return 0
  }

  #refreshLook(): void {
    if (!this.#isWaitedFor || !isGroupScope(this.scope)) return
    const { scope } = this
    const now = this.#deps.clock.now()
    if (this.#look !== null && now - this.#look.at < LOOK_MS) return
    this.chores.run('look', async () => this.seeLook(await this.#deps.cluster.look(scope, now)))
  }
}
