import type { Raft } from '../raft.ts'
import type { Duties } from '../duties.ts'
import { LockTimers } from './locks.ts'
import type { Lock } from './rules.ts'
import { VariablesTable, type Outcome, type Variable, type VariableWritten, type VariablesView, type Write } from './table.ts'

export type Renewed =
  { readonly kind: 'renewed'; readonly variable: Variable } | { readonly kind: 'missing' | 'unlocked' | 'lost' }

/** Table and lock timers together: what the leader does. */
export class Variables {
  readonly table: VariablesTable
  readonly #locks: LockTimers
  readonly #copy: () => VariablesTable
  #past: VariablesTable | undefined

  constructor(raft: Raft, duties: Duties, wall: () => number, written: VariableWritten) {
    this.table = new VariablesTable(raft, wall, written)
    this.#copy = () => new VariablesTable(raft, wall, written, this.table)
    this.#locks = new LockTimers(duties, ({ namespace, path }) => this.table.expire(namespace, path))
  }

  acquire(write: Write & { readonly lock: Lock }): Outcome {
    const outcome = this.table.acquire(write)
    if (outcome.kind === 'done') this.#locks.started(write)
    return outcome
  }

  /** Only the timer: no write, no index (facts §2). */
  renew(namespace: string, path: string, lockId: string): Renewed {
    const variable = this.table.get(namespace, path)
    if (variable === undefined) return { kind: 'missing' }
    if (variable.lock === null) return { kind: 'unlocked' }
    if (variable.lock.id !== lockId || !this.#locks.renew(variable.lock)) return { kind: 'lost' }
    return { kind: 'renewed', variable }
  }

  release(namespace: string, path: string, lockId: string): Outcome {
    const outcome = this.table.release(namespace, path, lockId)
    if (outcome.kind === 'done') this.#locks.released(lockId)
    return outcome
  }

  /** What a read shows: of the past, from a deposed leader. */
  view(past: boolean): VariablesView {
    return past && this.#past !== undefined ? this.#past : this.table
  }

  /** Keeps what is there now for who reads from a deposed leader. */
  freeze(): void {
    this.#past = this.#copy()
  }

  thaw(): void {
    this.#past = undefined
  }

  leaderLost(): void {
    this.#locks.stop()
  }

  /** A new leader gives every lock a fresh 2 × TTL, immortal ones and those in their delay too. */
  leaderElected(): void {
    for (const { namespace, path, lock } of this.table.list('*', '')) {
      if (lock !== null) this.#locks.started({ namespace, path, lock })
    }
  }
}
