// What this replica remembers of managed requests, also when they are not stored any more: for whoever follows one. Nothing that is
// decided depends on it.
import type { EndState } from '../core/request.ts'
import type { State, TransitionKind } from '../core/state.ts'
import type { ManagedRecord } from './records.ts'

export interface Remembered {
  readonly record: ManagedRecord
  /** Null: as far as is known here it is open. */
  readonly end: { readonly state: EndState; readonly reason: string } | null
  /** Of the newest transition that told of it. */
  readonly seq: number
}

const KEPT = 10_000
const ENDS: Readonly<Partial<Record<TransitionKind, EndState>>> = {
  healthy: 'done',
  gone: 'gone',
  failed: 'failed',
  forced_release: 'failed',
}

export class RequestMemory {
  readonly #kept = new Map<string, Remembered>()

  know(record: ManagedRecord): void {
    const { seq = 0 } = this.#kept.get(record.key) ?? {}
    this.#keep({ record, end: null, seq })
  }

  end(id: string, state: EndState, reason: string, seq?: number): void {
    const known = this.#kept.get(id)
    if (known === undefined || (seq !== undefined && seq <= known.seq)) return
    this.#keep({ record: known.record, end: { state, reason }, seq: seq ?? known.seq })
  }

  /** How the holds of requests have ended, as the ring of a state tells. */
  see({ transitions }: State): void {
    for (const { kind, request, reason, seq } of transitions) {
      const state = ENDS[kind]
      if (request !== undefined && state !== undefined) this.end(request, state, reason, seq)
    }
  }

  get(id: string): Remembered | null {
    return this.#kept.get(id) ?? null
  }

  all(): Remembered[] {
    return [...this.#kept.values()]
  }

  /** The newest are kept. */
  #keep(one: Remembered): void {
    this.#kept.delete(one.record.key)
    this.#kept.set(one.record.key, one)
    if (this.#kept.size > KEPT) this.#kept.delete(this.#kept.keys().next().value as string)
  }
}
