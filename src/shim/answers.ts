// What the service says, read: problem documents become Problems by their kind, never by their text.
import { formatDuration, parseDuration } from '../core/duration.ts'
import { ERRORS, Problem, WAIT_KINDS, type ErrorKind, type WaitKind } from '../core/errors.ts'
import { describe, type Scope } from '../core/scope.ts'

export interface ServiceAnswer {
  readonly status: number
  /** The JSON of the body; null when it is none. */
  readonly body: unknown
  readonly retryAfterMs: number | null
}

export interface Grant {
  readonly hold: string
  /** The secret of the lease. It goes to the service and nowhere else. */
  readonly lease: string
  readonly token: number
  readonly slot: number
  readonly ttlMs: number
  readonly renewEveryMs: number
  /** For people. */
  readonly scope: string
}
export interface Waiting {
  readonly wait: WaitKind
  readonly detail: string
  readonly position: number | null
  readonly waiting: number | null
  readonly retryAfterMs: number | null
}
type Fields = Readonly<Record<string, unknown>>

/** The grant in a 201; null: there is none in it, and so its answer is as good as lost. */
export function grantOf({ body }: ServiceAnswer): Grant | null {
  const { hold, lease, token, slot, ttl, renew_every, scope } = fieldsOf(body)
  const ttlMs = durationOf(ttl)
  if (typeof hold !== 'string' || typeof lease !== 'string' || typeof token !== 'number' || ttlMs === null) return null
  const renewEveryMs = durationOf(renew_every) ?? ttlMs / 3
  return { hold, lease, token, slot: typeof slot === 'number' ? slot : 0, ttlMs, renewEveryMs, scope: scopeText(scope) }
}

/** Why we wait, in a 429 or 423. A kind that a newer service brought is taken for the nearest one. */
export function waitingOf({ body, status, retryAfterMs: after }: ServiceAnswer): Waiting | null {
  if (status !== 429 && status !== 423) return null
  const { kind, detail, position, waiting } = fieldsOf(body)
  const known = WAIT_KINDS.find((one) => one === kind)
  return {
    wait: known ?? (status === 423 ? 'locked' : 'full'),
    detail: typeof detail === 'string' ? detail : 'the service gives no reason',
    position: typeof position === 'number' ? position : null,
    waiting: typeof waiting === 'number' ? waiting : null,
    retryAfterMs: after,
  }
}

/** What an answer that is no success means. */
export function problemOf({ status, body }: ServiceAnswer, from: string): Problem {
  const { kind, detail } = fieldsOf(body)
  const text = typeof detail === 'string' ? detail : `the service answers ${status}`
  if (typeof kind === 'string' && Object.hasOwn(ERRORS, kind)) return new Problem(kind as ErrorKind, text)
  // No problem document: something else listens there, or stands in between.
  if (typeof kind !== 'string') return new Problem('service_unavailable', `${from} answers ${status} and is no lockkeeper`)
  return new Problem(status >= 500 ? 'service_unavailable' : 'invalid_request', `${text} (${kind})`)
}

/** Seconds of a Retry-After header as milliseconds; a date in it is not read. */
export function retryAfterMs(header: string | string[] | undefined): number | null {
  return typeof header === 'string' && /^\d{1,6}$/.test(header) ? Number(header) * 1_000 : null
}

/** How a duration goes onto the wire. */
export function durationText(ms: number): string {
  return formatDuration(Math.max(0, Math.round(ms)))
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
}

function durationOf(value: unknown): number | null {
  const ms = typeof value === 'string' ? parseDuration(value) : null
  return ms === null || ms <= 0 ? null : ms
}

function scopeText(value: unknown): string {
  return typeof value === 'string' ? value : describe(fieldsOf(value) as Scope | Record<string, never>)
}
