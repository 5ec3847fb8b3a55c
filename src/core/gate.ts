// The health gate: decides from what was seen when an observed hold, or an open failure, is over (design §4.6, protocol E).
// Pure: the memory of what was seen goes in and comes out. `at` is monotonic and belongs to the replica that looks.
import { LAG_MS, type Allocation, type CheckResult, type GroupSpec } from './cluster.ts'
import { hasStartedSince, NOT_STARTED } from './request.ts'
import { whyDown } from './budget.ts'
import type { Policy } from './policy.ts'
import type { Baseline, Hold, Outcome } from './state.ts'

/** An actor that may not have acted, by how it ended: for so long, with an answer to every look, the unit must still be as it
 *  was, so that an act under way would be seen (protocol E3, E4, E6). `abandoned`: within the second that a waiter may expect.
 *  `overdue`: its lease may be valid for a while yet. */
const QUIET_MS: Readonly<Partial<Record<Outcome, number>>> = { abandoned: 700, failed: 5_000, lease_lost: 5_000, overdue: 60_000 }
/** Looks that are further apart are not one unbroken run. */
const UNSEEN_MS = 15_000
/** How long Nomad may take to name a replacement: before that, gone is not gone. */
export const REPLACEMENT_MS = 10_000

/** What is watched: a hold in `observing`, or a failure that is still open. */
export interface Watched {
  readonly unit: string
  /** Those that were acted on; empty: all that run. */
  readonly tasks: readonly string[]
  readonly action: Hold['action']
  readonly outcome: Hold['outcome']
  readonly wasUp: boolean
  readonly baseline: Baseline
  /** Wall time from which `healthy_deadline` counts; null: no deadline (an open failure). */
  readonly since: number | null
  /** Of an open failure: the job version that failed; null: a hold. */
  readonly failedVersion: number | null
}

/** One look at the unit. `allocation`: the last of the chain of replacements; null: Nomad does not know it; 'unknown': no
 *  answer. `checks`: of that allocation, read after the look began; an answer proves that its agent is there (protocol E6). */
export interface Sight {
  /** When the look was begun: it shows nothing older. */
  readonly at: number
  /** When all of it was in: it shows nothing newer. What it was the first to see counts from here. */
  readonly seenAt: number
  readonly wall: number
  readonly allocation: Allocation | null | 'unknown'
  readonly checks: readonly CheckResult[] | 'unknown'
  readonly group: GroupSpec | null
  /** What is known of the replacement that Nomad owes for a unit that has ended; null: it owes none. */
  readonly owed: string | null
}

export interface GateMemory {
  readonly lookedAt: number
  /** Since when Nomad and the agent have answered each look: before that, nothing old-looking proves anything. */
  readonly answeredSince: number | null
  readonly healthySince: number | null
  readonly goneSince: number | null
  /** Starts of all tasks at the last look: another start begins the count again. */
  readonly starts: string
  /** For actions without a restart: the newest check time of the first look after the act (protocol E7). */
  readonly newestCheck: number | null
}

export type Verdict =
  | { readonly kind: 'watch'; readonly reason: string }
  | { readonly kind: 'healthy' | 'unchanged' | 'gone' | 'failed'; readonly reason: string }

/** One step. Guarantees: `healthy` only after an unbroken run of looks, each with an answer of the allocation's own agent and
 *  checks newer than the act, for `min_healthy_time`; `gone` only after a second look; anything unknown starts the count again. */
