import { formatDuration } from '../core/duration.ts'
import { Problem } from '../core/errors.ts'
import { isOutOfReach, type Absence } from '../core/unavailable.ts'
import type { Clock, NewId } from '../keeper/ports.ts'
import type { Grant, Waiting } from './answers.ts'
import { asProblem, mayPass, takeHold, type Hold, type HoldDeps } from './hold.ts'
import { releaseLease } from './release.ts'
import type { Answer, Wish } from './service.ts'

export interface AcquireDeps extends HoldDeps {
  readonly newId: NewId
}

/** A replica that is frozen is left one poll, and its grace, after it was last heard of. */
const POLL_MS = 10_000
/** The first poll is short, so that whoever looks on learns soon why it waits; and so is each one while nobody is heard of. */
const FIRST_POLL_MS = 2_000
/** What an answer may come later than it was asked for. */
const GRACE_MS = 10_000
const BACKOFF_MS = { first: 200, most: 3_000 }

/** How long to ask: `ms` from `since`, on the monotonic clock. */
export interface Patience {
  readonly since: number
  readonly ms: number
  /** How long nobody may be heard of; left out: as long as the patience lasts. */
  readonly absence?: Pick<Absence, 'waitMs' | 'jitterMs'>
}

/** Asks until granted, and comes back with the right to act (protocol G4). When the patience is over (up to 10 s later if the
 *  service is silent) it throws a Problem: why it waited last, or that nobody could be asked; the latter as well when nobody was
 *  heard of for longer than they may be. The place in the queue is kept by the key, over replicas that fail. What the service
 *  refuses for good is thrown at once.
 *  When `signal` aborts it rejects with its reason: an ask under way is withdrawn by closing its connection, a grant that was
 *  not handed on is released as abandoned. */
export async function acquire(deps: AcquireDeps, wish: Wish, patience: Patience, signal: AbortSignal): Promise<Hold> {
  const asker = new Asker(deps, wish, patience)
  for (;;) {
    const grant = await asker.granted(signal)
    const taken = await takeHold(deps, grant, signal).catch(async (error: unknown) => {
      await releaseLease(deps, grant, 'abandoned')
      throw error
    })
    if (!(taken instanceof Problem)) {
      const { id, token, slot, scope } = taken
      deps.tell({ event: 'granted', hold: id, token, slot, scope })
      return taken
    }
    await asker.giveUp(grant, taken, signal)
  }
}

/** One asking process in the queue. */
class Asker {
  readonly #deps: AcquireDeps
  readonly #wish: Wish
  readonly #waitMs: number
  readonly #clock: Clock
  readonly #endsAt: number
  readonly #absence: Pick<Absence, 'waitMs' | 'jitterMs'>
  #key: string
  #polls = 0
  /** How many times in a row nobody could be asked, or a grant was worth nothing. */
  #failures = 0
  /** Since when nobody is heard of. */
  #absentSince: number | null = null
  #last: Problem | null = null
  #told = ''

  constructor(deps: AcquireDeps, wish: Wish, { since, ms, absence }: Patience) {
    this.#deps = deps
    this.#wish = wish
    this.#waitMs = ms
    this.#clock = deps.clock
    this.#endsAt = since + ms
    this.#absence = absence ?? { waitMs: ms, jitterMs: 0 }
    this.#key = deps.newId()
  }

