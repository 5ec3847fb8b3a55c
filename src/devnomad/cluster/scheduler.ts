import type { Timers } from '../timers.ts'
import { Deployments } from './deployments.ts'
import { accepts, plan, type Placement, type Plan } from './plan.ts'
import { delayMs } from './rescheduling.ts'
import { isClientTerminal, isTerminal, nanoseconds, type Allocation, type Deployment, type Job, type Node } from './shapes.ts'
import type { State } from './state.ts'

export interface SchedulerSeams {
  readonly timers: Timers
  readonly wall: () => number
  readonly newId: () => string
  /** False while there is no leader: then nothing is decided. */
  readonly leads: () => boolean
  /** What the nodes shall run has changed. */
  readonly planned: (nodeIds: ReadonlySet<string>) => void
}

/** From the request for an evaluation to its plan. */
const EVALUATION_MS = 100
/** Deployments are looked at in batches (measured: 1.25 s). */
const DEPLOYMENT_MS = 1_000
const SYSTEM_STAGGER_MS = 30_000

/** Evaluates jobs: soon, one evaluation for all reasons that come together, and applies what the plan says in one entry. */
export class Scheduler {
  readonly deployments: Deployments
  readonly #state: State
  readonly #seams: SchedulerSeams
  readonly #due = new Map<string, () => void>()
  readonly #blocked = new Set<string>()

  constructor(state: State, seams: SchedulerSeams) {
    this.#state = state
    this.#seams = seams
    this.deployments = new Deployments(state, {
      ...seams,
      evaluate: (job) => this.evaluate(job.Namespace, job.ID, DEPLOYMENT_MS),
    })
  }