export function look(
  memory: GateMemory | null,
  watched: Watched,
  sight: Sight,
  policy: Policy,
): { memory: GateMemory; verdict: Verdict } {
  const { allocation, checks } = sight
  const before = memory ?? {
    lookedAt: sight.at,
    answeredSince: null,
    healthySince: null,
    goneSince: null,
    starts: '',
    newestCheck: null,
  }
  const last: GateMemory = {
    ...before,
    lookedAt: sight.at,
    answeredSince: allocation === 'unknown' || checks === 'unknown' ? null : (before.answeredSince ?? sight.at),
    newestCheck: before.newestCheck ?? newest(checks),
  }
  const fail = (reason: string) => pastDeadline(watched, sight.wall, policy, reason)
  const broken = (reason: string) => ({
    memory: { ...last, healthySince: null, goneSince: null },
    verdict: fail(reason),
  })
  if (allocation === 'unknown') return broken('Nomad does not tell the state of the allocation')
  if (allocation === null || isOver(allocation)) return missing(last, watched, sight, allocation, broken)
  if (allocation.desired !== 'run') return broken('Nomad is stopping the allocation')
  if (watched.failedVersion !== null && allocation.jobVersion > watched.failedVersion) {
    return { memory: last, verdict: { kind: 'gone', reason: 'replaced by a newer version of the job' } }
  }
  const unhealthy =
    sight.group === null
      ? 'its group is no longer in the job'
      : whyUnhealthy(allocation, sight.group, sight, watched, policy, last)
  const starts = startsOf(allocation)
  // What was not looked at for a while, by a replica that was frozen, say, is not known to have been healthy meanwhile.
  const steady = (last.starts === starts || last.healthySince === null) && sight.at - before.lookedAt <= UNSEEN_MS
  const healthySince = unhealthy !== null ? null : steady ? (last.healthySince ?? sight.seenAt) : sight.seenAt
  const next: GateMemory = {
    ...last,
    goneSince: null,
    starts,
    healthySince,
  }
  const acted = actIsVisible(watched, allocation)
  if ((!acted || watched.outcome === 'abandoned') && isUnchanged(next, watched, sight, allocation, unhealthy)) {
    return { memory: next, verdict: { kind: 'unchanged', reason: 'its actor did not act, the unit is as it was' } }
  }
  if (unhealthy !== null) return { memory: next, verdict: fail(unhealthy) }
  if (!acted) return { memory: next, verdict: fail('its restart is not to be seen yet') }
  const needed = Math.max(policy.minHealthyTime, LAG_MS)
  const healthyFor = Math.max(0, sight.at - (healthySince ?? sight.at))
  if (watched.outcome === 'overdue' && !isQuiet(next, watched, sight))
    return { memory: next, verdict: fail('its actor may still act') }
  if (healthyFor >= needed)
    return { memory: next, verdict: { kind: 'healthy', reason: `healthy for ${Math.floor(healthyFor / 1_000)} s` } }
  return { memory: next, verdict: fail(`healthy for ${Math.floor(healthyFor / 1_000)} of ${needed / 1_000} s`) }
}

/** Ended, and Nomad does not want it back here. A task that failed for good is not over: it is to be replaced. */
function isOver(allocation: Allocation): boolean {
  const { desired, client } = allocation
  return (
    client === 'complete' ||
    client === 'failed' ||
    client === 'lost' ||
    (desired !== 'run' && client !== 'running' && client !== 'unknown')
  )
}

function missing(
  last: GateMemory,
  watched: Watched,
  sight: Sight,
  allocation: Allocation | null,
  broken: (reason: string) => { memory: GateMemory; verdict: Verdict },
): { memory: GateMemory; verdict: Verdict } {
  const { owed } = sight
  const goneSince = owed === null ? (last.goneSince ?? sight.seenAt) : null
  const waiting = broken(`the allocation has ended; ${owed ?? 'Nomad may name a replacement'}`)
  const memory = { ...waiting.memory, goneSince }
  // One that was asked for may wait for a volume or for room until the deadline (case C2.6).
  const isOwed = goneSince === null || watched.action === 'replace'
  if (isOwed || sight.at - goneSince < REPLACEMENT_MS) return { memory, verdict: waiting.verdict }
  if (allocation?.client === 'failed' && allocation.desired === 'run') {
    return { memory, verdict: { kind: 'failed', reason: 'the allocation failed for good and has no replacement' } }
  }
  return { memory, verdict: { kind: 'gone', reason: 'the allocation is gone and has no replacement' } }
}

