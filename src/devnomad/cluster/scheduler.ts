import type { Duties } from '../duties.ts'
import { Deployments } from './deployments.ts'
import { Evaluations, type Evaluation, type Trigger } from './evaluations.ts'
import { allocationOf, Placer } from './placing.ts'
import { plan, UPDATED, type Placement, type Plan } from './plan.ts'
import { isClientTerminal, timestamp, type Allocation, type Job, type Node } from './shapes.ts'
import type { State } from './state.ts'

export interface SchedulerSeams {
  readonly duties: Duties
  readonly wall: () => number
  readonly newId: () => string
  /** What the nodes shall run has changed. */
  readonly planned: (nodeIds: ReadonlySet<string>) => void
  readonly evaluations: Evaluations
}

/** From the request for an evaluation to its plan. */
const EVALUATION_MS = 100
/** Deployments are looked at in batches (measured: 1.25 s). */
const DEPLOYMENT_MS = 1_000

/** Evaluates jobs: soon, one evaluation for all reasons that come together, and applies what the plan says in one entry. */
export class Scheduler {
  readonly deployments: Deployments
  readonly #state: State
  readonly #seams: SchedulerSeams
  readonly #due = new Map<string, { readonly cancel: () => void; readonly evaluations: Evaluation[] }>()
  readonly #blocked = new Map<string, Evaluation>()

  constructor(state: State, seams: SchedulerSeams) {
    this.#state = state
    this.#seams = seams
    this.deployments = new Deployments(state, {
      ...seams,
      evaluate: (job) => this.evaluate(job.Namespace, job.ID, 'deployment-watcher', DEPLOYMENT_MS),
    })
  }

  /** Returns the evaluation's ID. */
  evaluate(namespace: string, job: string, why: Trigger, afterMs = EVALUATION_MS): string {
    const key = `${namespace}\0${job}`
    const due = this.#due.get(key)
    if (due !== undefined && afterMs > EVALUATION_MS) return due.evaluations[0]?.ID ?? ''
    due?.cancel()
    const of = this.#state.job(namespace, job) ?? { Namespace: namespace, ID: job }
    const evaluation = this.#seams.evaluations.create(of, why)
    this.#schedule(key, [...(due?.evaluations ?? []), evaluation], afterMs)
    return evaluation.ID
  }

  /** A node has become able to take allocations, or to take more. */
  unblock(): void {
    const system = this.#state.jobs().filter((job) => job.Type === 'system' || job.Type === 'sysbatch')
    for (const { Namespace, ID } of system) this.evaluate(Namespace, ID, 'node-update')
    for (const { Namespace, JobID, Type } of this.#blocked.values()) {
      if (Type !== 'system') this.evaluate(Namespace, JobID, 'queued-allocs')
    }
  }

