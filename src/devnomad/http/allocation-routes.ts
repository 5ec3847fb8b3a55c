import type { Agent } from '../client/agent.ts'
import type { AllocationFiles } from '../client/files.ts'
import type { AllocationRun } from '../client/allocation-run.ts'
import type { Cluster } from '../cluster/cluster.ts'
import { nomadServices, type Allocation } from '../cluster/shapes.ts'
import type { Raft } from '../raft.ts'
import type { Timers } from '../timers.ts'
import { Refusal } from '../refusal.ts'
import { blocking, page } from './blocking.ts'
import { filterOf } from './filter.ts'
import { atIndex, demand, json, meta, namespaceOf, text, type Answer, type Call } from './exchange.ts'

/** What a caller waits at most for an agent that hangs. */
const AGENT_TIMEOUT_MS = 10_000
const UUID_LENGTH = 36

/** `/v1/allocations`, `/v1/allocation/…` (from the servers) and `/v1/client/allocation/…` (from the node's agent). */
export class AllocationRoutes {
  readonly #cluster: Cluster
  readonly #raft: Raft
  readonly #timers: Timers

  constructor(cluster: Cluster, raft: Raft, timers: Timers) {
    this.#cluster = cluster
    this.#raft = raft
    this.#timers = timers
  }

  async all(call: Call): Promise<Answer> {
    if (call.method !== 'GET') throw new Refusal(405, 'Invalid method')
    const namespace = namespaceOf(call)
    const { rights } = call
    demand(rights.namespace(namespace, 'read-job'))
    const prefix = call.query.get('prefix') ?? ''
    const passes = filterOf(call.query.get('filter'))
    const found = await this.#raft.block(
      blocking(call, ['allocs']),
      () => ({
        index: this.#raft.tableIndex('allocs'),
        allocs: [...this.#cluster.state.allocs.values()].filter(
          (alloc) =>
            (namespace === '*' ? rights.namespace(alloc.Namespace, 'read-job') : alloc.Namespace === namespace) &&
            alloc.ID.startsWith(prefix) &&
            passes(alloc),
        ),
      }),
      call.signal,
    )
    const { items, next } = page(
      call,
      found.allocs.sort((a, b) => (a.ID < b.ID ? -1 : 1)),
      (alloc) => alloc.ID,
    )
    return json(items.map(allocationStub), { ...meta(found.index), ...next })
  }

  async one(call: Call, rest: string): Promise<Answer> {
    const [id, what, more] = rest.split('/') as [string, string?, string?]
    if (more !== undefined) throw new Refusal(404, 'resource not found')
    switch (what) {
      case undefined:
        return this.#get(call, id)
      case 'stop':
        return this.#stop(call, id)
      case 'checks':
        return this.#checks(call, id)
      case 'services':
        return this.#services(call, id)
      default:
        throw new Refusal(404, 'resource not found')
    }
  }

  async client(call: Call, rest: string): Promise<Answer> {
    const [id, what, more] = rest.split('/') as [string, string?, string?]
    if (more !== undefined) throw new Refusal(404, 'resource not found')
    switch (what) {
      case 'checks':
        return this.#checks(call, id)
      case 'restart':
        return this.#restart(call, id)
      case 'signal':
        return this.#signal(call, id)
      case undefined:
      default:
        throw new Refusal(404, 'resource not found')
    }
  }

  /** The files of an allocation, for who may read them. */
  async files(call: Call, id: string): Promise<AllocationFiles | undefined> {
    return (await this.#reach(call, id, 'read-fs')).run?.files
  }

  async #get(call: Call, id: string): Promise<Answer> {
    if (call.method !== 'GET') throw new Refusal(405, 'Invalid method')
    checkId(id)
    const read = (): { index: number; alloc: Allocation | undefined } => {
      const alloc = this.#cluster.state.allocs.get(id)
      return { index: alloc?.ModifyIndex ?? this.#raft.tableIndex('allocs'), alloc }
    }
    const { rights } = call
    const { index, alloc } = await this.#raft.block(blocking(call, ['allocs']), read, call.signal)
    // Not 403: without the right it looks as if the allocation were not there, though with a 500 (facts §3).
    if (alloc !== undefined && !rights.namespace(alloc.Namespace, 'read-job')) {
      throw new Refusal(500, `Unknown allocation "${id}"`)
    }
    return alloc === undefined ? text(404, 'alloc not found', meta(index)) : json(withoutEmpty(alloc), meta(index))
  }

  // What it has registered: the services of the provider nomad, while it runs.
  #services(call: Call, id: string): Answer {
    checkId(id)
    const alloc = this.#cluster.state.allocs.get(id)
    if (alloc === undefined) throw new Refusal(404, 'alloc not found')
    demand(call.rights.namespace(alloc.Namespace, 'read-job'))
    const index = alloc.ClientStatus === 'running' ? this.#cluster.state.servicesAt.get(id) : undefined
    const services = index === undefined ? [] : servicesOf(alloc, index)
    return json(services, meta(Math.max(1, this.#raft.tableIndex('services'))))
  }

  #stop(call: Call, id: string): Answer {
    if (call.method !== 'PUT' && call.method !== 'POST') throw new Refusal(405, 'Invalid method')
    checkId(id)
    const alloc = this.#cluster.state.allocs.get(id)
    if (alloc === undefined) throw new Refusal(404, 'allocation not found')
    demand(call.rights.namespace(alloc.Namespace, 'alloc-lifecycle'))
    const { index, evalId } = this.#cluster.stopAllocation(alloc)
    return json({ EvalID: evalId, Index: index }, atIndex(index))
  }

  async #checks(call: Call, id: string): Promise<Answer> {
    if (call.method !== 'GET') throw new Refusal(405, 'Invalid method')
    const { run } = await this.#reach(call, id, 'read-job')
    return json(run?.checks ?? null)
  }

  // Any method restarts, also GET (facts §4). What is wrong is a 500 in the words of the client.
  async #restart(call: Call, id: string): Promise<Answer> {
    const wish = call.body === '' ? {} : (parse(call.body, 500) as { TaskName?: string; AllTasks?: boolean })
    const task = wish.TaskName ?? ''
    const all = wish.AllTasks ?? false
    const { run, agent } = await this.#reach(call, id, 'alloc-lifecycle')
    if (task !== '' && all) throw new Refusal(500, 'task name cannot be set when restarting all tasks')
    if (run === undefined) throw new Refusal(500, task === '' ? 'restart of an alloc that should not run' : 'Task not running')
    await refuse(() => run.restart(task, all))
    await this.#answering(agent, call.signal)
    return json({ Index: 0 })
  }

  async #signal(call: Call, id: string): Promise<Answer> {
    if (call.method !== 'PUT' && call.method !== 'POST') throw new Refusal(405, 'Invalid method')
    if (call.body === '') throw new Refusal(400, 'Failed to decode body: Request body is empty')
    const wish = parse(call.body, 400) as { Task?: string; Signal?: string }
    const { run } = await this.#reach(call, id, 'alloc-lifecycle')
    if (run === undefined) throw new Refusal(500, 'Task not running')
    await refuse(async () => run.signal(wish.Task ?? '', wish.Signal || 'SIGINT'))
    return json({ Index: 0 })
  }

  async #reach(call: Call, id: string, right: string): Promise<{ agent: Agent; run: AllocationRun | undefined }> {
    checkId(id)
    const alloc = this.#cluster.state.allocs.get(id)
    if (alloc === undefined) throw new Refusal(404, `Unknown allocation "${id}"`)
    demand(call.rights.namespace(alloc.Namespace, right))
    const agent = this.#cluster.agentOf(alloc.NodeID)
    await this.#answering(agent, call.signal)
    return { agent, run: agent.run(id) }
  }

  // The servers pass the call on to the node's agent: it may have no connection, or say nothing.
  async #answering(agent: Agent, signal: AbortSignal | undefined): Promise<void> {
    if (agent.reachable === 'hangs') {
      await aborted(this.#timers.wait(AGENT_TIMEOUT_MS), signal)
      throw new Refusal(500, 'rpc error: read tcp 127.0.0.1:4647: i/o timeout')
    }
    if (agent.reachable === 'refuses') throw new Refusal(404, 'No path to node')
  }
}

