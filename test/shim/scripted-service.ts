import { Problem, type ErrorKind, type WaitKind } from '../../src/core/errors.ts'
import type { Outcome } from '../../src/core/state.ts'
import type { Clock } from '../../src/keeper/ports.ts'
import type { Grant } from '../../src/shim/answers.ts'
import type { ShimEvent } from '../../src/shim/events.ts'
import type { Answer, Service, Wish } from '../../src/shim/service.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { sequentialIds } from '../support/sequential-ids.ts'

interface AskCall {
  readonly at: number
  readonly key: string
  readonly waitMs: number
}
interface Call {
  readonly at: number
  readonly hold: string
}
type Step<T> = (signal: AbortSignal) => T | Promise<T>

/** A manual clock whose process can be frozen: time goes on, and no timer fires until it is woken by `advance`. */
class FreezableClock extends ManualClock {
  #frozenMs = 0

  override now(): number {
    return super.now() + this.#frozenMs
  }
  freeze(ms: number): void {
    this.#frozenMs += ms
  }
}

/** A service that does what the test says, one function a kind of call, and remembers what was called when. */
class ScriptedService implements Service {
  readonly asks: AskCall[] = []
  readonly renewals: Call[] = []
  readonly releases: (Call & { readonly outcome: Outcome })[] = []
  ask_: Step<Answer> = () => granted()
  renew_: Step<void> = () => undefined
  release_: Step<void> = () => undefined
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async ask(_wish: Wish, key: string, waitMs: number, signal: AbortSignal): Promise<Answer> {
    this.asks.push({ at: this.#clock.now(), key, waitMs })
    return await this.ask_(signal)
  }
  async renew(hold: string, _lease: string, _boundMs: number, signal: AbortSignal): Promise<void> {
    this.renewals.push({ at: this.#clock.now(), hold })
    await this.renew_(signal)
  }
  async release(hold: string, _lease: string, outcome: Outcome, signal: AbortSignal): Promise<void> {
    this.releases.push({ at: this.#clock.now(), hold, outcome })
    await this.release_(signal)
  }
}

export const GRANT: Grant = {
  hold: 'h1',
  lease: 'secret-lease',
  token: 7,
  slot: 0,
  ttlMs: 15_000,
  renewEveryMs: 5_000,
  scope: 'default/web/api',
}

export function granted(more: Partial<Grant> = {}): Answer {
  return { kind: 'granted', grant: { ...GRANT, ...more } }
}

export function waiting(wait: WaitKind, detail = 'because', position = 1): Answer {
  return { kind: 'waiting', waiting: { wait, detail, position, waiting: 3, retryAfterMs: 1_000 } }
}

export function refuses(kind: ErrorKind): () => never {
  return () => {
    throw new Problem(kind, `it is ${kind}`)
  }
}

/** No answer, until the caller gives up. */
export const hangs = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }))

/** Steps in order; the last one for all that follow. */
export function inTurn<T>(...steps: Step<T>[]): Step<T> {
  return (signal) => (steps.length > 1 ? (steps.shift() as Step<T>) : (steps[0] as Step<T>))(signal)
}

/** A shim before such a service, in time that moves by hand. */
export function given() {
  const clock = new FreezableClock()
  const service = new ScriptedService(clock)
  const events: ShimEvent[] = []
  const deps = {
    clock,
    service,
    newId: sequentialIds(),
    random: () => 0.5,
    tell: (event: ShimEvent) => void events.push(event),
  }
  return { clock, service, events, deps, names: () => events.map(({ event }) => event) }
}

/** A promise whose end is looked at while time moves. */
export function watched<T>(work: Promise<T>) {
  const seen: { value?: T; error?: unknown; over: boolean } = { over: false }
  work.then(
    (value) => Object.assign(seen, { value, over: true }),
    (error: unknown) => Object.assign(seen, { error, over: true }),
  )
  return seen
}