  #schedule(key: string, evaluations: Evaluation[], afterMs: number): void {
    const [namespace, job] = key.split('\0') as [string, string]
    const cancel = this.#seams.duties.after(afterMs, () => {
      this.#due.delete(key)
      this.#run(namespace, job, evaluations)
    })
    this.#due.set(key, { cancel, evaluations })
  }

  #run(namespace: string, id: string, evaluations: readonly Evaluation[]): void {
    const job = this.#state.job(namespace, id)
    const [first] = evaluations
    if (job === undefined || first === undefined) return
    for (const evaluation of evaluations) evaluation.SnapshotIndex = this.#state.index
    const allocs = this.#state.allocsOf(namespace, id)
    this.deployments.settle(job)
    const deployment = this.#state.deploymentsOf(namespace, id).find((one) => one.JobVersion === job.Version)
    const wall = this.#seams.wall()
    const { nodes, awaySince } = this.#state
    const result = plan({ job, allocs, nodes, awaySince, deployment, wall })
    for (const { alloc, at } of result.later) this.#later(job, first, alloc, at - wall)
    const failed = this.#apply(job, allocs, result, first)
    this.#conclude(job, evaluations, failed)
  }

  // A failed allocation names the evaluation that will replace it.
  #later(job: Job, previous: Evaluation, alloc: Allocation, afterMs: number): void {
    this.#seams.duties.after(afterMs, () => this.evaluate(job.Namespace, job.ID, 'alloc-reschedule'))
    if (alloc.FollowupEvalID !== '') return
    const followup = this.#seams.evaluations.create(job, 'alloc-reschedule', {
      PreviousEval: previous.ID,
      StatusDescription: 'created for delayed rescheduling',
      WaitUntil: timestamp(this.#seams.wall() + afterMs),
    })
    alloc.FollowupEvalID = followup.ID
    previous.NextEval = followup.ID
    this.#seams.duties.after(afterMs, () => this.#seams.evaluations.done(followup))
  }

  // What could not be placed waits in a blocked evaluation for room.
  #conclude(job: Job, evaluations: readonly Evaluation[], failed: readonly Placement[]): void {
    const key = `${job.Namespace}\0${job.ID}`
    const before = this.#blocked.get(key)
    if (before !== undefined) this.#seams.evaluations.done(before)
    this.#blocked.delete(key)
    this.#state.waiting.delete(key)
    const QueuedAllocations = Object.fromEntries(
      job.TaskGroups.map(({ Name }) => [Name, failed.filter(({ group }) => group.Name === Name).length]),
    )
    const deployment = this.#state.deploymentsOf(job.Namespace, job.ID)[0]
    const outcome: Partial<Evaluation> = { QueuedAllocations, ...(deployment && { DeploymentID: deployment.ID }) }
    if (failed.length > 0) {
      const shortage = new Placer(this.#state, new Set()).shortage()
      outcome.FailedTGAllocs = Object.fromEntries(failed.map(({ group }) => [group.Name, shortage]))
      const blocked = this.#seams.evaluations.create(job, 'queued-allocs', {
        Status: 'blocked',
        StatusDescription: 'created to place remaining allocations',
        PreviousEval: evaluations[0]?.ID ?? '',
        FailedTGAllocs: outcome.FailedTGAllocs,
      })
      outcome.BlockedEval = blocked.ID
      this.#blocked.set(key, blocked)
      this.#state.waiting.set(key, QueuedAllocations)
    }
    for (const evaluation of evaluations) this.#seams.evaluations.done(evaluation, outcome)
    this.#summed(job, this.#state.commit())
  }

  /** Returns what could not be placed. */
  #apply(job: Job, allocs: readonly Allocation[], result: Plan, evaluation: Evaluation): Placement[] {
    const lost = allocs.filter((alloc) => !isClientTerminal(alloc) && this.#isDown(alloc) && alloc.DesiredStatus !== 'run')
    const changes = result.stop.length + result.place.length + result.inPlace.length + result.unknown.length + lost.length
    if (changes === 0) return []
    const { chosen, failed, stop } = this.#choose(job, result)
    const index = this.#state.commit('allocs', 'deployments')
    const deployment = this.deployments.forPlan(job, result, index)
    const touched = new Set<string>()
    const touch = (alloc: Allocation): void => {
      this.#state.touchAlloc(alloc, index)
      touched.add(alloc.NodeID)
    }
    for (const { alloc, why, lost: isLost } of stop) {
      alloc.DesiredStatus = 'stop'
      alloc.DesiredDescription = why
      if (isLost) lost.push(alloc)
      touch(alloc)
    }
    for (const alloc of lost) {
      alloc.ClientStatus = 'lost'
      touch(alloc)
    }
    for (const alloc of result.unknown) {
      alloc.ClientStatus = 'unknown'
      alloc.ClientDescription = 'alloc is unknown since its node is disconnected'
      touch(alloc)
    }
    for (const alloc of result.inPlace) {
      alloc.Job = job
      alloc.DeploymentID = deployment?.ID ?? ''
      alloc.DeploymentStatus = null
      alloc.AllocModifyIndex = index
      this.deployments.placed(deployment, alloc, false)
      touch(alloc)
    }
    for (const { place, node } of chosen) {
      const made = { id: this.#seams.newId(), evalId: evaluation.ID, index, wall: this.#seams.wall() }
      const alloc = allocationOf(job, place, node, deployment, made)
      this.deployments.placed(deployment, alloc, place.canary)
      touch(alloc)
      if (place.previous !== undefined) place.previous.NextAllocation = alloc.ID
    }
    this.#summed(job, index)
    this.#seams.planned(touched)
    return failed
  }

  // An update that finds no room for the new allocation leaves the old one alone.
  #choose(job: Job, result: Plan): { chosen: { place: Placement; node: Node }[]; failed: Placement[]; stop: Plan['stop'] } {
    const placer = new Placer(this.#state, new Set(result.stop.map(({ alloc }) => alloc)))
    const chosen: { place: Placement; node: Node }[] = []
    const failed: Placement[] = []
    for (const place of result.place) {
      const node = placer.choose(job, place)
      if (node === undefined) failed.push(place)
      else chosen.push({ place, node })
    }
    const spared = new Set(failed.map(({ previous }) => previous))
    const stop = result.stop.filter(({ alloc, why }) => why !== UPDATED || !spared.has(alloc))
    return { chosen, failed, stop }
  }

  #summed(job: Job, index: number): void {
    const status = this.#state.statusOf(job)
    if (job.Status === status) return
    job.Status = status
    this.#state.putJob(job, index)
  }

  #isDown(alloc: Allocation): boolean {
    return this.#state.nodes.get(alloc.NodeID)?.Status === 'down'
  }
}
