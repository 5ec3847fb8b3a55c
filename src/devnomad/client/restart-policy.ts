import { formatDuration } from '../../core/duration.ts'
import { milliseconds, type RestartPolicy } from '../cluster/shapes.ts'

export type Verdict = { readonly kind: 'restart'; readonly afterMs: number } | { readonly kind: 'fail'; readonly why: string }

/** Counts the ends of a task that nobody asked for, by its `restart` block. Restarts by API do not count (facts §4). */
export class RestartTracker {
  readonly #policy: RestartPolicy
  #count = 0
  #windowStart: number | undefined

  constructor(policy: RestartPolicy) {
    this.#policy = policy
  }

  ended(now: number): Verdict {
    const intervalMs = milliseconds(this.#policy.Interval)
    if (this.#windowStart === undefined || now > this.#windowStart + intervalMs) {
      this.#windowStart = now
      this.#count = 0
    }
    this.#count += 1
    if (this.#count <= this.#policy.Attempts) return { kind: 'restart', afterMs: milliseconds(this.#policy.Delay) }
    if (this.#policy.Mode === 'delay') return { kind: 'restart', afterMs: this.#windowStart + intervalMs - now }
    const { Attempts } = this.#policy
    return {
      kind: 'fail',
      why: `Exceeded allowed attempts ${Attempts} in interval ${formatDuration(intervalMs)} and mode is "fail"`,
    }
  }
}
