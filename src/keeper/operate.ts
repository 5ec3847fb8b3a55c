// What operators do: plain reads and writes of Nomad variables, under the token that `variables` carries. Neither needs the service
// to run, nor does it need to know of it: it sees the variables change.
import { Problem } from '../core/errors.ts'
import { contains, describe, type Level, type Scope } from '../core/scope.ts'
import { forceRelease, resume } from '../core/semaphore.ts'
import type { Hold, State } from '../core/state.ts'
import { isLockPath, sentenceOf } from './lock-view.ts'
import type { Paths } from './paths.ts'
import type { Variables } from './ports.ts'
import { levelOf, lockItems, readLock, readSemaphore, scopeOf, semaphoreItems, type OperatorLock } from './records.ts'

/** A change loses a check-and-set at most so often before it is given up: each loss means that somebody else got on. */
const TRIES = 20
const READS_AT_ONCE = 8

export interface StoredSemaphore {
  readonly path: string
  readonly index: number
  /** Null: its items do not tell a scope that belongs to its path. */
  readonly scope: Scope | null
  readonly state: State | { readonly unreadable: string }
}

export interface InFlight {
  readonly scope: Scope
  readonly hold: Hold
}

/** Puts an operator lock: only where none is. Answers with the holds that were granted before it: they are under way, and a grant
 *  among them may still reach its asker (protocol S3). None is handed out after it. `readers`: what the holds are read with, where a
 *  token may lock but not list semaphores: to it Nomad shows none, without an error. */
export async function lock(
  variables: Variables,
  paths: Paths,
  wanted: OperatorLock,
  signal: AbortSignal,
  readers: Variables = variables,
): Promise<InFlight[]> {
  const path = paths.lock(wanted.level)
  const put = await variables.put(path, lockItems(wanted), 0, signal)
  if (put.kind === 'conflict') {
    const there = put.current === null ? undefined : readLock(wanted.level, put.current.items)
    throw new Problem('conflict', `${sentenceOf(wanted.level, there)}; unlock it first`)
  }
  return await inFlight(readers, paths, wanted.level, put.index, signal)
}

/** The holds at or below a level, read not before `index`. */
export async function inFlight(
  variables: Variables,
  paths: Paths,
  level: Level,
  index: number,
  signal: AbortSignal,
): Promise<InFlight[]> {
  const stored = await readSemaphores(variables, paths, level, index, signal)
  return stored.flatMap(({ scope, state }) =>
    scope === null || 'unreadable' in state ? [] : state.holds.map((hold) => ({ scope, hold })),
  )
}

/** Removes the lock on exactly this level, by check-and-set on the version that was seen (protocol S4). */
export async function unlock(variables: Variables, paths: Paths, level: Level, signal: AbortSignal): Promise<OperatorLock> {
  const path = paths.lock(level)
  const { variable } = await variables.get(path, undefined, signal)
  if (variable === null)
    throw new Problem('unknown_lock', `there is no operator lock on ${describe(level)}; see \`lockkeeper status\``)
  const removed = await variables.remove(path, variable.modifyIndex, signal)
  if (removed.kind === 'conflict' && removed.current !== null) {
    throw new Problem('conflict', `the lock on ${describe(level)} was changed at the same moment; look at it again`)
  }
  return readLock(level, variable.items)
}

/** A lock as it is stored. `level` null: it was written by hand; its path tells what it shuts. */
export interface ListedLock extends Omit<OperatorLock, 'level'> {
  readonly path: string
  readonly level: Level | null
}

export async function readLocks(variables: Variables, paths: Paths, signal: AbortSignal): Promise<ListedLock[]> {
  const list = await variables.list(paths.locks, undefined, signal)
  const wanted = list.variables.filter(({ path }) => isLockPath(paths, path) && path !== paths.sentinel)
  const read = await inTurns(wanted, async ({ path }) => {
    const { variable } = await variables.get(path, undefined, signal)
    if (variable === null) return []
    return [{ ...readLock({}, variable.items), path, level: levelOf(variable.items) }]
  })
  return read.flat()
}

/** An operator says that a halted semaphore may go on. */
export async function resumeSemaphore(
  variables: Variables,
  paths: Paths,
  scope: Scope,
  reason: string,
  now: () => number,
  signal: AbortSignal,
) {
  const { changed } = await change(variables, paths, scope, (state) => resume(state, reason, now()), signal)
  return { changed }
}

/** Ends a hold by force. Its actor may still act: nothing can take that from it. */
export async function releaseByForce(
  variables: Variables,
  paths: Paths,
  id: string,
  reason: string,
  now: () => number,
  signal: AbortSignal,
) {
  const found = (await inFlight(variables, paths, {}, 0, signal)).find(({ hold }) => hold.id === id)
  if (found === undefined) throw unknownHold(id)
  const { changed } = await change(variables, paths, found.scope, (state) => forceRelease(state, id, reason, now()), signal)
  if (!changed) throw unknownHold(id)
  return found
}

export function unknownHold(id: string): Problem {
  return new Problem('unknown_hold', `there is no hold ${id}; it may be over. See \`lockkeeper status\``)
}

/** All stored semaphores at or below a level, in lists and reads that see everything committed before `index`. */
export async function readSemaphores(variables: Variables, paths: Paths, level: Level, index: number, signal: AbortSignal) {
  const list = await variables.list(paths.semaphores, undefined, signal)
  if (list.index < index)
    throw new Problem('nomad_unavailable', 'Nomad answered from an older state than the write just made; ask again')
  const read = await inTurns(list.variables, async ({ path }) => await readOne(variables, paths, path, signal))
  return read.flat().filter(({ scope }) => scope === null || contains(level, scope))
}

async function readOne(variables: Variables, paths: Paths, path: string, signal: AbortSignal): Promise<StoredSemaphore[]> {
  const { variable } = await variables.get(path, undefined, signal)
  if (variable === null) return []
  const scope = scopeOf(variable.items, (named) => paths.semaphore(named) === path)
  return [{ path, index: variable.modifyIndex, scope, state: readSemaphore(variable.items) }]
}

/** Read, decide, check-and-set, again on what the loser is given back. */
async function change(variables: Variables, paths: Paths, scope: Scope, apply: (state: State) => State, signal: AbortSignal) {
  const path = paths.semaphore(scope)
  let { variable } = await variables.get(path, undefined, signal)
  for (let tries = 0; tries < TRIES; tries++) {
    if (variable === null) throw new Problem('unknown_semaphore', `nothing was ever held in ${describe(scope)}`)
    const state = readSemaphore(variable.items)
    if ('unreadable' in state) throw new Problem('state_unreadable', `${path}: ${state.unreadable}; it is left as it is`)
    const next = apply(state)
    if (next === state) return { changed: false }
    const items = semaphoreItems(next)
    if (items === null) throw new Problem('internal', `the state of ${describe(scope)} would be too large to store`)
    const put = await variables.put(path, items, variable.modifyIndex, signal)
    if (put.kind === 'written') return { changed: true }
    variable = put.current
  }
  throw new Problem('conflict', `${describe(scope)} changes too fast; try again`)
}

async function inTurns<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (let from = 0; from < items.length; from += READS_AT_ONCE) {
    results.push(...(await Promise.all(items.slice(from, from + READS_AT_ONCE).map(work))))
  }
  return results
}
