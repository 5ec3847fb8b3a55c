import type { Static } from 'typebox'
import type { Candidate, Wait } from '../../core/admission.ts'
import { formatDuration } from '../../core/duration.ts'
import { minIntervalOf, type ResolvedPolicy } from '../../core/policy.ts'
import type { Failure } from '../../core/state.ts'
import type { StoredSemaphore } from '../../keeper/operate.ts'
import type { Semaphore } from '../../keeper/semaphore.ts'
import type { FailureView, PolicyView, QueueEntry, SemaphoreView } from '../schemas/semaphores.ts'
import { holdView, scopeView, timeText } from './holds.ts'

type Queue = Awaited<ReturnType<Semaphore['queue']>>

/** What the replica that runs a semaphore adds to what is stored. */
export interface Live {
  readonly semaphore: Semaphore
  /** A text: why the queue could not be found out. */
  readonly queue: Queue | string
}

/** One semaphore. A state that cannot be read is told as such: nothing of it is made up. */
export function semaphoreView(
  { path, scope, state }: StoredSemaphore,
  live: Live | null,
  locked: string | null,
): Static<typeof SemaphoreView> {
  const read = 'unreadable' in state || scope === null ? null : state
  const unreadable = 'unreadable' in state ? state.unreadable : 'its scope does not belong to its path'
  const resolved = live?.semaphore.policy
  return {
    scope: scope === null ? null : scopeView(scope),
    path,
    grants: read?.grants ?? null,
    holds: read === null || scope === null ? [] : read.holds.map((hold) => holdView(hold, scope, live?.semaphore ?? null)),
    queue: live === null || typeof live.queue === 'string' ? [] : queueView(live.queue),
    failures: (read?.failures ?? []).map(failureView),
    halted: read?.halted == null ? null : { since: timeText(read.halted.since), reason: read.halted.reason },
    locked,
    ...(resolved === undefined ? {} : { policy: policyView(resolved), policy_faults: [...resolved.faults] }),
    ...(read === null ? { unreadable } : {}),
    ...(typeof live?.queue === 'string' ? { warning: `the queue and the policy are not known now: ${live.queue}` } : {}),
  }
}

function queueView({ ordered, waits }: Queue): Static<typeof QueueEntry>[] {
  return ordered.map((candidate, at) => queueEntry(candidate, at + 1, waits.get(candidate.id)))
}

function queueEntry(
  { unit, place, priority, deadline }: Candidate,
  position: number,
  wait: Wait = { kind: 'full', detail: 'it is next and is being granted' },
): Static<typeof QueueEntry> {
  const ends = deadline === null ? {} : { deadline: timeText(deadline) }
  return { unit, place, position, kind: wait.kind, detail: wait.detail, priority, ...ends }
}

function failureView({ unit, place, token, slot, reason, at, jobVersion }: Failure): Static<typeof FailureView> {
  return { unit, place, token, slot, reason, at: timeText(at), job_version: jobVersion }
}

function policyView({ policy, origin }: ResolvedPolicy): Static<typeof PolicyView> {
  const length = (key: 'minHealthyTime' | 'healthyDeadline' | 'stagger' | 'actingDeadline') => ({
    value: formatDuration(policy[key]),
    from: origin[key],
  })
  return {
    max_parallel: { value: policy.maxParallel, from: origin.maxParallel },
    max_unavailable: { value: policy.maxUnavailable, from: origin.maxUnavailable },
    min_healthy_time: length('minHealthyTime'),
    healthy_deadline: length('healthyDeadline'),
    health_check: { value: policy.healthCheck, from: origin.healthCheck },
    stagger: length('stagger'),
    min_interval: { value: formatDuration(minIntervalOf(policy, false)), from: origin.minInterval },
    max_errors: { value: policy.maxErrors, from: origin.maxErrors },
    acting_deadline: length('actingDeadline'),
    wait_for_deployment: { value: policy.waitForDeployment, from: origin.waitForDeployment },
  }
}
