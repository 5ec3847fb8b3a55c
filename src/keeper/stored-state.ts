// The variable of one semaphore: what is known of it, reading it, and writing it by check-and-set.
import { Problem } from '../core/errors.ts'
import { NomadFault } from '../core/nomad-fault.ts'
import type { Scope } from '../core/scope.ts'
import { emptyState, type State } from '../core/state.ts'
import type { Clock, Log, Meter, Variables } from './ports.ts'
import { readSemaphore, semaphoreItems, type Items, type Stored } from './records.ts'

export interface StateDeps {
  readonly variables: Variables
  readonly clock: Clock
  readonly meter: Meter
  readonly log: Log
}

const RETRY_MS = 500

export class StoredState {
  readonly path: string
  readonly #deps: StateDeps
  readonly #scope: Scope
  readonly #changed: (stored: Stored) => void
  #known: Stored | null = null
  /** At which something was stored for certain: a leader that was deposed may still show what was before (facts §2). */
  #newest = 0

  /** `changed` is called whenever another state is known. */
  constructor(deps: StateDeps, scope: Scope, path: string, changed: (stored: Stored) => void) {
    this.#deps = deps
    this.#scope = scope
    this.path = path
    this.#changed = changed
  }

  /** Null: it has to be read. */
  get known(): Stored | null {
    return this.#known
  }

  forget(): void {
    this.#known = null
  }

  /** The stored content as somebody read it; older than what is known, it is ignored. */
  see(index: number, items: Items | null, at: number): void {
    if (index < this.#newest) return
    this.#newest = index
    // A state that is not there starts above every token there ever was: each grant took an index of the table (protocol S1).
    this.#know(
      items === null ? { index: 0, at, state: emptyState(this.#scope, index) } : { index, at, state: readSemaphore(items) },
    )
  }

  /** Never older than what is known, or was. */
  async read(signal: AbortSignal): Promise<Stored> {
    const { variables, clock } = this.#deps
    for (;;) {
      const at = clock.now()
      const { variable, index } = await variables.get(this.path, undefined, signal)
      this.see(variable?.modifyIndex ?? index, variable?.items ?? null, at)
      if (this.#known !== null) return this.#known
      await clock.sleep(RETRY_MS, signal)
    }
  }

  /** The index at which `state` is what is stored; null: it is not, and what is known now is newer. */
  async write(before: Stored, state: State, signal: AbortSignal): Promise<number | null> {
    if (state === before.state) return before.index
    const items = semaphoreItems(state)
    if (items === null) throw new Problem('internal', 'the state of the semaphore would be too large to store')
    const { variables, clock, meter } = this.#deps
    const at = clock.now()
    try {
      const put = await variables.put(this.path, items, before.index, signal)
      if (put.kind === 'written') {
        this.#newest = put.index
        this.#know({ index: put.index, at, state })
        return put.index
      }
      meter.count('cas_conflicts')
      this.forget()
      // No deposed leader answers a write: what it shows is so, though it be older.
      this.#newest = 0
      if (put.current !== null) this.see(put.current.modifyIndex, put.current.items, at)
      // It was removed, or somebody has put a lock of their own on it: either way there is no hurry.
      else await clock.sleep(RETRY_MS, signal)
    } catch (error) {
      if (!(error instanceof NomadFault && error.maybeDone)) throw error
      // It may have happened: the next turn reads, and finds the hold by its id or decides anew (protocol S2).
      this.forget()
      await clock.sleep(RETRY_MS, signal)
    }
    return null
  }

  /** To be called for what `write` has committed. Each replica tells what is its own; `transitions` in the stored state has it all. */
  tell(before: State, after: State): void {
    const known = before.transitions.at(-1)?.seq ?? 0
    for (const { seq, kind, unit, token, reason } of after.transitions) {
      if (seq <= known) continue
      const level = kind === 'failed' || kind === 'halted' ? 'warn' : 'info'
      this.#deps.log[level]({ scope: this.#scope, unit, token, reason }, kind)
    }
  }

  #know(stored: Stored): void {
    this.#known = stored
    this.#changed(stored)
  }
}
