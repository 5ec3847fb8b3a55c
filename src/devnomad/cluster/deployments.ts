import type { Timers } from '../timers.ts'
import type { Plan } from './plan.ts'
import {
  isActive,
  isTerminal,
  milliseconds,
  nanoseconds,
  timestamp,
  type Allocation,
  type Deployment,
  type Job,
} from './shapes.ts'
import type { State } from './state.ts'

export interface DeploymentSeams {
  readonly timers: Timers
  readonly wall: () => number
  readonly newId: () => string
  readonly evaluate: (job: Job) => void
}

/** Rolling deployments: made with a plan that starts a version, moved on by the health of its allocations. */
export class Deployments {
  readonly #state: State
  readonly #seams: DeploymentSeams

  constructor(state: State, seams: DeploymentSeams) {
    this.#state = state
    this.#seams = seams
  }

  /** The deployment that the plan's allocations belong to; a new one when the plan begins a version. */
  forPlan(job: Job, result: Plan, index: number): Deployment | undefined {
    const active = this.#state.deploymentsOf(job.Namespace, job.ID).find(isActive)
    if (active?.JobVersion === job.Version) return this.#touched(active, index)
    const groups = job.TaskGroups.filter((group) => (group.Update?.MaxParallel ?? 0) > 0)
    if (job.Type !== 'service' || groups.length === 0 || result.place.length + result.inPlace.length === 0) return undefined
    const leaving = new Set(result.stop.map(({ alloc }) => alloc))
    const had = this.#state.allocsOf(job.Namespace, job.ID).some((alloc) => current(alloc, job, leaving))
    if (had) return undefined
    const wall = this.#seams.wall()
    const deployment: Deployment = {
      ID: this.#seams.newId(),
      Namespace: job.Namespace,
      JobID: job.ID,
      JobVersion: job.Version,
      JobModifyIndex: job.ModifyIndex,
      JobSpecModifyIndex: job.JobModifyIndex,
      JobCreateIndex: job.CreateIndex,
      IsMultiregion: false,
      EvalPriority: 50,
      Status: 'running',
      StatusDescription: 'Deployment is running',
      TaskGroups: Object.fromEntries(
        groups.map((group) => [
          group.Name,
          {
            AutoPromote: false,
            AutoRevert: false,
            DesiredCanaries: 0,
            DesiredTotal: group.Count,
            HealthyAllocs: 0,
            PlacedAllocs: 0,
            PlacedCanaries: null,
            ProgressDeadline: group.Update?.ProgressDeadline ?? 0,
            Promoted: false,
            RequireProgressBy: timestamp(wall + milliseconds(group.Update?.ProgressDeadline ?? 0)),
            UnhealthyAllocs: 0,
          },
        ]),
      ),
      CreateIndex: index,
      ModifyIndex: index,
      CreateTime: nanoseconds(wall),
      ModifyTime: nanoseconds(wall),
    }
    this.#touched(deployment, index)
    this.#watchProgress(deployment)
    return deployment
  }

  placed(deployment: Deployment | undefined, group: string): void {
    const state = deployment?.TaskGroups[group]
    if (state !== undefined) state.PlacedAllocs += 1
  }

  /** A client has decided about the health of an allocation. */
  judged(alloc: Allocation, healthy: boolean, index: number): void {
    const deployment = this.#state.deployments.get(alloc.DeploymentID)
    const state = deployment?.TaskGroups[alloc.TaskGroup]
    if (deployment === undefined || state === undefined || !isActive(deployment)) return
    if (healthy) {
      state.HealthyAllocs += 1
      state.RequireProgressBy = timestamp(this.#seams.wall() + milliseconds(state.ProgressDeadline))
    } else state.UnhealthyAllocs += 1
    this.#touched(deployment, index)
    if (!healthy && state.ProgressDeadline === 0) this.#end(deployment, 'failed', 'Failed due to unhealthy allocations')
    this.#seams.evaluate(alloc.Job)
  }

  /** Ends the job's deployment when its version is outdated, or everything it wants is healthy. */
  settle(job: Job): void {
    const active = this.#state.deploymentsOf(job.Namespace, job.ID).find(isActive)
    if (active === undefined) return
    if (job.Stop || active.JobVersion !== job.Version) {
      const why = job.Stop ? 'Cancelled because job is stopped' : 'Cancelled due to newer version of job'
      this.#end(active, 'cancelled', why)
      return
    }
    const old = this.#state
      .allocsOf(job.Namespace, job.ID)
      .some((alloc) => !isTerminal(alloc) && alloc.Job.Version !== job.Version)
    const groups = Object.values(active.TaskGroups)
    if (old || groups.some((group) => group.HealthyAllocs < group.DesiredTotal)) return
    const index = this.#end(active, 'successful', 'Deployment completed successfully', true)
    job.Stable = true
    this.#state.putJob(job, index)
  }

  // A deployment that makes no progress until its deadline fails.
  #watchProgress(deployment: Deployment): void {
    const wall = this.#seams.wall()
    const bounds = Object.values(deployment.TaskGroups)
      .filter((group) => group.ProgressDeadline > 0)
      .map((group) => Date.parse(group.RequireProgressBy))
    if (bounds.length === 0) return
    const first = Math.min(...bounds)
    this.#seams.timers.after(Math.max(0, first - wall), () => {
      if (!isActive(deployment)) return
      const late = Object.values(deployment.TaskGroups).some(
        (group) =>
          group.ProgressDeadline > 0 &&
          group.HealthyAllocs < group.DesiredTotal &&
          Date.parse(group.RequireProgressBy) <= this.#seams.wall(),
      )
      if (late) this.#end(deployment, 'failed', 'Failed due to progress deadline')
      else if (Object.values(deployment.TaskGroups).some((group) => group.HealthyAllocs < group.DesiredTotal)) {
        this.#watchProgress(deployment)
      }
    })
  }

  #end(deployment: Deployment, status: Deployment['Status'], description: string, withJob = false): number {
    const index = withJob ? this.#state.commit('deployments', 'jobs') : this.#state.commit('deployments')
    deployment.Status = status
    deployment.StatusDescription = description
    this.#state.touchDeployment(deployment, index)
    return index
  }

  #touched(deployment: Deployment, index: number): Deployment {
    this.#state.touchDeployment(deployment, index)
    return deployment
  }
}

// It runs the job's version and goes on doing so, or leaves in this very plan.
function current(alloc: Allocation, job: Job, leaving: ReadonlySet<Allocation>): boolean {
  return alloc.Job.Version === job.Version && (!isTerminal(alloc) || leaving.has(alloc))
}
