import type { Clock } from '../keeper/ports.ts'

/** Everything that shall happen later. One place, so that closing leaves no timer behind. */
export class Timers {
  readonly #clock: Clock
  readonly #open = new Set<AbortController>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Runs `work` once after `ms`, unless the returned function was called before. */
  after(ms: number, work: () => void): () => void {
    const control = new AbortController()
    this.#open.add(control)
    const done = (): boolean => this.#open.delete(control)
    void this.#clock.sleep(ms, control.signal).then(
      () => {
        if (done()) work()
      },
      () => done(),
    )
    return () => {
      if (done()) control.abort(new DOMException('cancelled', 'AbortError'))
    }
  }

  /** Resolves after `ms`; never, when closed before. */
  wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve))
  }

  close(): void {
    for (const control of this.#open) control.abort(new DOMException('closed', 'AbortError'))
    this.#open.clear()
  }
}
