// What is asked of Lockkeeper itself (managed mode): all asks for one unit are one request, and any restart that comes after what
// was asked for satisfies it, by whomever it was made (design §4.1, protocol M).
import type { Allocation, GroupSpec, TaskState } from './cluster.ts'
import type { Action, Baseline, Hold } from './state.ts'

/** What a replica can do by itself. A reload is a shim's own business. */
export type ManagedAction = Exclude<Action, 'reload'>

export interface Wanted {
  readonly action: ManagedAction
  /** Those that are acted on; empty: all that run. */
  readonly tasks: readonly string[]
  /** Of action `signal`: its name; null: another action. */
  readonly signal: string | null
  /** The newest change that must be read, on the clock of the unit's own host (the mtime of a file there); null: none was named. */
  readonly since: number | null
  /** Where the tasks stood when it was asked without `since`: a restart must have moved past it. Empty: `since` says all. */
  readonly baseline: Baseline
  readonly reason: string
  /** Higher goes first. */
  readonly priority: number
  readonly deadline: number | null
  /** A label that the requests of one caller share; null: none. */
  readonly wave: string | null
  /** Made by the service itself, from a watched file. */
  readonly watched: boolean
}

/** Where a request stands: `done` is restarted and healthy, `gone` has ended with its allocation. */
export const REQUEST_STATES = ['waiting', 'acting', 'observing', 'done', 'failed', 'gone', 'cancelled'] as const
export type RequestState = (typeof REQUEST_STATES)[number]
export type EndState = Exclude<RequestState, 'waiting' | 'acting' | 'observing'>

export function isOpen({ state }: { readonly state: string }): boolean {
  return state === 'waiting' || state === 'acting' || state === 'observing'
}

/** A task that the servers did not know of yet. */
export const NOT_STARTED: Baseline[string] = { restarts: 0, startedAt: null }
const STRENGTH: Readonly<Record<ManagedAction, number>> = { signal: 0, restart: 1, replace: 2 }

/** One request for both: the strongest action, all tasks, the newest change. The very same one when `asked` adds nothing, so that
 *  whoever asks a hundred times a minute writes once (case C3.10). */
export function merge<T extends Wanted>(open: T, asked: Wanted): T {
  const wider =
    open.tasks.length === 0 || asked.tasks.length === 0 ? [] : [...new Set([...open.tasks, ...asked.tasks])].toSorted()
  const merged = {
    action: STRENGTH[asked.action] > STRENGTH[open.action] ? asked.action : open.action,
    tasks: wider,
    signal: asked.signal ?? open.signal,
    since: latest(open.since, asked.since),
    // Who starts a wave joins the one that is under way, and learns its label: two operators are one wave (case C5.6).
    baseline: open.wave !== null && asked.wave !== null ? open.baseline : furthest(open.baseline, asked.baseline),
    priority: Math.max(open.priority, asked.priority),
    deadline: earliest(open.deadline, asked.deadline),
    wave: open.wave ?? asked.wave,
    watched: open.watched && asked.watched,
  }
  const same = Object.entries(merged).every(([key, value]) => JSON.stringify(value) === JSON.stringify(open[key as keyof T]))
  return same ? open : { ...open, ...merged, reason: asked.reason }
}

/** Where a unit's tasks stand, for a request that names no `since`. A restart that is under way for `held` does not count for who
 *  asks now: it may have been too early for what they changed (protocol M6). */
export function baselineNow(allocation: Allocation, held: Hold | null): Baseline {
  const expects = held !== null && held.action === 'restart'
  return Object.fromEntries(
    Object.entries(allocation.tasks).map(([name, { restarts, startedAt }]) => {
      const owed = expects ? (held.baseline[name] ?? NOT_STARTED).restarts + 1 : 0
      return [name, { restarts: Math.max(restarts, owed), startedAt }]
    }),
  )
}

/** Whether every task that is meant was started after what was asked for. A replacement is never satisfied in place: its request
 *  ends with its unit. A task that has finished by design has nothing to be restarted for (case C3.13). */
export function isSatisfied(
  wanted: Pick<Wanted, 'action' | 'tasks' | 'since' | 'baseline'>,
  allocation: Allocation,
  group: GroupSpec,
): boolean {
  if (wanted.action === 'replace') return false
  const { since, baseline } = wanted
  return meantTasks(wanted.tasks, group).every(({ name, role }) => {
    const task = allocation.tasks[name]
    if (role === 'once' && task?.state === 'dead' && !task.failed) return true
    if (task?.startedAt == null || (since !== null && task.startedAt <= since)) return false
    const before = baseline[name]
    // What had not been started has nothing old in it.
    return before?.startedAt == null ? task.restarts >= (before?.restarts ?? 0) : hasStartedSince(before, task)
  })
}

/** What will not work as it looks (case C3.12). */
export function warningsOf({ action, tasks }: Pick<Wanted, 'action' | 'tasks'>, group: GroupSpec): string[] {
  if (action !== 'signal') return []
  return meantTasks(tasks, group).flatMap(({ name, templates }) =>
    templates
      .filter(({ env }) => env)
      .map(
        ({ path }) =>
          `template ${path} of task ${name} has env = true: its values reach the process by a restart, not by a signal`,
      ),
  )
}

/** Whether a task was restarted past where it stood: both must have moved, as the servers' view jumps (facts §4). Not forward: the
 *  clock of its node may have been set back. */
export function hasStartedSince(before: Baseline[string], now: TaskState | undefined): boolean {
  return now !== undefined && now.restarts > before.restarts && now.startedAt !== null && now.startedAt !== before.startedAt
}

/** The tasks that an action is about: those named, else all that are to run for good. */
export function meantTasks(names: readonly string[], group: GroupSpec) {
  return group.tasks.filter(({ name, role }) => (names.length === 0 ? role !== 'once' : names.includes(name)))
}

function latest(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.max(a, b)
}

function earliest(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.min(a, b)
}

/** `b` was read later: as often restarted, it may know of a start that `a` did not know. */
function furthest(a: Baseline, b: Baseline): Baseline {
  const further = Object.entries(b).filter(([name, { restarts, startedAt }]) => {
    const before = a[name] ?? { restarts: -1, startedAt: null }
    return restarts > before.restarts || (restarts === before.restarts && startedAt !== null)
  })
  return { ...a, ...Object.fromEntries(further) }
}
