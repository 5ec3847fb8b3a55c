import type { Shortage } from './evaluations.ts'
import { accepts, type Placement } from './plan.ts'
import { delayMs } from './rescheduling.ts'
import {
  isTerminal,
  nanoseconds,
  timestamp,
  type Allocation,
  type Deployment,
  type Group,
  type Job,
  type Node,
} from './shapes.ts'
import type { State } from './state.ts'

/** Finds nodes for what a plan wants to start, one after the other: what was promised before takes its room. */
export class Placer {
  readonly #state: State
  readonly #leaving: ReadonlySet<Allocation>
  readonly #taken = new Map<string, number>()

  constructor(state: State, leaving: ReadonlySet<Allocation>) {
    this.#state = state
    this.#leaving = leaving
  }

  /** The emptiest node, first by this job and then by all; one that failed it before only when there is no other.
   *  Undefined: none has room. */
  choose(job: Job, place: Placement): Node | undefined {
    const candidates = place.node === undefined ? [...this.#state.nodes.values()].filter(accepts) : [place.node]
    const load = (node: Node): [number, number, number] => {
      const live = this.#state.allocsOn(node.ID).filter((alloc) => !isTerminal(alloc))
      const same = live.filter((alloc) => alloc.Namespace === job.Namespace && alloc.JobID === job.ID)
      const taken = this.#taken.get(node.ID) ?? 0
      return [place.rescheduled && place.previous?.NodeID === node.ID ? 1 : 0, same.length + taken, live.length + taken]
    }
    const ranked = candidates.filter((node) => this.#fits(node, place.group)).map((node) => ({ node, load: load(node) }))
    ranked.sort((a, b) => a.load[0] - b.load[0] || a.load[1] - b.load[1] || a.load[2] - b.load[2])
    const chosen = ranked[0]?.node
    if (chosen !== undefined) this.#taken.set(chosen.ID, (this.#taken.get(chosen.ID) ?? 0) + 1)
    return chosen
  }

  /** Why there was none. */
  shortage(): Shortage {
    const all = [...this.#state.nodes.values()]
    const open = all.filter(accepts).length
    return {
      NodesEvaluated: open,
      NodesExhausted: open,
      NodesFiltered: 0,
      NodesInPool: all.length,
      NodesAvailable: { dc1: open },
      NodePool: 'default',
      DimensionExhausted: open === 0 ? null : { memory: open },
      ConstraintFiltered: null,
      ClassExhausted: null,
      ClassFiltered: null,
      CoalescedFailures: 0,
    }
  }

  // Room is memory here; a node of which nothing was said has as much as anybody likes.
  #fits(node: Node, group: Group): boolean {
    const capacity = this.#state.capacityMb.get(node.ID)
    if (capacity === undefined) return true
    const used = this.#state
      .allocsOn(node.ID)
      .filter((alloc) => !isTerminal(alloc) && !this.#leaving.has(alloc))
      .map((alloc) => alloc.Job.TaskGroups.find((one) => one.Name === alloc.TaskGroup))
      .reduce((sum, one) => sum + (one === undefined ? 0 : memoryMb(one)), 0)
    return used + ((this.#taken.get(node.ID) ?? 0) + 1) * memoryMb(group) <= capacity
  }
}

const memoryMb = (group: Group): number => group.Tasks.reduce((sum, task) => sum + task.Resources.MemoryMB, 0)

/** The allocation that a placement becomes. */
export function allocationOf(
  job: Job,
  place: Placement,
  node: Node,
  deployment: Deployment | undefined,
  made: { readonly id: string; readonly evalId: string; readonly index: number; readonly wall: number },
): Allocation {
  const { id, evalId, index, wall } = made
  const gated = deployment !== undefined && place.group.Name in deployment.TaskGroups
  const time = nanoseconds(wall)
  return {
    ID: id,
    Name: place.name,
    Namespace: job.Namespace,
    EvalID: evalId,
    NodeID: node.ID,
    NodeName: node.Name,
    JobID: job.ID,
    Job: job,
    TaskGroup: place.group.Name,
    DeploymentID: gated ? deployment.ID : '',
    DesiredStatus: 'run',
    DesiredDescription: '',
    DesiredTransition: {
      Migrate: null,
      Reschedule: null,
      ForceReschedule: null,
      MigrateDisablePlacement: null,
      NoShutdownDelay: null,
    },
    ClientStatus: 'pending',
    ClientDescription: '',
    TaskStates: null,
    DeploymentStatus: place.canary ? { Healthy: null, Canary: true, ModifyIndex: index, Timestamp: timestamp(wall) } : null,
    PreviousAllocation: place.previous?.ID ?? '',
    NextAllocation: '',
    FollowupEvalID: '',
    RescheduleTracker: place.rescheduled ? trackerAfter(place, wall) : null,
    CreateIndex: index,
    ModifyIndex: index,
    AllocModifyIndex: index,
    CreateTime: time,
    ModifyTime: time,
  }
}

function trackerAfter({ previous, group }: Placement, wall: number): Allocation['RescheduleTracker'] {
  const before = previous?.RescheduleTracker?.Events ?? []
  const event = {
    Delay: group.ReschedulePolicy === null ? 0 : nanoseconds(delayMs(group.ReschedulePolicy, before.length)),
    PrevAllocID: previous?.ID ?? '',
    PrevNodeID: previous?.NodeID ?? '',
    RescheduleTime: nanoseconds(wall),
  }
  return { Events: [...before, event].slice(-5), LastReschedule: 'ok' }
}
