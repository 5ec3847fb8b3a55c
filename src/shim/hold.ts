import { ERRORS, Problem, type ErrorKind } from '../core/errors.ts'
import type { Outcome } from '../core/state.ts'
import type { Grant } from './answers.ts'
import type { Tell } from './events.ts'
import { releaseLease, type ReleaseDeps, type Released } from './release.ts'

export interface HoldDeps extends ReleaseDeps {
  readonly tell: Tell
}

/** The lease is over for good: renewing again is no use. Anything else may pass, and is tried until the lease is over. */
const FINAL: ReadonlySet<ErrorKind> = new Set(['lease_lost', 'not_holder', 'already_released', 'unknown_hold'])
const RETRY_MS = 1_000

/** From a grant to the right to act: a renewal comes first, and the right counts from before that was sent (protocol G4). So a grant
 *  that was long under way is worth nothing by itself. Answers with why not when the grant is to be given up.
 *  Rejects with the signal's reason when that aborts; the grant is the caller's to release then. */
export async function takeHold(deps: HoldDeps, grant: Grant, signal: AbortSignal): Promise<Hold | Problem> {
  const { service, clock, random } = deps
  const { ttlMs } = grant
  const endsAt = clock.now() + ttlMs
  let last = new Problem('lease_lost', 'the first renewal was answered too late')
  while (clock.now() < endsAt) {
    const sentAt = clock.now()
    try {
      await service.renew(grant.hold, grant.lease, boundOf(ttlMs), signal)
      if (clock.now() < sentAt + ttlMs) {
        const hold = new Hold(deps, grant, sentAt + ttlMs)
        hold.begin(sentAt)
        return hold
      }
    } catch (error) {
      signal.throwIfAborted()
      last = asProblem(error)
      if (FINAL.has(last.kind)) return last
    }
    await clock.sleep(retryMs(grant, random), signal)
  }
  return last
}

/** The right to act of one asking process, kept by renewing its lease.
 *
 *  `signal` aborts with Problem `lease_lost` no later than `ttl` after the last renewal that succeeded was *sent* (monotonic), at once
 *  when the service says that the lease is lost. Then stop acting, and do not begin again: somebody else may be told to go.
 *  Hole: a frozen process notices only when it wakes. So ask `valid()` as the last step before you act. */
export class Hold {
  readonly id: string
  readonly token: number
  readonly slot: number
  readonly scope: string
  readonly #deps: HoldDeps
  readonly #grant: Grant
  readonly #lost = new AbortController()
  readonly #over = new AbortController()
  #validUntil: number
  #work: Promise<unknown> = Promise.resolve()

  constructor(deps: HoldDeps, grant: Grant, validUntil: number) {
    this.id = grant.hold
    this.token = grant.token
    this.slot = grant.slot
    this.scope = grant.scope
    this.#deps = deps
    this.#grant = grant
    this.#validUntil = validUntil
  }

  get signal(): AbortSignal {
    return this.#lost.signal
  }

  /** Whether it may be acted now. False for ever once it was false. */
  valid(): boolean {
    if (this.#deps.clock.now() < this.#validUntil) return !this.#lost.signal.aborted
    this.#lose('no renewal succeeded in time')
    return false
  }

  /** Starts to renew and to watch. `sentAt`: when the last renewal that succeeded was sent. */
  begin(sentAt: number): void {
    this.#work = Promise.all([this.#renew(sentAt), this.#watch()])
  }

  /** Ends the hold and tells the service how. Never throws. */
  async release(outcome: Outcome): Promise<Released> {
    this.#over.abort()
    await this.#work
    return await releaseLease(this.#deps, this.#grant, outcome)
  }

  async #renew(sentAt: number): Promise<void> {
    const { service, clock, random, tell } = this.#deps
    const { hold, lease, ttlMs, renewEveryMs } = this.#grant
    const over = this.#over.signal
    let pauseMs = sentAt + renewEveryMs - clock.now()
    let failing = false
    while (await this.#slept(pauseMs)) {
      if (!this.valid()) return
      const sending = clock.now()
      try {
        await service.renew(hold, lease, boundOf(ttlMs), over)
        // An answer that comes when the time is over, after a freeze, does not bring the lease back.
        if (over.aborted || !this.valid()) return
        this.#validUntil = sending + ttlMs
        failing = false
        pauseMs = sending + renewEveryMs - clock.now()
      } catch (error) {
        if (over.aborted) return
        const problem = asProblem(error)
        if (FINAL.has(problem.kind)) return this.#lose(problem.message)
        if (!failing) tell({ event: 'renew_failed', hold, detail: problem.message })
        failing = true
        pauseMs = retryMs(this.#grant, random)
      }
    }
  }

  /** Independent of the renewals: one that hangs must not hide that the time is over. */
  async #watch(): Promise<void> {
    while (this.valid() && (await this.#slept(this.#validUntil - this.#deps.clock.now())));
  }

  async #slept(ms: number): Promise<boolean> {
    const { signal } = this.#over
    await this.#deps.clock.sleep(Math.max(0, ms), signal).catch(() => undefined)
    return !signal.aborted
  }

  #lose(detail: string): void {
    if (this.#lost.signal.aborted || this.#over.signal.aborted) return
    this.#over.abort()
    this.#deps.tell({ event: 'lease_lost', hold: this.id, detail })
    this.#lost.abort(new Problem('lease_lost', `the lease of hold ${this.id} is lost: ${detail}`))
  }
}

/** One renewal may take so long with one replica: a time to live has room for several. */
function boundOf(ttlMs: number): number {
  return ttlMs / 5
}

function retryMs({ renewEveryMs }: Grant, random: () => number): number {
  return Math.min(RETRY_MS, renewEveryMs) * (0.5 + random() / 2)
}

/** What is none is a fault in here; it is told like one of the service, and the lease ends by itself if it stays. */
export function asProblem(error: unknown): Problem {
  return error instanceof Problem ? error : new Problem('internal', String(error))
}

/** Whether the same call may succeed later. */
export function mayPass(problem: Problem): boolean {
  return ERRORS[problem.kind].retry
}