/** Null when the allocation is healthy in this look. */
function whyUnhealthy(
  allocation: Allocation,
  group: GroupSpec,
  sight: Sight,
  watched: Watched,
  policy: Policy,
  memory: GateMemory,
): string | null {
  const down = whyDown(allocation, group)
  if (down !== null) return down
  if (sight.checks === 'unknown') return 'the client agent of its node does not answer, so its checks could not be read'
  if (policy.healthCheck !== 'checks') return null
  const checks = sight.checks.filter(({ mode }) => mode === 'healthiness')
  if (checks.length < group.healthinessChecks) return `${checks.length} of ${group.healthinessChecks} checks have a result`
  const bad = checks.find(({ status }) => status !== 'success')
  if (bad !== undefined) return `check ${bad.check} says ${bad.status}`
  const floor = checksNewerThan(allocation, group, watched, memory)
  const old = checks.find(({ timestamp }) => timestamp <= floor)
  return old === undefined ? null : `the result of check ${old.check} is older than the act`
}

/** Whole seconds that a check's time must be later than: the newest start, or, where nothing starts anew, the newest result
 *  that was there at the first look (protocol E7). Both are times of the unit's own host. */
function checksNewerThan(allocation: Allocation, group: GroupSpec, watched: Watched, memory: GateMemory): number {
  const started = group.tasks.filter(({ role }) => role !== 'once').map(({ name }) => allocation.tasks[name]?.startedAt ?? 0)
  const newestStart = Math.floor(Math.max(0, ...started) / 1_000)
  const sameProcess = watched.failedVersion === null && allocation.id === watched.unit && !hasMoved(watched, allocation)
  return sameProcess && watched.outcome !== 'abandoned' ? Math.max(newestStart, memory.newestCheck ?? 0) : newestStart
}

/** For a restart or replacement the baseline must have moved; a signal has none (protocol M7, E7). */
function actIsVisible(watched: Watched, allocation: Allocation): boolean {
  if (watched.failedVersion !== null || watched.action === 'signal' || watched.action === 'reload') return true
  return allocation.id !== watched.unit || hasMoved(watched, allocation)
}

/** Each of the tasks that were named; else any: those that run are restarted together. */
function hasMoved({ tasks, baseline }: Watched, allocation: Allocation): boolean {
  const moved = (task: string) => hasStartedSince(baseline[task] ?? NOT_STARTED, allocation.tasks[task])
  return tasks.length === 0 ? Object.keys(allocation.tasks).some(moved) : tasks.every(moved)
}

/** Up as it was, or down as it was, for long enough; and nothing is under way: a task may take long to stop. */
function isUnchanged(
  memory: GateMemory,
  watched: Watched,
  sight: Sight,
  allocation: Allocation,
  unhealthy: string | null,
): boolean {
  if (watched.wasUp && unhealthy !== null) return false
  const stopping = Object.values(allocation.tasks).some((task) => task.stopping)
  if (stopping || allocation.id !== watched.unit || hasMoved(watched, allocation)) return false
  return isQuiet(memory, watched, sight)
}

/** Its actor can have acted no more for so long that its act would be seen. */
function isQuiet({ answeredSince }: GateMemory, { outcome }: Watched, { at }: Sight): boolean {
  const quiet = outcome === null ? undefined : QUIET_MS[outcome]
  return quiet !== undefined && answeredSince !== null && at - answeredSince >= quiet
}

function pastDeadline(watched: Watched, wall: number, policy: Policy, reason: string): Verdict {
  if (watched.since === null || wall - watched.since < policy.healthyDeadline) return { kind: 'watch', reason }
  return { kind: 'failed', reason: `not healthy within ${policy.healthyDeadline / 1_000} s: ${reason}` }
}

function startsOf(allocation: Allocation): string {
  return JSON.stringify([
    allocation.id,
    Object.entries(allocation.tasks).map(([name, task]) => [name, task.restarts, task.startedAt]),
  ])
}

function newest(checks: Sight['checks']): number | null {
  return checks === 'unknown' ? null : Math.max(0, ...checks.map(({ timestamp }) => timestamp))
}
