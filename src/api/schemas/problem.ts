// Problem documents, and the part of each operation's contract that they make: all from the one table of errors.
import { Type } from 'typebox'
import { ERRORS, type ErrorKind } from '../../core/errors.ts'
import { count, oneOf, optional, ref, said } from './words.ts'

export const PROBLEM_TYPE = 'application/problem+json'
const KINDS = Object.keys(ERRORS) as ErrorKind[]

/** `type` of a problem document: the kind as a URI. */
export function typeOf(kind: ErrorKind): string {
  return `urn:lockkeeper:problem:${kind}`
}

/** Whoever waits is told who is before it, and nothing of anybody's lease. */
export const Holder = Type.Object(
  {
    hold: said('ID of the hold'),
    unit: said('What is unavailable meanwhile: an allocation; in a shared semaphore any text'),
    place: said('Where the unit stands: the same for its replacement'),
    token: count('The fencing token'),
    slot: count('The slot that it takes'),
    phase: oneOf(['acting', 'observing'], 'acting: its actor may act. observing: it waits for health'),
    since: Type.String({ format: 'date-time', description: 'When it was granted' }),
    reason: said('Why it was asked for'),
  },
  { $id: 'Holder', description: 'Somebody who holds a slot' },
)

export const ProblemDocument = Type.Object(
  {
    type: Type.String({ description: 'urn:lockkeeper:problem: and the kind', examples: [typeOf('full')] }),
    title: said('What happened'),
    status: Type.Integer({ description: 'The HTTP status' }),
    detail: said('What happened to what, and what to do next. For people: its words change'),
    kind: Type.Unsafe<ErrorKind>({ type: 'string', enum: KINDS, description: kindsTable() }),
    field: optional(said('The field or parameter that is wrong')),
    position: optional(Type.Integer({ minimum: 1, description: 'Of a request that waits: its place in the queue, from 1' })),
    waiting: optional(count('Of a request that waits: how many wait in all')),
    holders: optional(Type.Array(ref(Holder), { description: 'Of a request that waits: who holds' })),
    request: optional(said('Of a fault of ours: what to look for in the log')),
  },
  { $id: 'Problem', additionalProperties: true, description: 'Why there is no other answer (RFC 9457)' },
)

/** What any operation may answer. */
const ALWAYS = ['invalid_request', 'nomad_denied', 'nomad_unavailable', 'shutting_down', 'internal'] as const
const RETRY_AFTER = { 'Retry-After': { type: 'string', description: 'Seconds' } }

/** What whoever asks for an allocation may be answered besides. */
export const ASK_PROBLEMS = [
  'unsupported_job',
  'unknown_allocation',
  'allocation_finished',
  'conflict',
  'state_unreadable',
  'body_too_large',
] as const

/** The responses that tell of problems, for a route's schema. Typed as nothing, so that they say nothing of its answer. */
export function problems(...more: ErrorKind[]): object {
  return responses([...ALWAYS, ...more])
}

/** The same for operations that do not ask Nomad. */
export function ownProblems(...kinds: ErrorKind[]): object {
  return responses(['invalid_request', 'internal', ...kinds])
}

function responses(kinds: readonly ErrorKind[]): object {
  const statuses = [...new Set(kinds.map((kind) => ERRORS[kind].status))].toSorted((a, b) => a - b)
  return Object.fromEntries(
    statuses.map((status) => {
      const these = kinds.filter((kind) => ERRORS[kind].status === status)
      return [
        status,
        {
          description: these.map((kind) => `\`${kind}\`: ${ERRORS[kind].title}`).join('. '),
          content: { [PROBLEM_TYPE]: { schema: ref(ProblemDocument) } },
          ...(these.some(mayRetryAtOnce) ? { headers: RETRY_AFTER } : {}),
        },
      ]
    }),
  )
}

/** Whether `Retry-After` is given: nobody has to change anything, and it may be asked again in a second. */
export function mayRetryAtOnce(kind: ErrorKind): boolean {
  const { retry, status } = ERRORS[kind]
  return retry && status !== 409
}

function kindsTable(): string {
  const rows = KINDS.map((kind) => `\`${kind}\` (${ERRORS[kind].status}): ${ERRORS[kind].title}`)
  return `What happened, for programs. ${rows.join('. ')}`
}
