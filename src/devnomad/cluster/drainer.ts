import type { Duties } from '../duties.ts'
import { isClientTerminal, isTerminal, milliseconds, timestamp, type Allocation, type Node } from './shapes.ts'
import type { State } from './state.ts'

export interface DrainSpec {
  readonly Deadline: number
  readonly IgnoreSystemJobs: boolean
}

/** Empties nodes: marks allocations to migrate, as many at a time as the group's `migrate` block allows, all at the
 *  deadline; done when none is left. The node stays ineligible (facts §6). */
export class Drainer {
  readonly #state: State
  readonly #wall: () => number
  readonly #duties: Duties
  readonly #evaluate: (namespace: string, job: string) => void

  constructor(state: State, duties: Duties, wall: () => number, evaluate: (namespace: string, job: string) => void) {
    this.#state = state
    this.#duties = duties
    this.#wall = wall
    this.#evaluate = evaluate
  }

  start(node: Node, spec: DrainSpec, meta: Record<string, string> | null, index: number): void {
    const now = timestamp(this.#wall())
    const deadlineMs = milliseconds(spec.Deadline)
    node.Drain = true
    node.SchedulingEligibility = 'ineligible'
    node.DrainStrategy = {
      Deadline: spec.Deadline,
      IgnoreSystemJobs: spec.IgnoreSystemJobs,
      ForceDeadline: deadlineMs > 0 ? timestamp(this.#wall() + deadlineMs) : '0001-01-01T00:00:00Z',
      StartedAt: now,
    }
    node.LastDrain = { StartedAt: now, UpdatedAt: now, Status: 'draining', AccessorID: 'token:acls-disabled', Meta: meta }
    this.#state.touchNode(node, index)
    if (deadlineMs > 0) this.#duties.after(deadlineMs, () => this.look())
    this.#duties.after(0, () => this.look())
  }

  cancel(node: Node, markEligible: boolean, index: number): void {
    if (node.LastDrain !== null && node.DrainStrategy !== null) {
      node.LastDrain = { ...node.LastDrain, Status: 'canceled', UpdatedAt: timestamp(this.#wall()) }
    }
    node.Drain = false
    node.DrainStrategy = null
    if (markEligible) node.SchedulingEligibility = 'eligible'
    this.#state.touchNode(node, index)
  }

  /** To be called when allocations have changed. */
  look(): void {
    this.#duties.now(() => {
      for (const node of this.#state.nodes.values()) if (node.DrainStrategy !== null) this.#drain(node, node.DrainStrategy)
    })
  }

  #drain(node: Node, strategy: NonNullable<Node['DrainStrategy']>): void {
    const all = this.#state.allocsOn(node.ID).filter((alloc) => !isClientTerminal(alloc))
    const system = all.filter((alloc) => alloc.Job.Type === 'system')
    const others = all.filter((alloc) => alloc.Job.Type !== 'system')
    const deadlineMs = milliseconds(strategy.Deadline)
    const forced = deadlineMs < 0 || (deadlineMs > 0 && this.#wall() >= Date.parse(strategy.ForceDeadline))
    if (others.length > 0) return this.#mark(forced ? others : this.#drainable(others))
    if (system.length > 0 && !strategy.IgnoreSystemJobs) return this.#mark(system)
    this.#done(node)
  }

  // As many as leave count − max_parallel healthy ones elsewhere or here. Batch waits for the deadline.
  #drainable(allocs: readonly Allocation[]): Allocation[] {
    const chosen: Allocation[] = []
    for (const alloc of allocs) {
      const group = alloc.Job.TaskGroups.find((candidate) => candidate.Name === alloc.TaskGroup)
      if (alloc.Job.Type !== 'service' || isTerminal(alloc) || alloc.DesiredTransition.Migrate === true) continue
      const peers = this.#state.allocsOf(alloc.Namespace, alloc.JobID).filter((one) => one.TaskGroup === alloc.TaskGroup)
      const known = peers.filter(
        (one) =>
          !isTerminal(one) &&
          one.DeploymentStatus !== null &&
          one.DeploymentStatus.Healthy !== null &&
          one.DesiredTransition.Migrate !== true &&
          !chosen.includes(one),
      )
      if (known.length > (group?.Count ?? 0) - (group?.Migrate?.MaxParallel ?? 1)) chosen.push(alloc)
    }
    return chosen
  }

  #mark(allocs: readonly Allocation[]): void {
    const fresh = allocs.filter((alloc) => !isTerminal(alloc) && alloc.DesiredTransition.Migrate !== true)
    if (fresh.length === 0) return
    const index = this.#state.commit('allocs', 'evals')
    for (const alloc of fresh) {
      alloc.DesiredTransition.Migrate = true
      this.#state.touchAlloc(alloc, index)
      this.#evaluate(alloc.Namespace, alloc.JobID)
    }
  }

  #done(node: Node): void {
    node.Drain = false
    node.DrainStrategy = null
    if (node.LastDrain !== null) {
      node.LastDrain = { ...node.LastDrain, Status: 'complete', UpdatedAt: timestamp(this.#wall()) }
    }
    this.#state.touchNode(node, this.#state.commit('nodes'))
  }
}
