// The operator locks: which level is shut, and the proof that none was before a commit (protocol G7, S4).
import { Problem } from '../core/errors.ts'
import { describe, levelsAbove, type Level, type Scope } from '../core/scope.ts'
import { formatTime } from './clock.ts'
import { withoutTrailingSlash, type Paths } from './paths.ts'
import type { Clock, Log, VariableMeta, Variables } from './ports.ts'
import { levelOf, readLock, type OperatorLock } from './records.ts'
import type { Snapshot } from './watch.ts'

export interface StoredLock extends OperatorLock {
  readonly path: string
  readonly index: number
}

export interface LockView {
  /** Whether the sentinel was seen in the newest list: only then does an empty list mean that nothing is locked. */
  canList(): boolean
  /** The sentence about the widest lock that shuts the scope in the newest snapshot; null: none. */
  shuts(scope: Scope): string | null
  /** The same, from a list that has seen everything committed before `index`. Throws when there is none to be had. */
  shutsAt(index: number, scope: Scope, signal: AbortSignal): Promise<string | null>
  see(snapshot: Snapshot): Promise<void>
  /** Removes locks whose `until` is over, by check-and-set on what was seen. */
  endOverdue(): Promise<void>
}

const LIST_AGAIN_MS = 50

export function createLockView(variables: Variables, paths: Paths, clock: Clock, log: Log, signal: AbortSignal): LockView {
  let listed: ReadonlyMap<string, VariableMeta> = new Map()
  const details = new Map<string, StoredLock>()

  function shutting(entries: Iterable<string>, scope: Scope): string | null {
    const there = new Set(Array.from(entries, withoutTrailingSlash))
    const level = levelsAbove(scope).find((above) => there.has(paths.lock(above)))
    return level === undefined ? null : sentenceOf(level, details.get(paths.lock(level)))
  }

  return {
    canList: () => listed.has(paths.sentinel),
    shuts: (scope) =>
      listed.has(paths.sentinel) ? shutting(listed.keys(), scope) : 'whether an operator lock is there cannot be seen',
    async shutsAt(index, scope, until) {
      for (;;) {
        const list = await variables.list(paths.locks, undefined, until)
        const names = list.variables.map(({ path }) => path)
        if (!names.includes(paths.sentinel)) {
          throw new Problem(
            'nomad_denied',
            `the list of ${paths.locks} does not show ${paths.sentinel}: the service needs "list" there`,
          )
        }
        if (list.index < index) {
          await clock.sleep(LIST_AGAIN_MS, until)
          continue
        }
        // The next decision must see what this one saw.
        listed = new Map(list.variables.filter(({ path }) => isLockPath(paths, path)).map((meta) => [meta.path, meta]))
        return shutting(names, scope)
      }
    },
    async see(snapshot) {
      const entries = new Map([...snapshot.entries].filter(([path]) => isLockPath(paths, path)))
      listed = entries
      for (const path of details.keys()) if (!entries.has(path)) details.delete(path)
      for (const { path, modifyIndex } of entries.values()) {
        if (path === paths.sentinel || details.get(path)?.index === modifyIndex) continue
        const { variable } = await variables.get(path, undefined, signal)
        if (variable === null) continue
        const level = levelOf(variable.items) ?? {}
        details.set(withoutTrailingSlash(path), { ...readLock(level, variable.items), path, index: variable.modifyIndex })
      }
    },
    async endOverdue() {
      for (const { path, index, until, level } of details.values()) {
        if (until === null || until > clock.wall()) continue
        await variables.remove(path, index, signal)
        log.info({ path }, `the operator lock on ${describe(level)} has ended by its until`)
      }
    },
  }
}

export function isLockPath(paths: Paths, path: string): boolean {
  return path === paths.locks || path.startsWith(`${paths.locks}/`)
}

export function sentenceOf(level: Level, lock: OperatorLock | undefined): string {
  const until = lock?.until == null ? '' : ` until ${formatTime(lock.until)}`
  return `${describe(level)} is locked${lock === undefined ? '' : ` by ${lock.by}${until}: ${lock.reason}`}`
}
