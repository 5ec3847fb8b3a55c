// All that is judged, gathered when everything is over.
import type { ShimEvent } from '../../src/shim/events.ts'
import type { ActLine, Fault, FencedLine, WorkloadLine } from './journal.ts'
import type { LockStory } from './operators.ts'
import type { History } from './recorder.ts'
import type { Shim } from './shims.ts'

/** What Nomad tells of an allocation in the end. */
export interface AllocationStory {
  readonly id: string
  readonly group: string
  readonly restarts: number
  /** Times of the restarts that were asked for: the last few only. */
  readonly restartSignals: readonly number[]
}

export interface Evidence {
  /** Until when a restart is somebody's act: then the job is removed. */
  readonly endedAt: number
  readonly workloads: readonly WorkloadLine[]
  readonly acts: readonly ActLine[]
  readonly fenced: readonly FencedLine[]
  readonly faults: readonly Fault[]
  readonly histories: readonly History[]
  readonly locks: readonly LockStory[]
  readonly shims: readonly (Shim & { readonly events: readonly (ShimEvent | string)[]; readonly output: string })[]
  readonly allocations: readonly AllocationStory[]
  /** Of the replicas. */
  readonly logs: readonly (Readonly<Record<string, unknown>> | string)[]
  readonly accidents: readonly string[]
  /** What had not ended when the patience was over, and what is left stored: sentences. */
  readonly left: readonly string[]
}

export interface Verdict {
  readonly violations: string[]
  /** Figures and what is explained by a documented hole, for people. */
  readonly figures: Record<string, number>
}

export function emptyVerdict(): Verdict {
  return { violations: [], figures: {} }
}

export function count(verdict: Verdict, what: string, by = 1): void {
  verdict.figures[what] = (verdict.figures[what] ?? 0) + by
}

/** Whether a fault of this kind upon this one was on between two times. */
export function troubled(
  faults: readonly Fault[],
  kinds: readonly Fault['kind'][],
  who: string,
  from: number,
  to: number,
): boolean {
  return faults.some(
    (fault) => kinds.includes(fault.kind) && fault.who === who && fault.at <= to && (fault.until ?? Infinity) >= from,
  )
}

export function iso(at: number): string {
  return new Date(at).toISOString().slice(11, 23)
}