function servicesOf(alloc: Allocation, index: number): object[] {
  return nomadServices(alloc).map(({ of, service: { Name, PortLabel } }, at) => ({
    Address: '127.0.0.1',
    AllocID: alloc.ID,
    CreateIndex: index,
    Datacenter: 'dc1',
    ID: `_nomad-task-${alloc.ID}-${of}-${Name}-${PortLabel}`,
    JobID: alloc.JobID,
    ModifyIndex: index,
    Namespace: alloc.Namespace,
    NodeID: alloc.NodeID,
    Port: PortLabel === '' ? 0 : Number(PortLabel) || dynamicPort(alloc, at),
    ServiceName: Name,
    Tags: [],
  }))
}

// Of Nomad's range of dynamic ports. Nobody listens there.
const dynamicPort = ({ ID }: Allocation, at: number): number => 20_000 + ((parseInt(ID.slice(-6), 16) * 8 + at) % 12_001)

/** An allocation as lists show it: without its job, with the job's type and version. */
export function allocationStub(alloc: Allocation): object {
  const { Job, DeploymentID: _deployment, PreviousAllocation: _previous, AllocModifyIndex: _index, ...stub } = alloc
  return { ...stub, JobType: Job.Type, JobVersion: Job.Version, PreemptedAllocations: null, PreemptedByAllocation: '' }
}

function checkId(id: string): void {
  if (id.length !== UUID_LENGTH) throw new Refusal(500, 'alloc lookup failed: index error: UUID must be 36 characters')
}

function parse(body: string, status: number): unknown {
  try {
    return JSON.parse(body) ?? {}
  } catch {
    throw new Refusal(status, 'unexpected EOF')
  }
}

async function refuse(work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    throw new Refusal(500, (error as Error).message)
  }
}

async function aborted(work: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return work
  signal.throwIfAborted()
  await Promise.race([
    work,
    new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true })),
  ])
}

/** One allocation comes without its empty fields, a list of stubs with them (measured). */
function withoutEmpty(alloc: Allocation): object {
  const isEmpty = (value: unknown): boolean =>
    value === '' || value === null || (typeof value === 'object' && Object.values(value).every((one) => one === null))
  return Object.fromEntries(Object.entries(alloc).filter(([, value]) => !isEmpty(value)))
}
