// The stored variables other than a semaphore's lease: what their Items hold, and how to read them again.
import { createHash } from 'node:crypto'
import { formatTime, parseTime } from './clock.ts'
import type { Wanted } from '../core/request.ts'
import { cut, decodeState, encodeState, type Action, type State } from '../core/state.ts'
import { describe, type Level, type Scope } from '../core/scope.ts'

/** What a request variable holds: everything that another replica needs to order it, and to find its asker or to act itself. */
export type RequestRecord = WaitingRecord | ManagedRecord
interface AnyRecord {
  readonly scope: Scope
  readonly unit: string
  readonly place: string
  readonly tasks: readonly string[]
  readonly reason: string
  readonly priority: number
  readonly deadline: number | null
  readonly at: number
}
export interface WaitingRecord extends AnyRecord {
  /** Random, one per asking process. */
  readonly key: string
  /** The replica that the waiting asker is connected to. */
  readonly via: string
  readonly action: Action
}
/** Nobody waits for it: whichever replica grants it acts. */
export interface ManagedRecord extends AnyRecord, Wanted {
  /** The id of the request. */
  readonly key: string
  readonly via: null
}

export type Items = Readonly<Record<string, string>>

/** The state as it was last seen. `at`: monotonic time at which that was asked for. */
export interface Stored {
  readonly index: number
  readonly at: number
  readonly state: State | { readonly unreadable: string }
}

export function semaphoreItems(state: State): Items | null {
  const text = encodeState(state)
  return text === null ? null : { scope: JSON.stringify(state.scope), state: text, summary: summaryOf(state) }
}

export function readSemaphore(items: Items): State | { readonly unreadable: string } {
  const text = items['state']
  return text === undefined ? { unreadable: 'it has no item called state' } : decodeState(text)
}

export function requestItems(record: RequestRecord): Items {
  return { scope: JSON.stringify(record.scope), unit: record.unit, request: JSON.stringify(record) }
}

/** Null: somebody wrote something else there. It is left alone and orders nobody. */
export function readRequest(items: Items): RequestRecord | null {
  const value = parseJson(items['request']) as Partial<RequestRecord> | null
  const whole = typeof value?.unit === 'string' && typeof value.key === 'string' && Array.isArray(value.tasks)
  if (!whole || typeof value.priority !== 'number') return null
  const isManaged = value.via === null && typeof value.baseline === 'object' && value.baseline !== null
  return isManaged || typeof value.via === 'string' ? (value as RequestRecord) : null
}

/** An operator lock. Whatever is stored at its path locks; the items are only shown. */
export interface OperatorLock {
  readonly level: Level
  readonly reason: string
  readonly by: string
  /** When it ends by itself; null: never. Milliseconds since the epoch. */
  readonly until: number | null
}

export function lockItems({ level, reason, by, until }: OperatorLock): Items {
  const ends: Items = until === null ? {} : { until: formatTime(until) }
  return { level: JSON.stringify(level), reason: cut(reason), by: cut(by), ...ends }
}

/** Read leniently: anybody may have written it with `nomad var put`. An `until` that cannot be read never ends. */
export function readLock(level: Level, items: Items): OperatorLock {
  const { reason, by, until } = items as { reason?: string; by?: string; until?: string }
  const said =
    reason ??
    Object.entries(items)
      .map(([key, value]) => `${key}=${value}`)
      .join(' ')
  return { level, reason: cut(said), by: cut(by ?? 'unknown'), until: until === undefined ? null : parseTime(until) }
}

/** The level in a lock's items; null when it was written by hand. */
export function levelOf(items: Items): Level | null {
  return parseJson(items['level']) as Level | null
}

/** The scope in the items of a semaphore or request, if it is the one that belongs to the path. */
export function scopeOf(items: Items, belongs: (scope: Scope) => boolean): Scope | null {
  const scope = parseJson(items['scope']) as Scope | null
  try {
    const named = scope !== null && Object.values(scope).every((name) => typeof name === 'string')
    return named && belongs(scope) ? scope : null
  } catch {
    return null
  }
}

function parseJson(text: string | undefined): object | null {
  try {
    const value: unknown = JSON.parse(text ?? 'null')
    return typeof value === 'object' ? value : null
  } catch {
    return null
  }
}

export function proofOf(lockId: string): string {
  return createHash('sha256').update(lockId).digest('base64url')
}

/** A sentence for people who look with Nomad's own UI. */
function summaryOf(state: State): string {
  const holds = state.holds.map(({ unit, phase }) => `${unit} (${phase})`).join(', ')
  const halted = state.halted === null ? '' : `, halted: ${state.halted.reason}`
  return cut(
    `${describe(state.scope)}: ${holds === '' ? 'nothing is held' : holds}, newest token ${state.grants}${halted}`,
    1_000,
  )
}
