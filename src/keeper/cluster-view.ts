// What Nomad says about a job. Whoever wants a look gets the newest one that is new enough for it, also while it is under way.
import { groupView, placeOf, type GroupView } from '../core/budget.ts'
import { mayRun, type Allocation, type CheckResult, type GroupSpec, type Job, type Node } from '../core/cluster.ts'
import { groupPolicy, type ResolvedPolicy } from '../core/policy.ts'
import type { GroupScope } from '../core/scope.ts'
import type { Clock, Cluster } from './ports.ts'

/** One look at a job. `at`: monotonic time at which it was begun, so it shows everything that happened before. */
export interface JobLook {
  readonly at: number
  /** Null: Nomad does not know the job. */
  readonly job: Job | null
  readonly allocations: readonly Allocation[]
  readonly deploying: boolean
  readonly nodes: readonly Node[]
}

const KEEP_MS = 10_000

export interface ClusterView {
  /** A look that was begun at `notBefore` (monotonic) or later; it may be one that others asked for. */
  look(scope: GroupScope, notBefore: number): Promise<JobLook>
  /** The checks of an allocation, or 'unknown' when its client agent gives no answer. Never throws. */
  checks(allocation: string): Promise<readonly CheckResult[] | 'unknown'>
  /** The sentence about a replacement in the group that Nomad finds no node for, or that this cannot be read; null: none waits for
   *  one. Never throws. */
  unplaced(scope: GroupScope): Promise<string | null>
}

/** `signal`: of the keeper's life; a single caller that goes away does not end a look that others share. */
export function createClusterView(cluster: Cluster, clock: Clock, signal: AbortSignal): ClusterView {
  const looks = new Map<string, { at: number; look: Promise<JobLook> }>()

  async function read({ namespace, job: id }: GroupScope, at: number): Promise<JobLook> {
    const [job, allocations, deploying] = await Promise.all([
      cluster.job(namespace, id, signal),
      cluster.allocations(namespace, id, signal),
      cluster.deploying(namespace, id, signal),
    ])
    const nodes = job?.type === 'system' ? await cluster.nodes(signal) : []
    return { at, job, allocations, deploying, nodes }
  }

  return {
    async look(scope, notBefore) {
      const key = JSON.stringify([scope.namespace, scope.job])
      const last = looks.get(key)
      if (last !== undefined && last.at >= notBefore) return await last.look
      const at = clock.now()
      for (const [old, entry] of looks) if (at - entry.at > KEEP_MS) looks.delete(old)
      const entry = { at, look: read(scope, at) }
      looks.set(key, entry)
      entry.look.catch(() => looks.get(key) === entry && looks.delete(key))
      return await entry.look
    },
    async checks(allocation) {
      return await cluster.checks(allocation, signal).catch(() => 'unknown' as const)
    },
    async unplaced({ namespace, job, group }) {
      return await cluster.unplaced(namespace, job, group, signal).then(
        (why) => (why === null ? null : `Nomad cannot place a replacement: ${why}`),
        () => 'whether Nomad can place a replacement cannot be read',
      )
    },
  }
}

/** The group as the job has it; null when the job or the group is not there. */
export function specOf({ job }: JobLook, scope: GroupScope): GroupSpec | null {
  return job?.groups.find(({ name }) => name === scope.group) ?? null
}

/** The part of a look that one scope needs; null when the job or the group is not there. */
export function groupOf(
  look: JobLook,
  scope: GroupScope,
): { group: GroupSpec; view: GroupView; resolved: ResolvedPolicy } | null {
  const group = specOf(look, scope)
  if (look.job === null || group === null) return null
  return { group, view: groupView(look.job, group, look.allocations, look.nodes), resolved: groupPolicy(look.job, group) }
}

/** The allocation that stands for the unit now: the last in the chain of replacements that should run, else what was placed there
 *  after it, as the one that had to wait for room names no predecessor (measured), else the last one. Null: Nomad does not know it.
 *  (A node that comes back may leave the first one running and its replacement stopped.) */
export function currentOf(look: JobLook, unit: string, place: string): Allocation | null {
  const { job, allocations } = look
  const byId = new Map(allocations.map((allocation) => [allocation.id, allocation]))
  const chain: Allocation[] = []
  let next = byId.get(unit)
  while (next !== undefined && !chain.includes(next)) {
    chain.push(next)
    next = next.next === null ? undefined : byId.get(next.next)
  }
  const last = chain.findLast(({ desired }) => desired === 'run') ?? chain.at(-1) ?? null
  if (job === null || (last !== null && mayRun(last))) return last
  const after = allocations.filter(
    (one) => mayRun(one) && placeOf(job, one) === place && one.createIndex > (last?.createIndex ?? 0),
  )
  return after.toSorted((a, b) => a.createIndex - b.createIndex).at(-1) ?? last
}
