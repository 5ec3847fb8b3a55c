// What is stored of one semaphore, and how to read it again. Times are milliseconds since the epoch, for people and for
// deadlines of minutes; they never decide who owns something.
import type { Scope } from './scope.ts'

export type Action = 'restart' | 'signal' | 'reload' | 'replace'
/** How an actor ended its part: `done`, `abandoned` (it says that it did not act), `failed`; or what ended it instead. */
export type Outcome = 'done' | 'abandoned' | 'failed' | 'lease_lost' | 'overdue'

/** Where a task stood before the act: a restart has moved past it (facts §4). */
export type Baseline = Readonly<Record<string, { readonly restarts: number; readonly startedAt: number | null }>>

export interface Hold {
  readonly id: string
  /** Random, one per asking process (protocol G1); of a managed hold the id of its request. */
  readonly key: string
  /** The fencing token: higher than every one before it. */
  readonly token: number
  readonly slot: number
  readonly unit: string
  /** Where the unit stands: the same for its replacement. */
  readonly place: string
  /** Those that are acted on; empty: all that run. */
  readonly tasks: readonly string[]
  /** Whether a replica acts, under its own lease (protocol M); else a shim does. */
  readonly managed: boolean
  readonly action: Action
  readonly reason: string
  readonly actor: string
  /** `proof`: SHA-256 of the lock ID, which only the holder knows. */
  readonly lease: { readonly path: string; readonly index: number; readonly proof: string }
  /** ModifyIndex of the request variable that was granted; null: granted at once. */
  readonly request: number | null
  /** How often a replica handed the hold to a repeated ask (protocol G2). */
  readonly adopted: number
  readonly phase: 'acting' | 'observing'
  readonly outcome: Outcome | null
  readonly grantedAt: number
  readonly phaseSince: number
  /** Whether the unit was up when it was granted. */
  readonly wasUp: boolean
  readonly baseline: Baseline
}

export interface Failure {
  readonly unit: string
  readonly place: string
  readonly token: number
  readonly slot: number
  readonly reason: string
  readonly at: number
  readonly jobVersion: number
}

export type TransitionKind =
  | 'granted'
  | 'adopted'
  | 'taken_over'
  | 'taken_back'
  | 'released'
  | 'lease_lost'
  | 'overdue'
  | 'healthy'
  | 'unchanged'
  | 'gone'
  | 'failed'
  | 'halted'
  | 'recovered'
  | 'halt_lifted'
  | 'resumed'
  | 'forced_release'

/** One entry of the ring from which every replica derives the same events. `seq` counts up per semaphore. */
export interface Transition {
  readonly seq: number
  readonly at: number
  readonly kind: TransitionKind
  readonly unit: string | null
  readonly token: number | null
  readonly reason: string
  /** Of a managed hold: the id of its request. */
  readonly request?: string
}

export interface State {
  readonly version: 1
  readonly scope: Scope
  /** Counts up and never goes down: the token of the newest hold (protocol S1). It begins at an index of Nomad, above every
   *  token that was ever given in a state that was removed. */
  readonly grants: number
  readonly holds: readonly Hold[]
  readonly failures: readonly Failure[]
  readonly halted: { readonly since: number; readonly reason: string } | null
  readonly lastGrantAt: number | null
  readonly transitions: readonly Transition[]
}

export const MAX_HOLDS = 64
export const MAX_FAILURES = 64
export const MAX_TRANSITIONS = 20
export const MAX_TEXT = 200
/** Nomad refuses a variable above 65,536 bytes (facts §1); the rest is for `scope` (names of 200 characters, of up to 6 bytes in
 *  JSON) and `summary` (1,000 of up to 4 bytes). */
export const MAX_STATE_BYTES = 57_000

export function emptyState(scope: Scope, grants = 0): State {
  return { version: 1, scope, grants, holds: [], failures: [], halted: null, lastGrantAt: null, transitions: [] }
}

/** The state in a stored text, or what is wrong with it. Fields that this version does not know are kept as they are. A state
 *  that cannot be read keeps its semaphore shut: the caller must never overwrite it. */
export function decodeState(text: string): State | { readonly unreadable: string } {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { unreadable: 'it is not JSON' }
  }
  if (!isRecord(value)) return { unreadable: 'it is not an object' }
  if (value['version'] !== 1)
    return { unreadable: `its version is ${cut(JSON.stringify(value['version'] ?? null))}, this replica reads 1` }
  const wrong = Object.entries(SHAPE).find(([field, holds]) => !holds(value[field]))
  return wrong === undefined ? (value as unknown as State) : { unreadable: `its field ${wrong[0]} is wrong` }
}

/** The text to store. The oldest transitions go when it would be too large; null: too large even so. */
export function encodeState(state: State): string | null {
  // The newest transition always stays: the next one counts on from it.
  for (const keep of [MAX_TRANSITIONS, 5, 1]) {
    const text = JSON.stringify({ ...state, transitions: state.transitions.slice(-keep) })
    if (isStorable(text)) return text
  }
  return null
}

/** Texts from outside are cut, so that a state stays small. */
export function cut(text: string, length = MAX_TEXT): string {
  const points = Array.from(text)
  return points.length <= length ? text : `${points.slice(0, length - 1).join('')}…`
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
const isBoolean = (value: unknown) => typeof value === 'boolean'
const isText = (value: unknown) => typeof value === 'string'
const isNumber = (value: unknown) => typeof value === 'number' && Number.isFinite(value)
const isNullOr = (holds: (value: unknown) => boolean) => (value: unknown) => value === null || holds(value)
const isListOf = (holds: (value: unknown) => boolean) => (value: unknown) => Array.isArray(value) && value.every(holds)
const hasShape = (shape: Readonly<Record<string, (value: unknown) => boolean>>) => (value: unknown) =>
  isRecord(value) && Object.entries(shape).every(([field, holds]) => holds(value[field]))

const isTask = hasShape({ restarts: isNumber, startedAt: isNullOr(isNumber) })

const HOLD = {
  id: isText,
  key: isText,
  token: isNumber,
  slot: isNumber,
  unit: isText,
  place: isText,
  tasks: isListOf(isText),
  managed: isBoolean,
  action: isText,
  reason: isText,
  actor: isText,
  lease: hasShape({ path: isText, index: isNumber, proof: isText }),
  request: isNullOr(isNumber),
  adopted: isNumber,
  phase: (value: unknown) => value === 'acting' || value === 'observing',
  outcome: isNullOr(isText),
  grantedAt: isNumber,
  phaseSince: isNumber,
  wasUp: isBoolean,
  baseline: (value: unknown) => isRecord(value) && Object.values(value).every(isTask),
}
const SHAPE = {
  scope: isRecord,
  grants: isNumber,
  holds: isListOf(hasShape(HOLD)),
  failures: isListOf(
    hasShape({
      unit: isText,
      place: isText,
      token: isNumber,
      slot: isNumber,
      reason: isText,
      at: isNumber,
      jobVersion: isNumber,
    }),
  ),
  halted: isNullOr(hasShape({ since: isNumber, reason: isText })),
  lastGrantAt: isNullOr(isNumber),
  transitions: isListOf(hasShape({ seq: isNumber, at: isNumber, kind: isText, reason: isText })),
}

/** Not counted where it cannot be too long: no unit of UTF-16 takes more than three bytes. */
function isStorable(text: string): boolean {
  return text.length * 3 <= MAX_STATE_BYTES || utf8Length(text) <= MAX_STATE_BYTES
}

function utf8Length(text: string): number {
  let bytes = 0
  for (const point of text) {
    const code = point.codePointAt(0) as number
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4
  }
  return bytes
}
