import type { Written } from '../events/publish.ts'
import type { Raft, Table } from '../raft.ts'
import { isTerminal, nanoseconds, type Allocation, type Deployment, type Job, type Namespace, type Node } from './shapes.ts'

/** The servers' tables beside variables. Rows are Nomad's own objects, changed in place and only through `touch…`, which
 *  give them their index. */
export class State {
  readonly nodes = new Map<string, Node>()
  readonly allocs = new Map<string, Allocation>()
  readonly deployments = new Map<string, Deployment>()
  readonly namespaces = new Map<string, Namespace>()
  /** Memory of the nodes of which it is known. */
  readonly capacityMb = new Map<string, number>()
  /** Since when (wall, ms) nothing was heard of a node. */
  readonly awaySince = new Map<string, number>()
  /** By job: how many of each group wait for room. */
  readonly waiting = new Map<string, Readonly<Record<string, number>>>()
  /** By allocation: the index at which its services were registered. */
  readonly servicesAt = new Map<string, number>()
  readonly #jobs = new Map<string, Job>()
  readonly #raft: Raft
  readonly #wall: () => number

  readonly #written: (written: Written) => void

  constructor(raft: Raft, wall: () => number, written: (written: Written) => void) {
    this.#raft = raft
    this.#written = written
    this.#wall = wall
    this.putNamespace({ Name: 'default', Description: 'Default shared namespace', Meta: null })
  }

  get index(): number {
    return this.#raft.index
  }

  commit(...tables: Table[]): number {
    return this.#raft.commit(...tables)
  }

  job(namespace: string, id: string): Job | undefined {
    return this.#jobs.get(`${namespace}\0${id}`)
  }

  jobs(): Job[] {
    return [...this.#jobs.values()]
  }

  putJob(job: Job, index: number): void {
    job.ModifyIndex = index
    this.#jobs.set(`${job.Namespace}\0${job.ID}`, job)
    this.#written({ table: 'jobs', row: job })
  }

  /** Forgets a job with everything of it, at once, also what still runs (measured). */
  removeJob(job: Job): void {
    this.#jobs.delete(`${job.Namespace}\0${job.ID}`)
    this.waiting.delete(`${job.Namespace}\0${job.ID}`)
    for (const { ID } of this.allocsOf(job.Namespace, job.ID)) {
      this.allocs.delete(ID)
      this.servicesAt.delete(ID)
    }
    for (const one of this.deploymentsOf(job.Namespace, job.ID)) this.deployments.delete(one.ID)
  }

  allocsOf(namespace: string, job: string): Allocation[] {
    return [...this.allocs.values()].filter((alloc) => alloc.Namespace === namespace && alloc.JobID === job)
  }

  allocsOn(nodeId: string): Allocation[] {
    return [...this.allocs.values()].filter((alloc) => alloc.NodeID === nodeId)
  }

  /** Newest first. */
  deploymentsOf(namespace: string, job: string): Deployment[] {
    return [...this.deployments.values()]
      .filter((one) => one.Namespace === namespace && one.JobID === job)
      .sort((a, b) => b.CreateIndex - a.CreateIndex)
  }

  node(name: string): Node | undefined {
    return [...this.nodes.values()].find((node) => node.Name === name)
  }

  putNamespace(namespace: Omit<Namespace, 'CreateIndex' | 'ModifyIndex'>): number {
    const index = this.commit('namespaces')
    const CreateIndex = this.namespaces.get(namespace.Name)?.CreateIndex ?? index
    this.namespaces.set(namespace.Name, { ...namespace, CreateIndex, ModifyIndex: index })
    return index
  }

  touchAlloc(alloc: Allocation, index: number): void {
    alloc.ModifyIndex = index
    alloc.ModifyTime = nanoseconds(this.#wall())
    this.allocs.set(alloc.ID, alloc)
    this.#written({ table: 'allocs', row: alloc })
  }

  touchDeployment(deployment: Deployment, index: number): void {
    deployment.ModifyIndex = index
    deployment.ModifyTime = nanoseconds(this.#wall())
    this.deployments.set(deployment.ID, deployment)
    this.#written({ table: 'deployments', row: deployment })
  }

  touchNode(node: Node, index: number): void {
    node.ModifyIndex = index
    this.nodes.set(node.ID, node)
    this.#written({ table: 'nodes', row: node })
  }

  /** As Nomad sums it up: nothing yet, something runs, or all is over. */
  statusOf(job: Job): Job['Status'] {
    const allocs = this.allocsOf(job.Namespace, job.ID)
    if (allocs.some((alloc) => !isTerminal(alloc) || alloc.ClientStatus === 'running')) return 'running'
    if (job.Stop || (allocs.length > 0 && job.Type === 'batch')) return 'dead'
    const waits = this.waiting.has(`${job.Namespace}\0${job.ID}`)
    return job.Type === 'system' || waits ? 'running' : 'pending'
  }
}
