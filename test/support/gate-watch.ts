// The story of one watched hold, looked at every second by the health gate.
import type { Allocation, CheckResult, GroupSpec } from '../../src/core/cluster.ts'
import { look, type GateMemory, type Sight, type Verdict, type Watched } from '../../src/core/gate.ts'
import type { Policy } from '../../src/core/policy.ts'
import { allocationOf, checkOf, groupSpec, MINUTE, NOW, policyOf, SECOND, taskOf, unitId } from './builders.ts'

/** Second 0 of every story here is the release. */
export const clockOf = (second: number) => NOW / SECOND + second

/** A hold that was released, all well, at second 0. */
export function watchedOf(over: Partial<Watched> = {}): Watched {
  return {
    unit: unitId(0),
    tasks: [],
    action: 'restart',
    outcome: 'done',
    wasUp: true,
    baseline: { app: { restarts: 0, startedAt: NOW - 60 * MINUTE } },
    since: NOW,
    failedVersion: null,
    ...over,
  }
}

/** The unit as it was before. */
export const before = (over: Partial<Allocation> = {}) => allocationOf(0, over)

/** The unit after its `nth` restart, started at `second`. */
export function restarted(second = 0, nth = 1, over: Partial<Allocation> = {}): Allocation {
  return allocationOf(0, { tasks: { app: taskOf({ restarts: nth, startedAt: NOW + second * SECOND }) }, ...over })
}

interface Seen {
  readonly allocation: Sight['allocation']
  /** Default: a passing result from this very second. */
  readonly checks?: readonly CheckResult[] | 'unknown'
}

export interface Watch {
  readonly seen: (second: number) => Seen
  readonly watched?: Watched
  readonly policy?: Policy
  readonly group?: GroupSpec | null
  readonly from?: number
  readonly until?: number
  readonly every?: number
  /** Seconds from the beginning of each look until all of it is in. */
  readonly lasting?: number
  readonly memory?: GateMemory | null
  readonly owed?: string
}

interface Ended {
  readonly second: number
  readonly kind: Verdict['kind']
  readonly reason: string
  /** Why it was watched on, look by look. */
  readonly reasons: readonly string[]
  readonly memory: GateMemory | null
}

/** Looks every second (or as often as is said) until there is a verdict. */
export function watch({ seen, watched = watchedOf(), policy = policyOf(), group = groupSpec(), ...given }: Watch): Ended {
  const { from = 0, until = 1_000, every = 1, lasting = 0 } = given
  let memory = given.memory ?? null
  const reasons: string[] = []
  for (let n = 0; ; n++) {
    const second = from + n * every
    if (second > until) return { second: until, kind: 'watch', reason: reasons.at(-1) ?? '', reasons, memory }
    const { allocation, checks = [checkOf(Math.floor(clockOf(second)))] } = seen(second)
    const at = 7_000 + second * SECOND
    const { owed = null } = given
    const sight = { at, seenAt: at + lasting * SECOND, wall: NOW + second * SECOND, allocation, checks, group, owed }
    const step = look(memory, watched, sight, policy)
    memory = step.memory
    if (step.verdict.kind !== 'watch') return { second, ...step.verdict, reasons, memory }
    reasons.push(step.verdict.reason)
  }
}
