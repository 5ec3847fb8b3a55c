// Room watching: finds files that are newer than the process that should have read them, and asks for what is to be done about it.
// What follows from a file is decided in core/watch-decision; here is who looks when, and what is kept.
// This file: how fast Nomad may be asked.
import type { Clock } from '../ports.ts'
import type { Replica } from '../replica.ts'

/** For all replicas together (design §6). */
const CALLS_PER_SECOND = 200

/** Turns for calls, evenly spaced. Each replica takes its share by the number of those that are alive; while one is not known yet to
 *  the others, the sum may be more for a moment. */
export class Pace {
  readonly #clock: Clock
  readonly #replica: Replica
  #next = -Infinity

  constructor(clock: Clock, replica: Replica) {
    this.#clock = clock
    this.#replica = replica
  }

  /** Calls a second that this replica may make. */
  get share(): number {
    return CALLS_PER_SECOND / this.#replica.alive.size
  }

  /** Resolves when so many calls may be made. */
  async take(calls: number, signal: AbortSignal): Promise<void> {
    const turn = Math.max(this.#clock.now(), this.#next)
    this.#next = turn + (calls * 1_000) / this.share
    const wait = turn - this.#clock.now()
    if (wait > 0) await this.#clock.sleep(wait, signal)
    else signal.throwIfAborted()
  }
}
