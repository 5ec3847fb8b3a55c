import type { Duties } from '../duties.ts'
import { listed, Refusal } from '../refusal.ts'
import { accepts, type Plan } from './plan.ts'
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
  readonly duties: Duties
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
    if (
      (job.Type !== 'service' && job.Type !== 'system') ||
      groups.length === 0 ||
      result.place.length + result.inPlace.length === 0
    )
      return undefined
    const leaving = new Set(result.stop.map(({ alloc }) => alloc))
    const had = this.#state.allocsOf(job.Namespace, job.ID).some((alloc) => current(alloc, job, leaving))
    if (had) return undefined
    const wall = this.#seams.wall()
    const canaries = new Set(result.place.filter(({ canary }) => canary).map(({ group }) => group))
    const promoting = [...canaries].every(({ Update }) => Update?.AutoPromote === true)
    const nodes = [...this.#state.nodes.values()].filter(accepts).length
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
      StatusDescription: canaries.size === 0 ? RUNNING : promoting ? AUTOMATIC : MANUAL,
      TaskGroups: Object.fromEntries(
        groups.map((group) => [
          group.Name,
          {
            AutoPromote: group.Update?.AutoPromote ?? false,
            AutoRevert: group.Update?.AutoRevert ?? false,
            DesiredCanaries: canaries.has(group) ? (group.Update?.Canary ?? 0) : 0,
            DesiredTotal: job.Type === 'system' ? nodes : group.Count,
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

  placed(deployment: Deployment | undefined, alloc: Allocation, canary: boolean): void {
    const state = deployment?.TaskGroups[alloc.TaskGroup]
    if (state === undefined) return
    state.PlacedAllocs += 1
    if (canary) state.PlacedCanaries = [...(state.PlacedCanaries ?? []), alloc.ID]
  }

  /** Lets the canaries take the place of the others. Throws what Nomad answers when that cannot be. */
  promote(deployment: Deployment): number {
    if (!isActive(deployment)) throw new Refusal(500, "can't promote terminal deployment")
    const groups = Object.entries(deployment.TaskGroups).filter(([, { DesiredCanaries }]) => DesiredCanaries > 0)
    if (groups.length === 0) throw new Refusal(500, 'no canaries to promote')
    const wrong = groups.flatMap(([name, state]) => {
      const healthy = this.#healthyCanaries(state.PlacedCanaries)
      const { DesiredCanaries: wanted } = state
      return healthy < wanted ? [`Task group "${name}" has ${healthy}/${wanted} healthy allocations`] : []
    })
    if (wrong.length > 0) throw new Refusal(500, listed(wrong))
    const index = this.#state.commit('deployments', 'allocs')
    for (const [, state] of groups) {
      state.Promoted = true
      state.RequireProgressBy = timestamp(this.#seams.wall() + milliseconds(state.ProgressDeadline))
      for (const id of state.PlacedCanaries ?? []) {
        const alloc = this.#state.allocs.get(id)
        if (alloc?.DeploymentStatus) alloc.DeploymentStatus = { ...alloc.DeploymentStatus, Canary: false }
        if (alloc !== undefined) this.#state.touchAlloc(alloc, index)
      }
    }
    deployment.StatusDescription = RUNNING
    this.#touched(deployment, index)
    this.#evaluate(deployment)
    return index
  }

  fail(deployment: Deployment): number {
    if (!isActive(deployment)) throw new Refusal(500, "can't fail terminal deployment")
    const index = this.#becomes(deployment, 'failed', 'Deployment marked as failed')
    this.#evaluate(deployment)
    return index
  }

  /** Paused, it starts nothing more; when it goes on it has as much time as at its beginning. */
  pause(deployment: Deployment, pause: boolean): number {
    if (!isActive(deployment)) throw new Refusal(500, `can't ${pause ? 'pause' : 'resume'} terminal deployment`)
    for (const group of Object.values(deployment.TaskGroups).filter(({ ProgressDeadline }) => ProgressDeadline > 0)) {
      group.RequireProgressBy = timestamp(this.#seams.wall() + milliseconds(group.ProgressDeadline))
    }
    if (pause) return this.#becomes(deployment, 'paused', 'Deployment is paused')
    const index = this.#becomes(deployment, 'running', RUNNING)
    this.#evaluate(deployment)
    return index
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
    if (!healthy && state.ProgressDeadline === 0) this.#becomes(deployment, 'failed', 'Failed due to unhealthy allocations')
    const groups = Object.values(deployment.TaskGroups).filter(({ DesiredCanaries }) => DesiredCanaries > 0)
    const ready = groups.every((one) => this.#healthyCanaries(one.PlacedCanaries) >= one.DesiredCanaries)
    const promotes = isActive(deployment) && groups.some(({ AutoPromote, Promoted }) => AutoPromote && !Promoted)
    if (healthy && promotes && ready) this.promote(deployment)
    this.#seams.evaluate(alloc.Job)
  }

  #healthyCanaries(ids: readonly string[] | null): number {
    return (ids ?? []).filter((id) => this.#state.allocs.get(id)?.DeploymentStatus?.Healthy === true).length
  }

  #evaluate({ Namespace, JobID }: Deployment): void {
    const job = this.#state.job(Namespace, JobID)
    if (job !== undefined) this.#seams.evaluate(job)
  }

  /** Ends the job's deployment when its version is outdated, or everything it wants is healthy. */
  settle(job: Job): void {
    const active = this.#state.deploymentsOf(job.Namespace, job.ID).find(isActive)
    if (active === undefined) return
    if (job.Stop || active.JobVersion !== job.Version) {
      const why = job.Stop ? 'Cancelled because job is stopped' : 'Cancelled due to newer version of job'
      this.#becomes(active, 'cancelled', why)
      return
    }
    const old = this.#state
      .allocsOf(job.Namespace, job.ID)
      .some((alloc) => !isTerminal(alloc) && alloc.Job.Version !== job.Version)
    const groups = Object.values(active.TaskGroups)
    if (old || groups.some((group) => group.HealthyAllocs < group.DesiredTotal || !isPromoted(group))) return
    const index = this.#becomes(active, 'successful', 'Deployment completed successfully', true)
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
    // A deployment that is paused or waits for its promotion is looked at again, though it is late.
    this.#seams.duties.after(Math.max(first > wall ? 0 : LOOK_AGAIN_MS, first - wall), () => {
      if (!isActive(deployment)) return
      const late = Object.values(deployment.TaskGroups).some(
        (group) =>
          deployment.Status !== 'paused' &&
          group.ProgressDeadline > 0 &&
          group.HealthyAllocs < group.DesiredTotal &&
          !this.#waitsForPromotion(group) &&
          Date.parse(group.RequireProgressBy) <= this.#seams.wall(),
      )
      if (late) {
        this.#becomes(deployment, 'failed', 'Failed due to progress deadline')
        this.#evaluate(deployment)
      } else if (Object.values(deployment.TaskGroups).some((group) => group.HealthyAllocs < group.DesiredTotal)) {
        this.#watchProgress(deployment)
      }
    })
  }

  #waitsForPromotion(group: Deployment['TaskGroups'][string]): boolean {
    return !isPromoted(group) && this.#healthyCanaries(group.PlacedCanaries) >= group.DesiredCanaries
  }

  #becomes(deployment: Deployment, status: Deployment['Status'], description: string, withJob = false): number {
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

const RUNNING = 'Deployment is running'
const MANUAL = 'Deployment is running but requires manual promotion'
const AUTOMATIC = 'Deployment is running pending automatic promotion'
const LOOK_AGAIN_MS = 1_000

const isPromoted = (group: Deployment['TaskGroups'][string]): boolean => group.DesiredCanaries === 0 || group.Promoted

// It runs the job's version and goes on doing so, or leaves in this very plan.
function current(alloc: Allocation, job: Job, leaving: ReadonlySet<Allocation>): boolean {
  return alloc.Job.Version === job.Version && (!isTerminal(alloc) || leaving.has(alloc))
}
