import type { Timers } from '../timers.ts'
import type { Event, EventBuffer } from './event-buffer.ts'

export interface Subscription {
  /** 0: all that is remembered. */
  readonly index: number
  /** Whether a line shows this event. Asked anew for every event; undefined: the token is worth nothing any more. */
  readonly shows: (event: Event) => boolean | undefined
  readonly signal: AbortSignal | undefined
}

const HEARTBEAT_MS = 30_000
const HEARTBEAT = '{}\n'

/** Everybody who listens. */
export class EventStreams {
  readonly #buffer: EventBuffer
  readonly #timers: Timers
  readonly #open = new Set<() => void>()

  constructor(buffer: EventBuffer, timers: Timers) {
    this.#buffer = buffer
    this.#timers = timers
  }

  /** Ends all streams as if nothing had happened: no error, no last line. */
  endAll(): void {
    for (const end of this.#open) end()
  }

  /** Lines of JSON: a heartbeat at once and every 30 s, between them what happens. */
  async *open({ index, shows, signal }: Subscription): AsyncGenerator<string> {
    const inbox = new Inbox()
    const end = (): void => inbox.end()
    const unlisten = this.#buffer.changed(() => inbox.wake())
    let cancelBeat = (): void => {}
    const beat = (): void => {
      cancelBeat = this.#timers.after(HEARTBEAT_MS, () => {
        inbox.beats += 1
        inbox.wake()
        beat()
      })
    }
    this.#open.add(end)
    signal?.addEventListener('abort', end, { once: true })
    if (signal?.aborted === true) inbox.end()
    beat()
    try {
      yield HEARTBEAT
      let batch = this.#buffer.from(index)
      let read = 0
      while (!inbox.over) {
        if (batch !== undefined) {
          read = batch.Index
          const verdicts = batch.Events.map((event) => ({ event, shown: shows(event) }))
          if (verdicts.some(({ shown }) => shown === undefined)) return
          const Events = verdicts.filter(({ shown }) => shown).map(({ event }) => event)
          if (Events.length > 0) yield `${JSON.stringify({ Index: batch.Index, Events })}\n`
        }
        const next = this.#buffer.after(read)
        if (next === 'lost') return
        batch = next
        if (batch !== undefined) continue
        await inbox.next()
        for (; inbox.beats > 0; inbox.beats--) yield HEARTBEAT
        const found = this.#buffer.after(read)
        if (found === 'lost') return
        batch = found
      }
    } finally {
      cancelBeat()
      unlisten()
      this.#open.delete(end)
      signal?.removeEventListener('abort', end)
    }
  }

  /** What who may not listen gets: 200 and silence, for as long as they care to wait (measured). */
  async *silence(signal: AbortSignal | undefined): AsyncGenerator<string> {
    const inbox = new Inbox()
    const end = (): void => inbox.end()
    this.#open.add(end)
    signal?.addEventListener('abort', end, { once: true })
    if (signal?.aborted === true) inbox.end()
    while (!inbox.over) await inbox.next()
    this.#open.delete(end)
    yield* []
  }
}

/** Something to look at, or the end. */
class Inbox {
  beats = 0
  over = false
  #news = false
  #wake: () => void = () => {}

  wake(): void {
    this.#news = true
    this.#wake()
  }

  end(): void {
    this.over = true
    this.wake()
  }

  async next(): Promise<void> {
    if (!this.#news) await new Promise<void>((resolve) => (this.#wake = resolve))
    this.#news = false
  }
}
