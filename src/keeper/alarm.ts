import type { Clock } from './ports.ts'

/** Made once: an abort without a reason makes an exception with a stack each time. */
const RUNG = new Error('woken')

/** Lets a loop sleep until it is woken. A wake that comes while the loop is busy is kept for its next sleep: none is lost. */
export class Alarm {
  readonly #clock: Clock
  #rung = false
  #ring: (() => void) | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  wake(): void {
    this.#rung = true
    this.#ring?.()
  }

  /** Forgets the wakes that came until now. */
  silence(): void {
    this.#rung = false
  }

  /** Returns when somebody wakes, after `ms`, or when the signal aborts. */
  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.#rung && !signal.aborted) {
      const ringing = new AbortController()
      this.#ring = () => ringing.abort(RUNG)
      signal.addEventListener('abort', this.#ring, { once: true })
      await this.#clock.sleep(ms, ringing.signal).catch(() => undefined)
      signal.removeEventListener('abort', this.#ring)
      this.#ring = null
    }
    this.#rung = false
  }
}
