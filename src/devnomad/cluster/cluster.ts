import { Agent } from '../client/agent.ts'
import type { ClientReport, RunSeams, WorkloadEvent } from '../client/allocation-run.ts'
import type { DevConfig } from '../client/dev-config.ts'
import type { Duties } from '../duties.ts'
import type { Written } from '../events/publish.ts'
import type { Raft } from '../raft.ts'
import type { Timers } from '../timers.ts'
import { Drainer, type DrainSpec } from './drainer.ts'
import { Evaluations } from './evaluations.ts'
import { canonical, checkJob, sameSpec, type JobSpec } from './job-spec.ts'
import { Scheduler } from './scheduler.ts'
import {
  isClientTerminal,
  isTerminal,
  nanoseconds,
  nomadServices,
  type Allocation,
  type Deployment,
  type Job,
  type Node,
  type Task,
} from './shapes.ts'
import { State } from './state.ts'

/** What the nodes need of the rest of the world. */
type NodeSeams = Pick<RunSeams, 'random' | 'variable' | 'watchVariables' | 'issue'>

export interface ClusterSeams extends NodeSeams {
  readonly raft: Raft
  readonly timers: Timers
  readonly now: () => number
  readonly wall: () => number
  readonly newId: () => string
  readonly lagMs: number
  readonly duties: Duties
  readonly observe: (event: WorkloadEvent) => void
  readonly written: (written: Written) => void
  /** The config of a task as it would be read now. */
  readonly config: (alloc: Allocation, task: Task) => DevConfig
}

/** From a plan to the node that carries it out. */
const PULL_MS = 50

/** Servers and nodes together: every write to jobs, allocations and nodes goes through here. */
export class Cluster {
  readonly state: State
  readonly evaluations: Evaluations
  readonly #seams: ClusterSeams
  readonly #scheduler: Scheduler
  readonly #drainer: Drainer
  readonly #agents = new Map<string, Agent>()

