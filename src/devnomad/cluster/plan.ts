import { isDestructive } from './job-spec.ts'
import { delayMs, rescheduleAt } from './rescheduling.ts'
import {
  isActive,
  isClientTerminal,
  isTerminal,
  milliseconds,
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
  /** Nobody can say any more how they are. */
  readonly unknown: Allocation[]
  /** Look again at this wall time, for these allocations. */
  readonly later: { readonly alloc: Allocation; readonly at: number }[]
}
export interface Placement {
  readonly group: Group
  readonly name: string
  readonly node: Node | undefined
  readonly previous: Allocation | undefined
  /** It replaces one that failed. */
  readonly rescheduled: boolean
  /** Beside the old ones, until somebody promotes it. */
  readonly canary: boolean
}
export interface View {
  readonly job: Job
  readonly allocs: readonly Allocation[]
  readonly nodes: ReadonlyMap<string, Node>
  /** Since when (wall, ms) the servers have not heard of a node. */
  readonly awaySince: ReadonlyMap<string, number>
  /** The newest deployment of this version. */
  readonly deployment: Deployment | undefined
  readonly wall: number
}

const NOT_NEEDED = 'alloc not needed due to job update'
export const UPDATED = 'alloc is being updated due to job update'
const LOST = 'alloc is lost since its node is down'
const MIGRATED = 'alloc is being migrated'

/** Nomad's scheduler for one job, as far as it matters to restarts. Pure. */
export function plan(view: View): Plan {
  const result: Plan = { stop: [], place: [], inPlace: [], unknown: [], later: [] }
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
    result.place.push({ group, name: alloc.Name, node: undefined, previous: alloc, rescheduled, canary: false })
  }
  const canaries = own.filter(isCanary)
  const away = own.filter((alloc) => !isCanary(alloc) && isAway(view, group, alloc))
  const rest = own.filter((alloc) => !isCanary(alloc) && !away.includes(alloc)).sort(preferred(group))
  for (const alloc of rest) {
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
    } else if (isLost(view.nodes.get(alloc.NodeID))) {
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
  const alone = group.Disconnect?.Replace === false
  planAway(view, group, away, result, (alloc, lost, waits) =>
    waits || (alone && !lost) ? void taken.add(alloc.Name) : replace(alloc),
  )
  for (const name of names) {
    if (taken.has(name) || view.deployment?.Status === 'paused') continue
    result.place.push({ group, name, node: undefined, previous: undefined, rescheduled: false, canary: false })
  }
  planUpdates(view, group, stay, planCanaries(view, canaries, result), result)
}

// They may run on where nobody hears of them, until `lost_after`; meanwhile another one stands in, unless it shall not.
function planAway(
  view: View,
  group: Group,
  away: readonly Allocation[],
  result: Plan,
  standIn: (alloc: Allocation, lost: boolean, waits: boolean) => void,
): void {
  for (const alloc of away) {
    const since = view.awaySince.get(alloc.NodeID)
    const until = (since ?? view.wall) + milliseconds(group.Disconnect?.LostAfter ?? 0)
    const lost = since !== undefined && view.wall >= until
    if (lost) stop(result, alloc, LOST, true)
    else {
      if (alloc.ClientStatus !== 'unknown') result.unknown.push(alloc)
      if (since !== undefined) result.later.push({ alloc, at: until })
    }
    // The other one comes when a failed allocation would be replaced, not at once (measured).
    const past = alloc.RescheduleTracker?.Events.length ?? 0
    const policy = group.ReschedulePolicy
    const at = since === undefined || policy === null ? view.wall : since + delayMs(policy, past)
    const waits = !lost && group.Disconnect?.Replace !== false && at > view.wall
    if (waits) result.later.push({ alloc, at })
    standIn(alloc, lost, waits)
  }
}

// Canaries of this deployment stay while it goes on; all others have had their time.
function planCanaries(view: View, canaries: readonly Allocation[], result: Plan): Allocation[] {
  const { deployment } = view
  const stays = (alloc: Allocation): boolean =>
    deployment !== undefined && isActive(deployment) && alloc.DeploymentID === deployment.ID
  for (const alloc of canaries) if (!stays(alloc)) stop(result, alloc, NOT_NEEDED)
  return canaries.filter(stays)
}

