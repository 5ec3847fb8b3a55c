// From the workloads' own logs: who was down by an act, and how many of a group at a time.
import { count, emptyVerdict, iso, troubled, type Evidence, type Verdict } from '../evidence.ts'
import type { WorkloadLine } from '../journal.ts'
import { GROUPS, MOODY } from '../setup.ts'
import { actsOf, holdsOf, type Act, type HoldStory } from './stories.ts'

/** A restart call takes effect before it is answered; the lines of two processes may be written a little out of order. */
const SKEW_MS = 50

interface Down {
  readonly group: string
  readonly allocation: string
  readonly from: number
  /** When its next process was healthy; Infinity: never. */
  readonly to: number
  readonly act: Act
  /** The value that its next process began with was bad. */
  readonly bad: boolean
}

export function judgeAvailability(evidence: Evidence): Verdict {
  const verdict = emptyVerdict()
  const acts = actsOf(evidence)
  const downs: Down[] = []
  for (const [allocation, lines] of byAllocation(evidence.workloads)) {
    for (const [at, line] of lines.entries()) {
      if (line.event !== 'stop' || line.at > evidence.endedAt) continue
      const act = whoseStop(acts, allocation, line.at)
      if (act === null) {
        verdict.violations.push(`${line.group} ${allocation} was stopped at ${iso(line.at)} and nobody had asked for it`)
        continue
      }
      count(verdict, 'restarts by acts')
      if (isLate(verdict, evidence, act, line)) continue
      const rest = lines.slice(at + 1)
      const to = rest.find(({ event }) => event === 'healthy')?.at ?? Infinity
      const bad = rest.find(({ event }) => event !== 'start')?.event === 'bad'
      downs.push({ group: line.group, allocation, from: line.at, to, act, bad })
    }
  }
  for (const { name, maxParallel } of GROUPS)
    judgeGroup(
      verdict,
      downs.filter(({ group }) => group === name),
      name,
      maxParallel,
    )
  judgeBadValues(verdict, evidence, downs)
  return verdict
}

/** Whoever called for it last, before it. */
function whoseStop(acts: readonly Act[], allocation: string, at: number): Act | null {
  const callers = acts.filter(
    ({ unit, calls }) =>
      unit === allocation &&
      calls.some((call) => call.at - SKEW_MS <= at && (call.answer?.status !== 200 || call.answer.at + SKEW_MS >= at)),
  )
  return callers.toSorted((a, b) => lastCall(b, at) - lastCall(a, at))[0] ?? null
}

function lastCall({ calls }: Act, before: number): number {
  return Math.max(...calls.filter(({ at }) => at - SKEW_MS <= before).map(({ at }) => at))
}

/** A restart that took effect when its hold was over already: only what was frozen, or asked of a server that was, may do that.
 *  Nomad's restart call knows no fencing (a documented hole). */
function isLate(verdict: Verdict, evidence: Evidence, act: Act, { group, allocation, at }: WorkloadLine): boolean {
  const hold = holdOf(evidence, act)
  if (hold?.end == null || hold.end.seenAt >= at) return false
  const frozen = troubled(evidence.faults, ['freeze', 'kill'], act.shim, hold.granted.at, at)
  const unanswered = act.calls.some((call) => call.at <= at && call.answer?.status !== 200)
  if (frozen) count(verdict, 'late: the shim was frozen or killed while its act went on')
  else if (unanswered) count(verdict, 'late: the call hung in a server that was frozen or killed')
  else
    verdict.violations.push(
      `${act.shim} restarted ${group} ${allocation} at ${iso(at)}, though its hold #${act.token} was over at ${iso(hold.end.seenAt)} (${hold.end.kind})`,
    )
  return true
}

function judgeGroup(verdict: Verdict, downs: readonly Down[], group: string, maxParallel: number): void {
  for (const { from } of downs) {
    const together = new Map(
      downs.filter((other) => other.from <= from && from < other.to).map((other) => [other.allocation, other]),
    )
    const most = `most down at a time by acts in ${group} (at most ${maxParallel})`
    verdict.figures[most] = Math.max(verdict.figures[most] ?? 0, together.size)
    if (together.size <= maxParallel) continue
    const who = [...together.values()].map(
      (one) =>
        `${one.allocation.slice(0, 8)} by ${one.act.shim} #${one.act.token} ${iso(one.from)} to ${one.to === Infinity ? 'the end' : iso(one.to)}`,
    )
    verdict.violations.push(
      `${group}: ${together.size} down at ${iso(from)}, at most ${maxParallel} are allowed: ${who.join('; ')}`,
    )
  }
}

/** A bad value stops at the first units: as many as may be held at once. */
function judgeBadValues(verdict: Verdict, { faults }: Evidence, downs: readonly Down[]): void {
  const { maxParallel } = GROUPS.find(({ name }) => name === MOODY) as (typeof GROUPS)[number]
  for (const { at, until } of faults.filter(({ kind }) => kind === 'bad_value')) {
    const units = new Set(
      downs.filter((down) => down.bad && down.from >= at && down.from <= (until ?? Infinity)).map(({ allocation }) => allocation),
    )
    count(verdict, 'bad values')
    count(verdict, 'units that a bad value reached', units.size)
    if (units.size > maxParallel)
      verdict.violations.push(`the bad value of ${iso(at)} reached ${units.size} units, at most ${maxParallel} are allowed`)
  }
}

/** What Nomad itself wrote down of the same. */
export function judgeTaskEvents(evidence: Evidence): Verdict {
  const verdict = emptyVerdict()
  const acts = actsOf(evidence)
  const logs = byAllocation(evidence.workloads)
  for (const { id, group, restarts, restartSignals } of evidence.allocations) {
    const starts = (logs.get(id) ?? []).filter(({ event }) => event === 'start').length
    // A process that is told to stop before it can say that it starts leaves no line.
    if (starts - 1 > restarts)
      verdict.violations.push(`${group} ${id}: Nomad counts ${restarts} restarts, its log ${starts} starts`)
    count(verdict, 'restarts that Nomad counts', restarts)
    for (const at of restartSignals) {
      count(verdict, 'restart events seen')
      if (whoseStop(acts, id, at) === null)
        verdict.violations.push(`${group} ${id}: Nomad was asked for a restart at ${iso(at)}, and by no act`)
    }
  }
  return verdict
}

function byAllocation(lines: readonly WorkloadLine[]): Map<string, WorkloadLine[]> {
  const all = new Map<string, WorkloadLine[]>()
  for (const line of lines.toSorted((a, b) => a.at - b.at)) all.set(line.allocation, [...(all.get(line.allocation) ?? []), line])
  return all
}

function holdOf({ histories }: Evidence, act: Act): HoldStory | undefined {
  const history = histories.find(({ name }) => name === act.semaphore)
  return history === undefined ? undefined : holdsOf(history).get(act.token)
}
