import { ERRORS, kindOf, Problem } from '../core/errors.ts'
import type { Outcome } from '../core/state.ts'
import type { Clock } from '../keeper/ports.ts'
import type { Grant } from './answers.ts'
import type { Service } from './service.ts'

/** `released`: the service knows that the act is over. Else why not; the lease then ends by itself. */
export type Released = { readonly released: true } | { readonly released: false; readonly detail: string }

export interface ReleaseDeps {
  readonly service: Service
  readonly clock: Clock
  /** Chance for the back-off, 0 ≤ x < 1. */
  readonly random: () => number
}

const BOUND_MS = 5_000
const PAUSE_MS = 250

/** Tells the service that the act is over, on a bound of its own: whatever ended the work must not end this. Never throws.
 *  Repeated while the answer is lost; it is then a success that the hold was released, or is over, already. */
export async function releaseLease(deps: ReleaseDeps, { hold, lease }: Grant, outcome: Outcome): Promise<Released> {
  const { service, clock, random } = deps
  let last: unknown = null
  try {
    return await clock.within(BOUND_MS, undefined, async (signal) => {
      for (;;) {
        try {
          await service.release(hold, lease, outcome, signal)
          return { released: true }
        } catch (error) {
          signal.throwIfAborted()
          if (last !== null && (kindOf(error) === 'already_released' || kindOf(error) === 'unknown_hold'))
            return { released: true }
          if (!ERRORS[kindOf(error)].retry) return { released: false, detail: textOf(error) }
          last = error
        }
        await clock.sleep(PAUSE_MS * (0.5 + random()), signal)
      }
    })
  } catch {
    const why = last === null ? 'the service does not answer' : textOf(last)
    return { released: false, detail: `${why}; its lease ends by itself` }
  }
}

function textOf(error: unknown): string {
  return error instanceof Problem ? error.message : String(error)
}
