import { clearTimeout, setTimeout } from 'node:timers'
import type { Clock } from './ports.ts'

/** The one place where real time comes from. Everything else takes a Clock. */
export const systemClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason)
      const leave = () => {
        clearTimeout(timer)
        reject(signal?.reason)
      }
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }, ms)
      signal?.addEventListener('abort', leave, { once: true })
    }),
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
  async within(ms, signal, work) {
    const control = new AbortController()
    const follow = () => control.abort(signal?.reason)
    if (signal?.aborted === true) follow()
    signal?.addEventListener('abort', follow, { once: true })
    const timer = setTimeout(() => control.abort(new DOMException(`no answer within ${ms} ms`, 'TimeoutError')), ms)
    try {
      return await work(control.signal)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', follow)
    }
  },
}

/** RFC 3339 in UTC, for texts that people read. */
export function formatTime(ms: number): string {
  return new Date(ms).toISOString()
}

/** Milliseconds since the epoch; null when the text is no RFC 3339 time. */
export function parseTime(text: string): number | null {
  const ms = /^\d{4}-\d\d-\d\dT/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(ms) ? null : ms
}