// Allocations of older versions, at most max_parallel of them while a deployment goes on; with canaries none before these
// have been promoted.
function planUpdates(view: View, group: Group, stay: readonly Allocation[], canaries: readonly Allocation[], result: Plan): void {
  const { deployment } = view
  const old = stay.filter((alloc) => alloc.Job.Version !== view.job.Version)
  const destructive = old.filter((alloc) => isDestructive(alloc.Job, view.job, group.Name))
  result.inPlace.push(...old.filter((alloc) => !destructive.includes(alloc)))
  const canary = group.Update?.Canary ?? 0
  if (canary > 0 && destructive.length > 0 && deployment?.TaskGroups[group.Name]?.Promoted !== true) {
    if (!mayGoOn(deployment)) return
    for (let at = canaries.length; at < canary; at++) {
      const name = `${view.job.ID}.${group.Name}[${at}]`
      result.place.push({ group, name, node: undefined, previous: undefined, rescheduled: false, canary: true })
    }
    return
  }
  const limit = updatesNow(view, group, stay, destructive.length)
  for (const alloc of destructive.sort((a, b) => (a.Name < b.Name ? -1 : 1)).slice(0, limit)) {
    stop(result, alloc, UPDATED)
    result.place.push({ group, name: alloc.Name, node: undefined, previous: alloc, rescheduled: false, canary: false })
  }
}

function updatesNow({ deployment }: View, group: Group, stay: readonly Allocation[], all: number): number {
  const maxParallel = group.Update?.MaxParallel ?? 0
  if (maxParallel === 0) return all
  const fresh = stay.filter((alloc) => deployment !== undefined && alloc.DeploymentID === deployment.ID)
  const unproven = fresh.filter((alloc) => alloc.DeploymentStatus?.Healthy !== true).length
  return mayGoOn(deployment) ? Math.max(0, maxParallel - unproven) : 0
}

// System: one allocation on each node that may have it. One that was stopped is not replaced by the same evaluation
// (measured). Since 2.0 it has deployments too (measured).
function planSystem(view: View, group: Group, own: readonly Allocation[], result: Plan): void {
  const name = `${view.job.ID}.${group.Name}[0]`
  const live = own.filter((one) => !isClientTerminal(one))
  let updates = updatesNow(view, group, live, live.length)
  for (const node of view.nodes.values()) {
    const alloc = live.find((one) => one.NodeID === node.ID)
    if (alloc === undefined) {
      const place = { group, name, node, previous: undefined, rescheduled: false, canary: false }
      if (accepts(node)) result.place.push(place)
    } else if (isAway(view, group, alloc)) planAway(view, group, [alloc], result, NOBODY)
    else if (isLost(node)) stop(result, alloc, LOST, true)
    else if (alloc.DesiredTransition.Migrate === true) stop(result, alloc, 'alloc not needed as node is tainted')
    else if (alloc.Job.Version !== view.job.Version) {
      if (!isDestructive(alloc.Job, view.job, group.Name)) result.inPlace.push(alloc)
      else if (updates-- > 0) {
        stop(result, alloc, UPDATED)
        result.place.push({ group, name, node, previous: alloc, rescheduled: false, canary: false })
      }
    }
  }
}

// Its place is that node, where nobody can stand in for it.
const NOBODY = (): void => {}

export function accepts(node: Node): boolean {
  return node.Status === 'ready' && node.SchedulingEligibility === 'eligible'
}

const mayGoOn = (deployment: Deployment | undefined): boolean => deployment === undefined || deployment.Status === 'running'
const isCanary = (alloc: Allocation): boolean => alloc.DeploymentStatus?.Canary === true
const isLost = (node: Node | undefined): boolean => node?.Status === 'down' || node?.Status === 'disconnected'

// Of a group that may be away, and either its node is, or it has not yet said that it is back.
function isAway(view: View, group: Group, alloc: Allocation): boolean {
  if (group.Disconnect === null || isClientTerminal(alloc)) return false
  return alloc.ClientStatus === 'unknown' || view.nodes.get(alloc.NodeID)?.Status === 'disconnected'
}

// Of two with one name: the newer version, and then the one that was there first, unless the group says otherwise.
function preferred(group: Group): (a: Allocation, b: Allocation) => number {
  const first = group.Disconnect?.Reconcile === 'keep_replacement' ? -1 : 1
  return (a, b) => b.Job.Version - a.Job.Version || first * (a.CreateIndex - b.CreateIndex)
}

function stop(result: Plan, alloc: Allocation, why: string, lost = false): void {
  result.stop.push({ alloc, why, lost })
}
