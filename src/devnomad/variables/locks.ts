import type { Duties } from '../duties.ts'
import type { Lock } from './rules.ts'

export interface Locked {
  readonly namespace: string
  readonly path: string
  readonly lock: Lock
}

/** The leader's timers of locks, with all their faults (facts §2). A lock falls 2 × TTL after its acquire or last renewal;
 *  then its delay runs, which nothing stops, and at its end `expire` removes whatever lock the variable has by then.
 *  Timers are known by lock ID alone: of two variables with the same ID, the second never expires. */
export class LockTimers {
  readonly #duties: Duties
  readonly #expire: (locked: Locked) => void
  readonly #running = new Map<string, { locked: Locked; cancel: () => void }>()
  #delays = new Set<() => void>()

  constructor(duties: Duties, expire: (locked: Locked) => void) {
    this.#duties = duties
    this.#expire = expire
  }

  /** An acquire went through. One that repeats a lock ID leaves the running timer as it is. */
  started(locked: Locked): void {
    if (!this.#running.has(locked.lock.id)) this.#run(locked, locked.lock.ttlMs)
  }

  /** Extends to 2 × TTL from now, by the TTL that the variable shows; false: it has fallen, for good. */
  renew(lock: Lock): boolean {
    const running = this.#running.get(lock.id)
    if (running === undefined) return false
    running.cancel()
    this.#run(running.locked, lock.ttlMs)
    return true
  }

  released(lockId: string): void {
    this.#running.get(lockId)?.cancel()
    this.#running.delete(lockId)
  }

  /** The leader is gone, and its timers with it, delays too. */
  stop(): void {
    for (const running of this.#running.values()) running.cancel()
    for (const cancel of this.#delays) cancel()
    this.#running.clear()
    this.#delays = new Set()
  }

  #run(locked: Locked, ttlMs: number): void {
    const cancel = this.#duties.after(2 * ttlMs, () => {
      this.#running.delete(locked.lock.id)
      const stop = this.#duties.after(locked.lock.delayMs, () => {
        this.#delays.delete(stop)
        this.#expire(locked)
      })
      this.#delays.add(stop)
    })
    this.#running.set(locked.lock.id, { locked, cancel })
  }
}
