import type { Timers } from './timers.ts'

/** What the leader does by itself, and nobody without a leader that works: what is due meanwhile is done as soon as there
 *  is one, in the order in which it came due. */
export class Duties {
  readonly #timers: Timers
  readonly #due = new Set<() => void>()
  #works = true

  constructor(timers: Timers) {
    this.#timers = timers
  }

  /** Whether there is a leader, and it is not stalled. */
  get works(): boolean {
    return this.#works
  }

  /** As `Timers.after`. */
  after(ms: number, work: () => void): () => void {
    let cancel = this.#timers.after(ms, () => (cancel = this.now(work)))
    return () => cancel()
  }

  /** At once where that can be, unless the returned function was called before. */
  now(work: () => void): () => void {
    const due = (): void => work()
    if (this.#works) due()
    else this.#due.add(due)
    return () => this.#due.delete(due)
  }

  rest(): void {
    this.#works = false
  }

  goOn(): void {
    this.#works = true
    for (const work of this.#due) {
      this.#due.delete(work)
      work()
    }
  }
}
