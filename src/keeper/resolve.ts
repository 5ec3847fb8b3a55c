// From an allocation's ID to what is meant by it: its scope, its place, and what Nomad says of its group.
import { placeOf } from '../core/budget.ts'
import { mayRun, type Allocation, type GroupSpec } from '../core/cluster.ts'
import { Problem } from '../core/errors.ts'
import type { GroupScope, Scope } from '../core/scope.ts'
import { groupOf, type ClusterView, type JobLook } from './cluster-view.ts'
import type { Clock, Cluster } from './ports.ts'
import { policyFault } from '../core/policy.ts'

export interface Meant {
  readonly scope: GroupScope
  readonly allocation: Allocation
  readonly place: string
  readonly group: GroupSpec
  readonly look: JobLook
}

/** Whether an allocation may be asked for at all is told from a look that is not older than this; the grant has its own. */
const RECENT_MS = 1_000

export interface ResolveDeps {
  readonly cluster: Cluster
  readonly view: ClusterView
  readonly clock: Clock
}

/** Rejects when the caller may not ask for this unit of a semaphore. */
export type Allowed = (scope: Scope, unit: string) => Promise<void>
export const ANYBODY: Allowed = () => Promise.resolve()

export interface Named {
  readonly allocation: string
  readonly component: string | undefined
  /** Undefined: all that run. */
  readonly task: string | undefined
}

/** Rejects with a Problem that tells why it cannot be asked for. */
export async function resolveAllocation(
  { cluster, view, clock }: ResolveDeps,
  { allocation: id, component, task }: Named,
  allowed: Allowed,
  signal: AbortSignal,
): Promise<Meant> {
  const allocation = await cluster.allocation(id, signal)
  if (allocation === null) throw new Problem('unknown_allocation', `Nomad knows no allocation ${id}; give its full ID`)
  if (!mayRun(allocation)) {
    throw new Problem(
      'allocation_finished',
      `allocation ${id} is ${allocation.client} (desired: ${allocation.desired}); there is nothing to restart`,
    )
  }
  const { namespace, job, group } = allocation
  const scope: GroupScope = { namespace, job, group, ...(component === undefined ? {} : { component }) }
  await allowed(scope, id)
  const look = await view.look(scope, clock.now() - RECENT_MS)
  const of = groupOf(look, scope)
  if (look.job === null || of === null) throw new Problem('allocation_finished', `job ${job} or its group ${group} is gone`)
  if (look.job.type !== 'service' && look.job.type !== 'system') {
    throw new Problem('unsupported_job', `job ${job} is of type ${look.job.type}; service and system jobs are gated`)
  }
  if (of.resolved.faults.length > 0) throw policyFault(scope, of.resolved.faults)
  if (task !== undefined && !of.group.tasks.some(({ name }) => name === task)) {
    throw new Problem('invalid_request', `group ${group} of job ${job} has no task ${task}`)
  }
  return { scope, allocation, place: placeOf(look.job, allocation), group: of.group, look }
}
