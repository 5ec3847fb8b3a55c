import type { Static } from 'typebox'
import { levelFault, levelsAbove, type Level, type Scope } from '../../core/scope.ts'
import { sentenceOf } from '../../keeper/lock-view.ts'
import type { ListedLock } from '../../keeper/operate.ts'
import { withoutTrailingSlash, type Paths } from '../../keeper/paths.ts'
import type { OperatorLock } from '../../keeper/records.ts'
import type { LockView } from '../schemas/locks.ts'
import { timeText } from './holds.ts'

const FIELDS = ['namespace', 'job', 'group', 'component', 'shared', 'nodes'] as const

/** A lock as it is listed. Its path shuts; the level in its items is told only when it is that of the path. */
export function listedLock(lock: ListedLock, paths: Paths): Static<typeof LockView> {
  return lockView({ ...lock, level: levelAt(lock, paths) ?? {} }, lock.path)
}

export function lockView({ level, reason, by, until }: OperatorLock, path: string): Static<typeof LockView> {
  return { ...level, path, reason, by, ...(until === null ? {} : { until: timeText(until) }) }
}

/** The sentence about the widest of these locks that shuts the scope; null: none does. */
export function lockedBy(locks: readonly ListedLock[], scope: Scope, paths: Paths): string | null {
  const byPath = new Map(locks.map((lock) => [withoutTrailingSlash(lock.path), lock]))
  const level = levelsAbove(scope).find((above) => byPath.has(paths.lock(above)))
  if (level === undefined) return null
  const { reason, by, until } = byPath.get(paths.lock(level)) as ListedLock
  return sentenceOf(level, { level, reason, by, until })
}

/** Anybody may have written it by hand: null when it is no level, or another one than the path's. */
function levelAt({ level, path }: ListedLock, paths: Paths): Level | null {
  if (level === null) return null
  const known = Object.entries(level).every(
    ([name, value]) => FIELDS.some((field) => field === name) && typeof value === 'string',
  )
  return known && levelFault(level) === null && paths.lock(level) === withoutTrailingSlash(path) ? level : null
}
