// Room events: the event stream, with all its traps (facts §2; Nomad's nomad/stream, measured).
// This file: what has happened, as far as it is remembered.

export type Topic = 'Variable' | 'Allocation' | 'Job' | 'Deployment' | 'Node' | 'Evaluation'

export interface Event {
  readonly Topic: Topic
  readonly Type: string
  readonly Key: string
  readonly Namespace: string
  readonly FilterKeys: readonly string[] | null
  readonly Index: number
  readonly Payload: object
}

/** What happened at one index. */
export interface Batch {
  readonly Index: number
  readonly Events: readonly Event[]
}

/** The last batches, in order. Who reads is woken by `changed`; a reader that is too slow loses its place. */
export class EventBuffer {
  readonly #size: number
  readonly #listeners = new Set<() => void>()
  #batches: { readonly Index: number; readonly Events: Event[] }[] = []
  /** The index of the last batch that was pushed out. */
  #dropped = 0
  #told = false

  constructor(size: number) {
    this.#size = size
  }

  publish(event: Event): void {
    const last = this.#batches.at(-1)
    if (last?.Index === event.Index) last.Events.push(event)
    else this.#batches.push({ Index: event.Index, Events: [event] })
    if (this.#batches.length > this.#size) this.#dropped = this.#batches.shift()?.Index ?? 0
    // Not before the whole entry has been applied.
    if (this.#told) return
    this.#told = true
    void Promise.resolve().then(() => {
      this.#told = false
      for (const listener of this.#listeners) listener()
    })
  }

  /** Where a reader begins: the first batch at or after the index. What is older than the buffer is skipped without a word;
   *  an index that is yet to come begins with the last batch there is. */
  from(index: number): Batch | undefined {
    return this.#batches.find((batch) => batch.Index >= index) ?? this.#batches.at(-1)
  }

  /** The batch after one that was read; `lost` when that one has been forgotten meanwhile. */
  after(index: number): Batch | 'lost' | undefined {
    if (index > 0 && this.#dropped > index) return 'lost'
    return this.#batches.find((batch) => batch.Index > index)
  }

  /** Script: nothing is remembered any more. */
  forget(): void {
    this.#batches = []
  }

  changed(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }
}