  constructor(seams: ClusterSeams) {
    this.#seams = seams
    this.state = new State(seams.raft, seams.wall, seams.written)
    this.evaluations = new Evaluations(seams.raft, seams.newId, seams.wall, (row) => seams.written({ table: 'evals', row }))
    this.#scheduler = new Scheduler(this.state, {
      ...seams,
      evaluations: this.evaluations,
      planned: (nodes) => this.#planned(nodes),
    })
    const evaluate = (namespace: string, job: string): unknown => this.#scheduler.evaluate(namespace, job, 'node-drain')
    this.#drainer = new Drainer(this.state, seams.duties, seams.wall, evaluate)
  }

  /** `memoryMb`: how much it has; left out, as much as anybody likes. */
  addNode(name: string, memoryMb?: number): Node {
    const index = this.state.commit('nodes')
    const node: Node = {
      ID: this.#seams.newId(),
      Name: name,
      Address: '127.0.0.1',
      Datacenter: 'dc1',
      NodeClass: '',
      NodePool: 'default',
      Status: 'ready',
      StatusDescription: '',
      SchedulingEligibility: 'eligible',
      Drain: false,
      DrainStrategy: null,
      LastDrain: null,
      CreateIndex: index,
      ModifyIndex: index,
    }
    this.state.touchNode(node, index)
    if (memoryMb !== undefined) this.state.capacityMb.set(node.ID, memoryMb)
    const report = (reports: ReadonlyMap<string, ClientReport>): boolean => this.#reported(reports)
    this.#agents.set(node.ID, new Agent(name, { ...this.#seams, report }))
    this.#scheduler.unblock()
    return node
  }

  agentOf(nodeId: string): Agent {
    const agent = this.#agents.get(nodeId)
    if (agent === undefined) throw new Error(`no node ${nodeId}`)
    return agent
  }

  /** Registers a job, or a new version of it; the same spec again makes no new version. */
  register(spec: JobSpec): { index: number; jobModifyIndex: number; evalId: string } {
    const job = canonical(spec)
    checkJob(job)
    const before = this.state.job(job.Namespace, job.ID)
    const index = this.state.commit('jobs', 'evals')
    if (before !== undefined && sameSpec(before, job)) {
      const evalId = this.#scheduler.evaluate(job.Namespace, job.ID, 'job-register')
      return { index, jobModifyIndex: before.ModifyIndex, evalId }
    }
    job.CreateIndex = before?.CreateIndex ?? index
    job.Version = before === undefined ? 0 : before.Version + 1
    job.JobModifyIndex = index
    job.SubmitTime = nanoseconds(this.#seams.wall())
    job.Status = before?.Status ?? 'pending'
    this.state.putJob(job, index)
    return { index, jobModifyIndex: index, evalId: this.#scheduler.evaluate(job.Namespace, job.ID, 'job-register') }
  }

  /** Stops a job; with `purge` it is forgotten at once. Null: there is no such job. */
  deregister(namespace: string, id: string, purge: boolean): { index: number; evalId: string } | null {
    const before = this.state.job(namespace, id)
    if (before === undefined) return null
    const index = this.state.commit('jobs', 'evals', ...(purge ? (['allocs', 'deployments'] as const) : []))
    if (purge) {
      const nodes = new Set(this.state.allocsOf(namespace, id).map((alloc) => alloc.NodeID))
      this.state.removeJob(before)
      this.#planned(nodes)
    } else {
      const stopped: Job = { ...before, Stop: true, Version: before.Version + 1, JobModifyIndex: index }
      this.state.putJob(stopped, index)
    }
    if (purge) this.evaluations.forget(namespace, id)
    return { index, evalId: this.#scheduler.evaluate(namespace, id, 'job-deregister') }
  }

  /** Marks an allocation to be stopped and replaced. */
  stopAllocation(alloc: Allocation): { index: number; evalId: string } {
    const index = this.state.commit('allocs', 'evals')
    Object.assign(alloc.DesiredTransition, { Migrate: true, Reschedule: false, NoShutdownDelay: false })
    this.state.touchAlloc(alloc, index)
    return { index, evalId: this.#scheduler.evaluate(alloc.Namespace, alloc.JobID, 'alloc-stop') }
  }

  promote(deployment: Deployment): number {
    return this.#scheduler.deployments.promote(deployment)
  }

  failDeployment(deployment: Deployment): number {
    return this.#scheduler.deployments.fail(deployment)
  }

  pauseDeployment(deployment: Deployment, pause: boolean): number {
    return this.#scheduler.deployments.pause(deployment, pause)
  }

  drain(node: Node, spec: DrainSpec | null, markEligible: boolean, meta: Record<string, string> | null): number {
    const index = this.state.commit('nodes')
    if (spec === null) this.#drainer.cancel(node, markEligible, index)
    else this.#drainer.start(node, spec, meta, index)
    this.#scheduler.unblock()
    return index
  }

  eligible(node: Node, eligibility: 'eligible' | 'ineligible'): { index: number; evalIds: string[] | null } {
    const changes = node.SchedulingEligibility !== eligibility
    const index = this.state.commit('nodes')
    node.SchedulingEligibility = eligibility
    this.state.touchNode(node, index)
    if (eligibility === 'ineligible') return { index, evalIds: null }
    this.#scheduler.unblock()
    return { index, evalIds: changes ? [this.#seams.newId()] : null }
  }

  /** The machine dies with all that runs on it, and the servers hear nothing more of it. */
  nodeDown(node: Node): void {
    this.agentOf(node.ID).down()
    this.#seams.duties.now(() => this.#unheard(node))
  }

  /** The servers hear nothing more of a machine on which everything goes on. */
  nodeAway(node: Node): void {
    this.agentOf(node.ID).silence('refuses')
    this.#seams.duties.now(() => this.#unheard(node))
  }

  /** It is heard of again: what runs there says so, and what was given up ends. */
  nodeReturns(node: Node): void {
    this.agentOf(node.ID).speak()
    this.agentOf(node.ID).tellAll()
    this.nodeUp(node)
  }

  // A dead machine looks like one that is away: what has a `disconnect` block is unknown from now on, everything else is lost.
  #unheard(node: Node): void {
    const mayReturn = this.state.allocsOn(node.ID).some((alloc) => {
      const group = alloc.Job.TaskGroups.find((one) => one.Name === alloc.TaskGroup)
      return !isTerminal(alloc) && (group?.Disconnect?.LostAfter ?? 0) > 0
    })
    if (!this.state.awaySince.has(node.ID)) this.state.awaySince.set(node.ID, this.#seams.wall())
    node.Status = mayReturn ? 'disconnected' : 'down'
    this.state.touchNode(node, this.state.commit('nodes'))
    for (const alloc of this.state.allocsOn(node.ID)) {
      if (!isClientTerminal(alloc)) this.#scheduler.evaluate(alloc.Namespace, alloc.JobID, 'node-update')
    }
  }

  nodeUp(node: Node): void {
    this.agentOf(node.ID).up()
    this.#seams.duties.now(() => {
      this.state.awaySince.delete(node.ID)
      node.Status = 'ready'
      this.state.touchNode(node, this.state.commit('nodes'))
      this.#planned(new Set([node.ID]))
      this.#scheduler.unblock()
    })
  }

  /** The agent can be talked to again. */
  nodeSpeaks(node: Node): void {
    this.agentOf(node.ID).speak()
    this.#planned(new Set([node.ID]))
  }

  #planned(nodeIds: ReadonlySet<string>): void {
    for (const id of nodeIds) {
      this.#seams.timers.after(PULL_MS, () => this.#agents.get(id)?.sync(this.state.allocsOn(id)))
    }
    this.#drainer.look()
  }

  // What a client says of its allocations: one entry for all of them.
  #reported(reports: ReadonlyMap<string, ClientReport>): boolean {
    if (!this.#seams.duties.works) return false
    const known = [...reports].flatMap(([id, report]) => {
      const alloc = this.state.allocs.get(id)
      return alloc === undefined || (alloc.ClientStatus === 'lost' && report.status !== 'complete') ? [] : [{ alloc, report }]
    })
    if (known.length === 0) return true
    const index = this.state.commit('allocs')
    for (const { alloc, report } of known) this.#apply(alloc, report, index)
    this.#drainer.look()
    return true
  }

  #apply(alloc: Allocation, report: ClientReport, index: number): void {
    const back = alloc.ClientStatus === 'unknown'
    const failed = report.status === 'failed' && alloc.ClientStatus !== 'failed'
    const over = isClientTerminal({ ...alloc, ClientStatus: report.status }) && !isClientTerminal(alloc)
    alloc.ClientStatus = report.status
    alloc.ClientDescription = report.description
    alloc.TaskStates = report.tasks
    if (report.health !== null && alloc.DeploymentStatus?.Healthy !== report.health.healthy) {
      const { healthy, at } = report.health
      alloc.DeploymentStatus = {
        Canary: alloc.DeploymentStatus?.Canary ?? false,
        Healthy: healthy,
        ModifyIndex: index,
        Timestamp: at,
      }
      this.#scheduler.deployments.judged(alloc, healthy, index)
    }
    this.state.touchAlloc(alloc, index)
    this.#registerServices(alloc)
    const job = this.state.job(alloc.Namespace, alloc.JobID)
    const why = failed ? 'alloc-failure' : back ? 'reconnect' : 'alloc-stop'
    if (failed || back || (over && alloc.DesiredStatus === 'run')) {
      this.#scheduler.evaluate(alloc.Namespace, alloc.JobID, why)
    } else if (over && this.state.capacityMb.has(alloc.NodeID)) this.#scheduler.unblock()
    if (job !== undefined && job.Status !== this.state.statusOf(job)) {
      job.Status = this.state.statusOf(job)
      this.state.putJob(job, index)
    }
  }

  // A client registers the services of what runs in an entry of their own, and takes them away with it.
  #registerServices(alloc: Allocation): void {
    const { servicesAt } = this.state
    const runs = alloc.ClientStatus === 'running'
    if (runs === servicesAt.has(alloc.ID) || nomadServices(alloc).length === 0) return
    const index = this.state.commit('services')
    if (runs) servicesAt.set(alloc.ID, index)
    else servicesAt.delete(alloc.ID)
  }
}
