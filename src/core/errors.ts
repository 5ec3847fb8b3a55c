// Room core: pure decisions. Nothing from outside core: no clock, no I/O, no promises.
// This file: the one table of everything that can go wrong, for HTTP, exit codes, metrics and docs alike.

/** What a problem means to the caller.
 *  `status`: HTTP. `exit`: of the CLI. `retry`: the same call may succeed later without anybody changing anything.
 *  `title`: what happened; the `detail` of each problem adds to what, and what to do next. */
export interface ErrorRow {
  readonly status: number
  readonly exit: number
  readonly retry: boolean
  readonly title: string
}

/** Every error kind, once. Problem documents, exit codes, metric labels and the README's table are columns of it. */
export const ERRORS = {
  // Waiting is not a failure: the request keeps its place (design §4, admission order).
  locked: row(423, 4, true, 'An operator lock shuts this level'),
  halted: row(429, 4, true, 'The semaphore is halted after failures'),
  window: row(429, 3, true, 'Outside the allowed time window'),
  deployment: row(429, 3, true, 'A deployment of the job is under way'),
  too_soon: row(429, 3, true, 'Too soon after an earlier restart'),
  full: row(429, 3, true, 'The restart budget is used up'),

  invalid_request: row(400, 2, false, 'The request is not valid'),
  unsupported_job: row(400, 2, false, 'This type of job is not gated'),
  unauthorized: row(401, 2, false, 'No valid identity'),
  forbidden: row(403, 2, false, 'Not allowed'),
  unknown_allocation: row(404, 2, false, 'Nomad does not know this allocation'),
  unknown_hold: row(404, 2, false, 'No such hold'),
  unknown_request: row(404, 2, false, 'No such request'),
  unknown_semaphore: row(404, 2, false, 'No such semaphore'),
  unknown_lock: row(404, 2, false, 'No such operator lock'),
  not_found: row(404, 2, false, 'No such route'),
  method_not_allowed: row(405, 2, false, 'Method not allowed'),
  allocation_finished: row(409, 2, false, 'The allocation has finished'),
  lease_lost: row(409, 5, false, 'The lease is lost'),
  not_holder: row(409, 5, false, 'This lease does not belong to the hold'),
  already_released: row(409, 5, false, 'The hold was released already'),
  conflict: row(409, 2, true, 'Somebody else changed it at the same moment'),
  state_unreadable: row(409, 2, false, 'The stored state of the semaphore cannot be read'),
  body_too_large: row(413, 2, false, 'The body is too large'),
  internal: row(500, 1, false, 'A fault of ours'),
  nomad_denied: row(503, 6, true, 'Nomad refuses a right that the service needs'),
  nomad_unavailable: row(503, 6, true, 'Nomad cannot be reached'),
  shutting_down: row(503, 6, true, 'This replica is shutting down'),
  overloaded: row(503, 6, true, 'This replica has too much to do'),
  service_unavailable: row(503, 6, true, 'No replica of the service can be reached'),
} as const satisfies Record<string, ErrorRow>

export type ErrorKind = keyof typeof ERRORS

/** Why a request waits, in the order in which admission asks (design §4.2). */
export const WAIT_KINDS = ['locked', 'halted', 'window', 'deployment', 'too_soon', 'full'] as const
export type WaitKind = (typeof WAIT_KINDS)[number]

/** A failure that a caller is to be told. `detail` says what happened to what and what to do next; it never holds a secret.
 *  `more` is merged into the problem document. Compare by `kind`, never by message. */
export class Problem extends Error {
  readonly kind: ErrorKind
  readonly more: Readonly<Record<string, unknown>>

  constructor(kind: ErrorKind, detail: string, more: Readonly<Record<string, unknown>> = {}, cause?: unknown) {
    super(detail, cause === undefined ? undefined : { cause })
    this.name = 'Problem'
    this.kind = kind
    this.more = more
  }
}

/** The kind of anything thrown: `internal` for what is not ours. */
export function kindOf(error: unknown): ErrorKind {
  return error instanceof Problem ? error.kind : 'internal'
}

/** What anything thrown says, for people. */
export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function row(status: number, exit: number, retry: boolean, title: string): ErrorRow {
  return { status, exit, retry, title }
}
