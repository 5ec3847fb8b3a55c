import { isDestructive } from './job-spec.ts'
import { rescheduleAt } from './rescheduling.ts'
import {
  isActive,
  isClientTerminal,
  isTerminal,
  type Allocation,
  type Deployment,
  type Group,
  type Job,
  type Node,
} from './shapes.ts'

/** What one evaluation wants to change. */
export interface Plan {
  readonly stop: { readonly alloc: Allocation; readonly why: string; readonly lost: boolean }[]
  readonly place: Placement[]
  readonly inPlace: Allocation[]
  /** Look again at this wall time, for these failed allocations. */
  readonly later: { readonly alloc: Allocation; readonly at: number }[]
}
export interface Placement {
  readonly group: Group
  readonly name: string
  readonly node: Node | undefined
  readonly previous: Allocation | undefined
  /** It replaces one that failed. */
  readonly rescheduled: boolean
}
export interface View {
  readonly job: Job
  readonly allocs: readonly Allocation[]
  readonly nodes: ReadonlyMap<string, Node>
  /** The newest deployment of this version. */
  readonly deployment: Deployment | undefined
  readonly wall: number
}

const NOT_NEEDED = 'alloc not needed due to job update'
const UPDATED = 'alloc is being updated due to job update'
const LOST = 'alloc is lost since its node is down'
const MIGRATED = 'alloc is being migrated'

/** Nomad's scheduler for one job, as far as it matters to restarts. Pure. */
export function plan(view: View): Plan {
  const result: Plan = { stop: [], place: [], inPlace: [], later: [] }
  const wanted = view.allocs.filter((alloc) => alloc.DesiredStatus === 'run')
  if (view.job.Stop) {
    for (const alloc of wanted) if (!isClientTerminal(alloc)) stop(result, alloc, NOT_NEEDED)
    return result
  }
  for (const group of view.job.TaskGroups) {
    const own = wanted.filter((alloc) => alloc.TaskGroup === group.Name)
    if (view.job.Type === 'system' || view.job.Type === 'sysbatch') planSystem(view, group, own, result)
    else planCounted(view, group, own, result)
  }
  const groups = new Set(view.job.TaskGroups.map((group) => group.Name))
  for (const alloc of wanted) if (!groups.has(alloc.TaskGroup) && !isTerminal(alloc)) stop(result, alloc, NOT_NEEDED)
  return result
}

// Service and batch: one allocation for each index below the count.
function planCounted(view: View, group: Group, own: readonly Allocation[], result: Plan): void {
  const names = Array.from({ length: group.Count }, (_, index) => `${view.job.ID}.${group.Name}[${index}]`)
  const taken = new Set<string>()
  const stay: Allocation[] = []
  const replace = (alloc: Allocation, rescheduled = false): void => {
    if (!names.includes(alloc.Name) || taken.has(alloc.Name)) return
    taken.add(alloc.Name)
    result.place.push({ group, name: alloc.Name, node: undefined, previous: alloc, rescheduled })
  }
  for (const alloc of own) {
    if (alloc.ClientStatus === 'complete') {
      if (view.job.Type === 'batch') taken.add(alloc.Name)
    } else if (alloc.ClientStatus === 'failed') {
      const at = rescheduleAt(alloc, group.ReschedulePolicy, view.wall)
      if (at !== null && at <= view.wall) {
        stop(result, alloc, '')
        replace(alloc, true)
      } else {
        taken.add(alloc.Name)
        if (at !== null) result.later.push({ alloc, at })
      }
    } else if (view.nodes.get(alloc.NodeID)?.Status === 'down') {
      stop(result, alloc, LOST, true)
      replace(alloc)
    } else if (alloc.DesiredTransition.Migrate === true) {
      stop(result, alloc, MIGRATED)
      replace(alloc)
    } else if (!names.includes(alloc.Name) || taken.has(alloc.Name)) {
      stop(result, alloc, NOT_NEEDED)
    } else {
      taken.add(alloc.Name)
      stay.push(alloc)
    }
  }
  for (const name of names) {
    if (!taken.has(name)) result.place.push({ group, name, node: undefined, previous: undefined, rescheduled: false })
  }
  planUpdates(view, group, stay, result)
}

// Allocations of older versions, at most max_parallel of them while a deployment goes on.
function planUpdates(view: View, group: Group, stay: readonly Allocation[], result: Plan): void {
  const old = stay.filter((alloc) => alloc.Job.Version !== view.job.Version)
  const destructive = old.filter((alloc) => isDestructive(alloc.Job, view.job, group.Name))
  result.inPlace.push(...old.filter((alloc) => !destructive.includes(alloc)))
  let limit = destructive.length
  const maxParallel = group.Update?.MaxParallel ?? 0
  if (maxParallel > 0) {
    const { deployment } = view
    const fresh = stay.filter((alloc) => deployment !== undefined && alloc.DeploymentID === deployment.ID)
    const unproven = fresh.filter((alloc) => alloc.DeploymentStatus?.Healthy !== true).length
    limit = deployment !== undefined && !isActive(deployment) ? 0 : Math.max(0, maxParallel - unproven)
  }
  for (const alloc of destructive.sort((a, b) => (a.Name < b.Name ? -1 : 1)).slice(0, limit)) {
    stop(result, alloc, UPDATED)
    result.place.push({ group, name: alloc.Name, node: undefined, previous: alloc, rescheduled: false })
  }
}

// System: one allocation on each node that may have it. One that was stopped is not replaced by the same evaluation (measured).
function planSystem(view: View, group: Group, own: readonly Allocation[], result: Plan): void {
  const name = `${view.job.ID}.${group.Name}[0]`
  let updates = group.Update?.MaxParallel || own.length
  for (const node of view.nodes.values()) {
    const [alloc] = own.filter((one) => one.NodeID === node.ID && !isClientTerminal(one))
    if (alloc === undefined) {
      if (accepts(node)) result.place.push({ group, name, node, previous: undefined, rescheduled: false })
    } else if (node.Status === 'down') stop(result, alloc, LOST, true)
    else if (alloc.DesiredTransition.Migrate === true) stop(result, alloc, 'alloc not needed as node is tainted')
    else if (alloc.Job.Version !== view.job.Version) {
      if (!isDestructive(alloc.Job, view.job, group.Name)) result.inPlace.push(alloc)
      else if (updates-- > 0) {
        stop(result, alloc, UPDATED)
        result.place.push({ group, name, node, previous: alloc, rescheduled: false })
      }
    }
  }
}

export function accepts(node: Node): boolean {
  return node.Status === 'ready' && node.SchedulingEligibility === 'eligible'
}

function stop(result: Plan, alloc: Allocation, why: string, lost = false): void {
  result.stop.push({ alloc, why, lost })
}
