// Room devnomad: a small Nomad in memory, true to Nomad's quirks, for development, the demo and tests. It knows nothing of
// us but the clock: all time is the Clock port, so it runs in virtual time too. What it rests on is measured (facts).
// This file: the facade.
import type { Clock } from '../keeper/ports.ts'
import type { WorkloadEvent } from './client/allocation-run.ts'
import type { DevConfig } from './client/dev-config.ts'
import { Cluster } from './cluster/cluster.ts'
import type { JobSpec } from './cluster/job-spec.ts'
import type { Allocation, Node, Task } from './cluster/shapes.ts'
import { Faults } from './faults.ts'
import { AllocationRoutes } from './http/allocation-routes.ts'
import { ConnectionLost, json, text, type Answer, type Request } from './http/exchange.ts'
import { JobRoutes } from './http/job-routes.ts'
import { NodeRoutes } from './http/node-routes.ts'
import { Router, split } from './http/router.ts'
import { SystemRoutes } from './http/system-routes.ts'
import { VariableRoutes } from './http/variable-routes.ts'
import { Leader } from './leader.ts'
import { Raft } from './raft.ts'
import { listen, type Listening } from './server.ts'
import { Timers } from './timers.ts'
import { Variables } from './variables/variables.ts'

export type { Answer, DevConfig, JobSpec, Listening, Request, WorkloadEvent }

export interface DevNomadOptions {
  readonly clock: Clock
  readonly newId: () => string
  /** Names of the nodes to begin with. */
  readonly nodes?: readonly string[]
  /** How long the servers' view of tasks lags behind the truth; measured: about a second. */
  readonly lagMs?: number
}

export interface RecordedCall {
  readonly at: number
  readonly method: string
  readonly path: string
  /** 0: the connection broke, or the caller gave up. */
  readonly status: number
}

/** Which tasks a script means: those of one allocation, or of a group, its future allocations too. */
export type Target = string | { readonly job: string; readonly group: string; readonly namespace?: string }

export interface NodeScript {
  /** The machine dies with all that runs on it, and the servers have noticed: its allocations are lost. */
  down(): void
  up(): void
  /** Workloads go on, but the agent answers no checks, restart or signal, and reports nothing: the servers keep the old
   *  view. Calls answer 404 `No path to node`, or hang for 10 s and then answer 500. */
  silence(how?: 'refuses' | 'hangs'): void
  speak(): void
}

const DEFAULT_NODES = ['node-1', 'node-2', 'node-3']

export class DevNomad {
  /** What goes wrong with requests. */
  readonly faults = new Faults()
  readonly leader: Leader
  readonly #clock: Clock
  readonly #timers: Timers
  readonly #raft: Raft
  readonly #cluster: Cluster
  readonly #router: Router
  readonly #configs = new Map<string, DevConfig>()
  readonly #listeners = new Set<(event: WorkloadEvent) => void>()
  readonly #open = new Set<(error: unknown) => void>()
  readonly #servers: Listening[] = []
  #calls: RecordedCall[] = []
  #recorded = 0
  #closed = false