  evaluate(namespace: string, job: string, afterMs = EVALUATION_MS): string {
    const key = `${namespace}\0${job}`
    if (afterMs === EVALUATION_MS) {
      this.#due.get(key)?.()
      this.#due.delete(key)
    }
    if (!this.#due.has(key)) {
      const cancel = this.#seams.timers.after(afterMs, () => {
        this.#due.delete(key)
        if (this.#seams.leads()) this.#run(namespace, job)
        else this.evaluate(namespace, job, DEPLOYMENT_MS)
      })
      this.#due.set(key, cancel)
    }
    return this.#seams.newId()
  }

  /** A node has become able to take allocations. */
  unblock(): void {
    const system = this.#state.jobs().filter((job) => job.Type === 'system' || job.Type === 'sysbatch')
    for (const key of [...this.#blocked, ...system.map((job) => `${job.Namespace}\0${job.ID}`)]) {
      const [namespace, id] = key.split('\0') as [string, string]
      this.evaluate(namespace, id)
    }
  }

  #run(namespace: string, id: string): void {
    const job = this.#state.job(namespace, id)
    if (job === undefined) return
    const allocs = this.#state.allocsOf(namespace, id)
    this.deployments.settle(job)
    const deployment = this.#state.deploymentsOf(namespace, id).find((one) => one.JobVersion === job.Version)
    const wall = this.#seams.wall()
    const result = plan({ job, allocs, nodes: this.#state.nodes, deployment, wall })
    for (const { alloc, at } of result.later) {
      if (alloc.FollowupEvalID === '') alloc.FollowupEvalID = this.#seams.newId()
      this.#seams.timers.after(at - wall, () => this.evaluate(namespace, id))
    }
    this.#apply(job, allocs, result)
    if (job.Type === 'system' && result.stop.length > 0) this.#goOnLater(job)
  }

  #goOnLater(job: Job): void {
    const old = this.#state.allocsOf(job.Namespace, job.ID).some((one) => !isTerminal(one) && one.Job.Version !== job.Version)
    if (old) this.#seams.timers.after(SYSTEM_STAGGER_MS, () => this.evaluate(job.Namespace, job.ID))
  }

  #apply(job: Job, allocs: readonly Allocation[], result: Plan): void {
    const lost = allocs.filter((alloc) => !isClientTerminal(alloc) && this.#isDown(alloc) && alloc.DesiredStatus !== 'run')
    const changes = result.stop.length + result.place.length + result.inPlace.length + lost.length
    if (changes === 0) return
    const placements = result.place.filter((place) => place.node !== undefined || this.#freeNodes().length > 0)
    const key = `${job.Namespace}\0${job.ID}`
    if (placements.length < result.place.length) this.#blocked.add(key)
    else this.#blocked.delete(key)
    const index = this.#state.commit('allocs', 'deployments', 'evals')
    const deployment = this.deployments.forPlan(job, result, index)
    const touched = new Set<string>()
    const touch = (alloc: Allocation): void => {
      this.#state.touchAlloc(alloc, index)
      touched.add(alloc.NodeID)
    }
    for (const { alloc, why, lost: isLost } of result.stop) {
      alloc.DesiredStatus = 'stop'
      alloc.DesiredDescription = why
      if (isLost) lost.push(alloc)
      touch(alloc)
    }
    for (const alloc of lost) {
      alloc.ClientStatus = 'lost'
      touch(alloc)
    }
    for (const alloc of result.inPlace) {
      alloc.Job = job
      alloc.DeploymentID = deployment?.ID ?? ''
      alloc.DeploymentStatus = null
      alloc.AllocModifyIndex = index
      this.deployments.placed(deployment, alloc.TaskGroup)
      touch(alloc)
    }
    for (const place of placements) {
      const alloc = this.#place(job, place, deployment, index)
      if (alloc !== undefined) touch(alloc)
      if (place.previous !== undefined && alloc !== undefined) place.previous.NextAllocation = alloc.ID
    }
    if (job.Status !== this.#state.statusOf(job)) {
      job.Status = this.#state.statusOf(job)
      this.#state.putJob(job, index)
    }
    this.#state.commit('evals')
    this.#seams.planned(touched)
  }

  #place(job: Job, place: Placement, deployment: Deployment | undefined, index: number): Allocation | undefined {
    const node = place.node ?? this.#pick(job, place)
    if (node === undefined) return undefined
    const gated = deployment !== undefined && place.group.Name in deployment.TaskGroups
    if (gated) this.deployments.placed(deployment, place.group.Name)
    const time = nanoseconds(this.#seams.wall())
    return {
      ID: this.#seams.newId(),
      Name: place.name,
      Namespace: job.Namespace,
      EvalID: this.#seams.newId(),
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
      DeploymentStatus: null,
      PreviousAllocation: place.previous?.ID ?? '',
      NextAllocation: '',
      FollowupEvalID: '',
      RescheduleTracker: place.rescheduled ? this.#trackerAfter(place) : null,
      CreateIndex: index,
      ModifyIndex: index,
      AllocModifyIndex: index,
      CreateTime: time,
      ModifyTime: time,
    }
  }

  #trackerAfter({ previous, group }: Placement): Allocation['RescheduleTracker'] {
    const before = previous?.RescheduleTracker?.Events ?? []
    const event = {
      Delay: group.ReschedulePolicy === null ? 0 : nanoseconds(delayMs(group.ReschedulePolicy, before.length)),
      PrevAllocID: previous?.ID ?? '',
      PrevNodeID: previous?.NodeID ?? '',
      RescheduleTime: nanoseconds(this.#seams.wall()),
    }
    return { Events: [...before, event].slice(-5), LastReschedule: 'ok' }
  }

  // The emptiest node, first by this group and then by all; one that failed it before only when there is no other.
  #pick(job: Job, place: Placement): Node | undefined {
    const load = (node: Node): [number, number, number] => {
      const live = this.#state.allocsOn(node.ID).filter((alloc) => !isTerminal(alloc))
      const same = live.filter((alloc) => alloc.Namespace === job.Namespace && alloc.JobID === job.ID)
      return [place.rescheduled && place.previous?.NodeID === node.ID ? 1 : 0, same.length, live.length]
    }
    const ranked = this.#freeNodes().map((node) => ({ node, load: load(node) }))
    ranked.sort((a, b) => a.load[0] - b.load[0] || a.load[1] - b.load[1] || a.load[2] - b.load[2])
    return ranked[0]?.node
  }

  #freeNodes(): Node[] {
    return [...this.#state.nodes.values()].filter(accepts)
  }

  #isDown(alloc: Allocation): boolean {
    return this.#state.nodes.get(alloc.NodeID)?.Status === 'down'
  }
}
