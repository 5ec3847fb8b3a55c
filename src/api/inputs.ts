// Inputs that a schema cannot judge alone: durations and times in their bounds, and fields that go together.
import { parseDuration } from '../core/duration.ts'
import { Problem } from '../core/errors.ts'
import { levelFault, type Level, type Scope } from '../core/scope.ts'
import { parseTime } from '../keeper/clock.ts'
import type { Clock } from '../keeper/ports.ts'
import type { AskInput } from '../keeper/keeper.ts'
import type { Static } from 'typebox'
import type { RequestInput } from '../keeper/requests.ts'
import type { AskHold } from './schemas/holds.ts'
import type { AskRequest } from './schemas/requests.ts'

const MAX_WAIT_MS = 10 * 60_000
const MAX_UNTIL_HOURS = 8_760

export function waitOf(text: string | undefined): number {
  const ms = text === undefined ? 0 : parseDuration(text)
  if (ms === null) throw invalid('wait', `wait must be a duration such as 30s`)
  if (ms > MAX_WAIT_MS)
    throw invalid('wait', 'wait may be at most 10m; ask again when it is over, the place in the queue is kept')
  return ms
}

/** The ask, with the fields that go together. */
export function askOf(body: Static<typeof AskHold>): AskInput {
  const { since, deadline, ...said } = body
  if ((said.allocation === undefined) === (said.shared === undefined))
    throw invalid('allocation', 'give either allocation, or shared and unit')
  if (said.shared === undefined && said.unit !== undefined)
    throw invalid('unit', 'unit goes with shared; with allocation the allocation is the unit')
  if (said.shared !== undefined) {
    if (said.unit === undefined) throw invalid('unit', 'shared needs unit: what is unavailable meanwhile, any text')
    const wrong = (['component', 'task'] as const).find((field) => said[field] !== undefined)
    if (wrong !== undefined) throw invalid(wrong, `${wrong} goes with allocation, not with shared`)
  }
  if (since !== undefined && said.shared !== undefined) throw invalid('since', 'since goes with allocation, not with shared')
  return {
    ...said,
    ...(since === undefined ? {} : { since: timeOf('since', since) }),
    ...(deadline === undefined ? {} : { deadline: timeOf('deadline', deadline) }),
  }
}

/** A request for ourselves to act on. */
export function requestOf(body: Static<typeof AskRequest>): RequestInput {
  const { since, deadline, ...said } = body
  if (said.signal !== undefined && said.action !== 'signal') throw invalid('signal', 'signal goes with action signal')
  return {
    ...said,
    ...(since === undefined ? {} : { since: timeOf('since', since) }),
    ...(deadline === undefined ? {} : { deadline: timeOf('deadline', deadline) }),
  }
}

/** The level that is named from the left without a gap. */
export function levelOf(fields: Level): Level {
  const { namespace, job, group, component, shared, nodes } = fields
  const level = without({ namespace, job, group, component, shared, nodes })
  const fault = levelFault(level)
  if (fault !== null) throw new Problem('invalid_request', fault)
  return level
}

/** The semaphore that is named: namespace, job and group, or shared. */
export function scopeNamed(fields: Level): Scope {
  const { namespace, job, group, component, shared } = levelOf(fields)
  if (shared !== undefined) return { shared }
  if (namespace === undefined || job === undefined || group === undefined)
    throw new Problem('invalid_request', 'name one semaphore: namespace, job and group (and component), or shared')
  return { namespace, job, group, ...without({ component }) }
}

/** When a lock ends, in milliseconds since the epoch; null: never. */
export function untilOf(text: string | undefined, clock: Clock): number | null {
  if (text === undefined) return null
  const fromNow = parseDuration(text)
  const until = fromNow === null ? timeOf('until', text) : clock.wall() + fromNow
  if (fromNow !== null && fromNow > MAX_UNTIL_HOURS * 3_600_000)
    throw invalid('until', `until may be at most ${MAX_UNTIL_HOURS}h from now`)
  if (until <= clock.wall()) throw invalid('until', 'until is not in the future')
  return until
}

function timeOf(field: string, text: string): number {
  const ms = /(Z|[+-]\d\d:\d\d)$/.test(text) ? parseTime(text) : null
  if (ms === null)
    throw invalid(
      field,
      `${field} must be a time such as 2026-01-31T12:00:00Z${field === 'until' ? ', or a duration such as 2h' : ''}`,
    )
  return ms
}

function invalid(field: string, text: string): Problem {
  return new Problem('invalid_request', text, { field })
}

function without<T extends object>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: NonNullable<T[K]>
  }
}
