import { setMaxListeners } from 'node:events'
import type { Clock } from '../../src/keeper/ports.ts'
import type { Timeline } from './timeline.ts'

export const EPOCH = Date.UTC(2026, 0, 1)

/** One machine with one process: its own clocks, and all ways in. While it is paused its timers and messages stand still, and then
 *  all come; when it has crashed nothing ever reaches it again, so its process ends at whatever await it stood. */
export class Host {
  readonly name: string
  readonly clock: Clock
  readonly #timeline: Timeline
  readonly #gone = new AbortController()
  /** Called when a timer fired or a message arrived. */
  readonly #woken: (what: 'timer' | 'message') => void
  #held: (() => void)[] | null = null
  #skewMs = 0

  constructor(name: string, timeline: Timeline, woken: (what: 'timer' | 'message') => void = () => {}) {
    this.name = name
    this.#timeline = timeline
    this.#woken = woken
    this.clock = this.#makeClock()
    setMaxListeners(0, this.#gone.signal)
  }

  get alive(): boolean {
    return !this.#gone.signal.aborted
  }
  get paused(): boolean {
    return this.#held !== null
  }
  /** Aborts when the host has crashed: its connections break. */
  get gone(): AbortSignal {
    return this.#gone.signal
  }

  pause(): void {
    this.#held ??= []
  }

  resume(): void {
    const held = this.#held ?? []
    this.#held = null
    // Each is an event of its own: the process works through them one after another.
    for (const run of held) this.#timeline.after(0, () => this.#enter(run))
  }

  crash(): void {
    this.#held = null
    this.#gone.abort(new Error(`${this.name} has crashed`))
  }

  /** The wall clock is set; the monotonic one goes on. */
  setWall(skewMs: number): void {
    this.#skewMs = skewMs
  }

  /** A message arrives. */
  deliver(run: () => void): void {
    this.#enter(() => {
      this.#woken('message')
      run()
    })
  }

  #enter(run: () => void): void {
    if (!this.alive) return
    if (this.#held !== null) this.#held.push(run)
    else run()
  }

  #makeClock(): Clock {
    const bootedAt = this.#timeline.now() - 1_000
    const sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
      new Promise((resolve, reject) => {
        if (signal?.aborted === true) return reject(signal.reason)
        let over = false
        const leave = (): void => {
          over = true
          cancel()
          reject(signal?.reason)
        }
        const wake = (): void => {
          if (over) return
          this.#woken('timer')
          signal?.removeEventListener('abort', leave)
          resolve()
        }
        const cancel = this.#timeline.after(ms, () => this.#enter(wake))
        signal?.addEventListener('abort', leave, { once: true })
      })
    return {
      now: () => this.#timeline.now() - bootedAt,
      wall: () => EPOCH + this.#timeline.now() + this.#skewMs,
      sleep,
      after(ms, run) {
        const over = new AbortController()
        sleep(ms, over.signal).then(run, () => {})
        return () => over.abort(OVER)
      },
      within: (ms, signal, work) => within(sleep, ms, signal, work),
    }
  }
}

async function within<T>(
  sleep: Clock['sleep'],
  ms: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const control = new AbortController()
  const over = new AbortController()
  const follow = (): void => control.abort(signal?.reason)
  if (signal?.aborted === true) follow()
  signal?.addEventListener('abort', follow, { once: true })
  sleep(ms, over.signal).then(
    () => control.abort(new DOMException(`no answer within ${ms} ms`, 'TimeoutError')),
    () => {},
  )
  try {
    return await work(control.signal)
  } finally {
    over.abort(OVER)
    signal?.removeEventListener('abort', follow)
  }
}

/** Made once: an abort without a reason makes an exception with a stack each time. */
const OVER = new Error('over')