  /** Polls until there is a grant that is young enough to be looked at. */
  async granted(signal: AbortSignal): Promise<Grant> {
    for (;;) {
      const sentAt = this.#clock.now()
      if (this.#last !== null && this.#leftMs() <= 0) throw this.#notInTime(this.#last)
      const leftMs = Math.max(0, this.#endsAt - sentAt)
      const short = this.#polls++ === 0 || this.#absentSince !== null
      const pollMs = Math.min(short ? FIRST_POLL_MS : POLL_MS, leftMs)
      const answer = await this.#ask(pollMs, leftMs, signal)
      if (answer === null) continue
      if (answer.kind === 'waiting') {
        await this.#wait(answer.waiting, sentAt + pollMs, signal)
        continue
      }
      const { grant } = answer
      const lateMs = this.#clock.now() - sentAt - pollMs
      if (lateMs <= grant.ttlMs) return grant
      // We were frozen, or its answer was long under way.
      await this.giveUp(grant, new Problem('lease_lost', 'its answer came too late'), signal)
    }
  }

  /** The grant is not used; whoever asks again is another asker (protocol G1). */
  async giveUp(grant: Grant, why: Problem, signal: AbortSignal): Promise<void> {
    this.#deps.tell({ event: 'given_up', hold: grant.hold, detail: why.message })
    if (why.kind !== 'not_holder') await releaseLease(this.#deps, grant, 'abandoned')
    this.#key = this.#deps.newId()
    await this.#failed(why, signal)
  }

  async #ask(pollMs: number, leftMs: number, signal: AbortSignal): Promise<Answer | null> {
    const { service } = this.#deps
    try {
      const answer = await this.#clock.within(leftMs + GRACE_MS, signal, (bounded) =>
        service.ask(this.#wish, this.#key, pollMs, bounded),
      )
      this.#absentSince = null
      return answer
    } catch (error) {
      signal.throwIfAborted()
      const late = error instanceof DOMException && error.name === 'TimeoutError'
      const problem = late ? new Problem('service_unavailable', 'the service does not answer') : asProblem(error)
      if (!mayPass(problem)) throw problem
      this.#absentSince = isOutOfReach(problem) ? (this.#absentSince ?? this.#clock.now()) : null
      const { kind, message } = problem
      if (this.#leftMs() > 0) this.#tellOnce(message, () => this.#deps.tell({ event: 'unreachable', kind, detail: message }))
      await this.#failed(problem, signal)
      return null
    }
  }

  /** A service that answers before the poll is over does not want to be asked again at once. */
  async #wait(waiting: Waiting, pollEndsAt: number, signal: AbortSignal): Promise<void> {
    const { wait, detail, position, retryAfterMs } = waiting
    this.#failures = 0
    this.#last = new Problem(wait, detail, position === null ? {} : { position })
    this.#tellOnce(`${wait} ${position} ${detail}`, () => this.#deps.tell({ event: 'waiting', kind: wait, ...shown(waiting) }))
    const early = this.#clock.now() < pollEndsAt - 500
    if (early) await this.#pause(Math.min(retryAfterMs ?? 1_000, BACKOFF_MS.most), signal)
  }

  async #failed(why: Problem, signal: AbortSignal): Promise<void> {
    this.#last = why
    await this.#pause(Math.min(BACKOFF_MS.most, BACKOFF_MS.first * 2 ** this.#failures++), signal)
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    await this.#clock.sleep(Math.min(Math.max(0, this.#leftMs()), ms * (0.5 + this.#deps.random() / 2)), signal)
  }

  /** Until it is not asked any more. The patience cuts a wait for the service, and not the moment that jitter gives to each one. */
  #leftMs(): number {
    const { waitMs, jitterMs } = this.#absence
    const since = this.#absentSince
    const until = since === null ? this.#endsAt : Math.max(since, Math.min(since + waitMs, this.#endsAt)) + jitterMs
    return until - this.#clock.now()
  }

  #tellOnce(text: string, tell: () => void): void {
    if (text === this.#told) return
    this.#told = text
    tell()
  }

  #notInTime(last: Problem): Problem {
    if (this.#clock.now() < this.#endsAt) return last
    const { kind, message, more } = last
    // A lease that was lost before anything was done is no lost lease to whoever called: they were not granted in time.
    const why = kind === 'lease_lost' || kind === 'unknown_hold' || kind === 'already_released' ? 'service_unavailable' : kind
    return new Problem(why, `not granted within ${formatDuration(this.#waitMs)}: ${message}`, more)
  }
}

function shown({ detail, position, waiting }: Waiting): Pick<Waiting, 'detail' | 'position' | 'waiting'> {
  return { detail, position, waiting }
}
