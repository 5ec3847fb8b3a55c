// From a committed grant to its asker: who is told, and who is not (protocol G2 to G7).
import { Problem } from '../core/errors.ts'
import type { Scope } from '../core/scope.ts'
import { adopt, takeBack } from '../core/semaphore.ts'
import type { Hold, State } from '../core/state.ts'
import type { Change, Commit } from './changes.ts'
import type { ChoreDeps, Chores } from './chores.ts'
import type { ClusterView, JobLook } from './cluster-view.ts'
import { whyNot } from './confirm.ts'
import type { LockView } from './lock-view.ts'
import type { Meter } from './ports.ts'
import type { Stored } from './records.ts'
import { waiterId, type Waiter, type WaitingRoom } from './waiting-room.ts'

export interface HandOutDeps extends ChoreDeps {
  readonly cluster: ClusterView
  readonly locks: LockView
  readonly meter: Meter
}

/** Before the same waiter is granted again after its grant was taken back. */
const PAUSE_MS = 1_000

/** What it needs of its semaphore. */
interface Here {
  readonly commit: Commit
  readonly stored: () => Stored | null
  readonly seeLook: (look: JobLook) => void
}

export class HandOut {
  readonly #deps: HandOutDeps
  readonly #scope: Scope
  readonly #room: WaitingRoom
  readonly #chores: Chores
  readonly #semaphore: Here

  constructor(deps: HandOutDeps, scope: Scope, room: WaitingRoom, chores: Chores, semaphore: Here) {
    this.#deps = deps
    this.#scope = scope
    this.#room = room
    this.#chores = chores
    this.#semaphore = semaphore
  }

  /** Every hold, committed at `index` or before, of somebody who waits here is confirmed and told; one that another replica
   *  granted to the same process is adopted. Whether any such work has begun. */
  start(state: State, index: number): boolean {
    let begun = false
    for (const hold of state.holds) {
      const waiter = this.#room.get(waiterId(hold))
      if (waiter === null || waiter.confirming || waiter.lease === null) continue
      if (hold.phase !== 'acting') {
        // Its actor's part is over before anybody was told, overdue say: the next grant is another hold (protocol E5).
        if (hold.id === waiter.holdId) this.#chores.startOver(waiter)
        continue
      }
      const isOwn = hold.id === waiter.holdId
      if (!isOwn && !this.#mayAdopt(waiter)) continue
      const work = isOwn ? () => this.#confirm(waiter, hold, state, index) : () => this.#adopt(waiter, hold)
      waiter.confirming = true
      this.#chores.run(`confirm ${waiter.id}`, () => work().finally(() => (waiter.confirming = false)))
      begun = true
    }
    return begun
  }

  /** A grant whose asker has gone is taken back; only who is here adopts one, and past a lock nobody is told. */
  #mayAdopt({ poll, lease }: Waiter): boolean {
    return poll !== null && lease?.valid() === true && this.#deps.locks.shuts(this.#scope) === null
  }

  /** After the commit, before anybody is told: the operator locks and the budget are looked at again. */
  async #confirm(waiter: Waiter, hold: Hold, committed: State, index: number): Promise<void> {
    const why = await this.#whyNot(hold, committed, index)
    if (why === null && waiter.lease?.valid() === true && this.#tell(waiter, hold)) return
    this.#deps.meter.count('grants_taken_back')
    const reason = why ?? 'its asker has gone'
    waiter.notBefore = this.#deps.clock.now() + PAUSE_MS
    const change: Change = (state, _, now) => takeBack(state, hold.id, hold.lease.path, reason, now)
    await this.#semaphore.commit(change).finally(() => this.#chores.startOver(waiter))
  }

  async #whyNot({ id }: Hold, committed: State, index: number): Promise<string | null> {
    // What is known of the state may just be read anew; then it is at least what was committed.
    const known = () => this.#semaphore.stored()?.state ?? committed
    const why = await whyNot(this.#deps, this.#scope, id, index, known, this.#semaphore.seeLook)
    if (why !== null) return why
    const state = known()
    if ('unreadable' in state) return state.unreadable
    return state.holds.some((held) => held.id === id) ? null : 'it ended before its asker was told'
  }

  /** The same process asks again: the hold gets a new lease by check-and-set, then the locks, then the answer. */
  async #adopt(waiter: Waiter, hold: Hold): Promise<void> {
    const { path, index, proof } = waiter.lease as NonNullable<Waiter['lease']>
    const change: Change = (state, _, now) => adopt(state, hold.id, waiter.ask.key, { path, index, proof }, now)
    const committed = await this.#semaphore.commit(change)
    const adopted = committed.state.holds.find(({ id, lease }) => id === hold.id && lease.path === path)
    if (adopted === undefined) return
    const locked = await this.#deps.locks.shutsAt(committed.index, this.#scope, this.#deps.signal)
    if (locked === null) this.#tell(waiter, adopted)
    // An adopter that meets a lock leaves the hold to its lease.
    else if (this.#room.tell(waiter, new Problem('locked', locked))) this.#chores.leave(waiter)
  }

  #tell(waiter: Waiter, hold: Hold): boolean {
    const lease = waiter.lease as NonNullable<Waiter['lease']>
    if (!this.#room.tell(waiter, { kind: 'granted', scope: this.#scope, hold, lease: lease.lockId })) return false
    this.#deps.meter.count('grants')
    this.#chores.leave(waiter)
    return true
  }
}