  constructor(options: DevNomadOptions) {
    const { clock, newId } = options
    const wall = (): number => Math.floor(clock.wall())
    this.#clock = clock
    this.#timers = new Timers(clock)
    this.#raft = new Raft(this.#timers)
    const variables = new Variables(this.#raft, this.#timers, () => wall() * 1e6)
    this.leader = new Leader(this.#timers, this.#raft, variables)
    this.#cluster = new Cluster({
      raft: this.#raft,
      timers: this.#timers,
      now: () => clock.now(),
      wall,
      newId,
      lagMs: options.lagMs ?? 1_000,
      leads: () => this.leader.leads,
      observe: (event) => this.#tell(event),
      config: (alloc, task) => this.#configOf(alloc, task),
    })
    for (const name of options.nodes ?? DEFAULT_NODES) this.#cluster.addNode(name)
    this.#router = new Router({
      variables: new VariableRoutes(variables, this.#raft, newId),
      jobs: new JobRoutes(this.#cluster, this.#raft),
      allocations: new AllocationRoutes(this.#cluster, this.#raft, this.#timers),
      nodes: new NodeRoutes(this.#cluster, this.#raft),
      system: new SystemRoutes(this.#cluster, this.#raft, newId()),
    })
  }

  /** Answers one request. Rejects with ECONNRESET when the connection breaks, or with the signal's reason: what the request
   *  asked for may be done all the same. */
  async handle(request: Request): Promise<Answer> {
    const at = this.#clock.now()
    let status = 0
    try {
      const answer = await this.#attempt(request)
      status = answer.status
      return answer
    } finally {
      this.#remember({ at, method: request.method, path: request.path, status })
    }
  }

  async listen(port = 0, host = '127.0.0.1'): Promise<Listening> {
    const server = await listen((request) => this.handle(request), port, host)
    this.#servers.push(server)
    return server
  }

  /** Stops every timer, fails everybody who waits, and stops listening. */
  close(): void {
    this.#closed = true
    this.#timers.close()
    for (const server of this.#servers) void server.close()
    for (const reject of this.#open) reject(new ConnectionLost())
    this.#raft.dropWaiters()
  }

  // Scripts: what the demo and the tests do to it.

  /** Registers a job in Nomad's JSON (without the `Job` envelope). */
  registerJob(job: JobSpec): void {
    this.#cluster.register(job)
  }

  addNode(name: string): void {
    this.#cluster.addNode(name)
  }

  /** Changes how tasks behave from their next start on; with `now`, running processes behave so at once. What was set for
   *  an allocation goes before what was set for its group. */
  setTask(target: Target, config: DevConfig, options: { readonly now?: boolean } = {}): void {
    const key = typeof target === 'string' ? target : groupKey(target.namespace ?? 'default', target.job, target.group)
    this.#configs.set(key, { ...this.#configs.get(key), ...config })
    if (options.now !== true) return
    for (const alloc of this.#cluster.state.allocs.values()) {
      const meant = key === alloc.ID || key === groupKey(alloc.Namespace, alloc.JobID, alloc.TaskGroup)
      if (meant) this.#cluster.agentOf(alloc.NodeID).run(alloc.ID)?.reread()
    }
  }

  /** A process ends by itself: the first main task's, unless named. */
  crash(allocId: string, task?: string, exitCode = 137): void {
    const alloc = this.#cluster.state.allocs.get(allocId)
    if (alloc === undefined) throw new Error(`no allocation ${allocId}`)
    this.#cluster.agentOf(alloc.NodeID).run(allocId)?.crash(task, exitCode)
  }

  node(name: string): NodeScript {
    const node: Node | undefined = this.#cluster.state.node(name)
    if (node === undefined) throw new Error(`no node ${name}`)
    return {
      down: () => this.#cluster.nodeDown(node),
      up: () => this.#cluster.nodeUp(node),
      silence: (how = 'refuses') => this.#cluster.agentOf(node.ID).silence(how),
      speak: () => this.#cluster.nodeSpeaks(node),
    }
  }

  /** Tells every true event of the workloads at once. Returns what ends it. */
  observe(listener: (event: WorkloadEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Keeps the last `n` requests in `calls`; 0 keeps none. */
  record(n: number): void {
    this.#recorded = n
    this.#calls = n === 0 ? [] : this.#calls.slice(-n)
  }

  get calls(): readonly RecordedCall[] {
    return this.#calls
  }

  #attempt(request: Request): Promise<Answer> {
    const { signal } = request
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new ConnectionLost())
      if (signal?.aborted === true) return reject(signal.reason)
      const leave = (): void => reject(signal?.reason)
      const done = (): void => {
        this.#open.delete(reject)
        signal?.removeEventListener('abort', leave)
      }
      this.#open.add(reject)
      signal?.addEventListener('abort', leave, { once: true })
      this.#serve(request).then(resolve, reject).finally(done)
    })
  }

  async #serve(request: Request): Promise<Answer> {
    const fault = this.faults.take(request)
    if (fault?.kind === 'drop') throw new ConnectionLost()
    if (fault?.kind === 'answer') return text(fault.status, fault.body)
    if (fault?.kind === 'delay') await this.#timers.wait(fault.ms)
    const answer = await this.#led(request)
    if (fault?.kind === 'drop-answer') throw new ConnectionLost()
    return answer
  }

  // All but the agents' own affairs, and reads that may be stale, needs the leader.
  async #led(request: Request): Promise<Answer> {
    const { pathname, query } = split(request.path)
    const stale = request.method === 'GET' && query.has('stale')
    if (!/^\/v1\/(client|status|agent)\//.test(pathname) && !stale) {
      await this.leader.ready()
      if (!this.leader.leads) return text(500, 'No cluster leader')
    }
    if (pathname === '/v1/status/leader' && !this.leader.leads) return json('')
    return this.#router.answer(request)
  }

  #configOf(alloc: Allocation, task: Task): DevConfig {
    return {
      ...(task.Config as DevConfig | null),
      ...this.#configs.get(groupKey(alloc.Namespace, alloc.JobID, alloc.TaskGroup)),
      ...this.#configs.get(alloc.ID),
    }
  }

  #tell(event: WorkloadEvent): void {
    for (const listener of this.#listeners) listener(event)
  }

  #remember(call: RecordedCall): void {
    if (this.#recorded === 0) return
    this.#calls.push(call)
    if (this.#calls.length > this.#recorded) this.#calls.shift()
  }
}

const groupKey = (namespace: string, job: string, group: string): string => [namespace, job, group].join('\0')
