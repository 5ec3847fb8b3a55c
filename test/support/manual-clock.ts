import type { Clock } from '../../src/keeper/ports.ts'

interface Sleeper {
  readonly at: number
  readonly order: number
  readonly wake: () => void
}

/** Time that moves only by `advance`. `now` and `wall` move together, from different zeros. */
export class ManualClock implements Clock {
  readonly #epoch: number
  #now = 0
  #order = 0
  #sleepers: Sleeper[] = []

  constructor(epoch = Date.UTC(2026, 0, 1)) {
    this.#epoch = epoch
  }

  now(): number {
    return this.#now
  }

  wall(): number {
    return this.#epoch + this.#now
  }

  /** How many sleep. After a test that has ended everything: 0. */
  get pending(): number {
    return this.#sleepers.length
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason)
      const leave = (): void => {
        this.#sleepers = this.#sleepers.filter((one) => one !== sleeper)
        reject(signal?.reason)
      }
      const sleeper: Sleeper = {
        at: this.#now + Math.max(0, ms),
        order: this.#order++,
        wake: () => {
          signal?.removeEventListener('abort', leave)
          resolve()
        },
      }
      signal?.addEventListener('abort', leave, { once: true })
      this.#sleepers.push(sleeper)
    })
  }

  after(ms: number, run: () => void): () => void {
    const over = new AbortController()
    this.sleep(ms, over.signal).then(run, () => {})
    return () => over.abort()
  }

  async within<T>(ms: number, signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const control = new AbortController()
    const over = new AbortController()
    const follow = (): void => control.abort(signal?.reason)
    if (signal?.aborted === true) follow()
    signal?.addEventListener('abort', follow, { once: true })
    this.sleep(ms, over.signal).then(
      () => control.abort(new DOMException(`no answer within ${ms} ms`, 'TimeoutError')),
      () => {},
    )
    try {
      return await work(control.signal)
    } finally {
      over.abort()
      signal?.removeEventListener('abort', follow)
    }
  }

  /** Moves on by `ms`: wakes who is due, in the order of their times, and lets everything that follows from each of them
   *  happen before the next. Sockets need `settle` as well. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms
    await settle()
    for (;;) {
      const next = this.#next(end)
      if (next === undefined) break
      this.#now = next.at
      this.#sleepers = this.#sleepers.filter((one) => one !== next)
      next.wake()
      await settle()
    }
    this.#now = end
    await settle()
  }

  #next(end: number): Sleeper | undefined {
    let first: Sleeper | undefined
    for (const one of this.#sleepers) {
      if (one.at > end) continue
      if (first === undefined || one.at < first.at || (one.at === first.at && one.order < first.order)) first = one
    }
    return first
  }
}

/** Lets promise chains run until they wait for time or for a socket. */
export async function settle(rounds = 2): Promise<void> {
  for (let i = 0; i < rounds; i++) await new Promise((resolve) => setImmediate(resolve))
}
