// Room devnomad: a small Nomad in memory, true to Nomad's quirks, for development, the demo and tests. It knows nothing of
// us but the clock: all time is the Clock port, so it runs in virtual time too. What it rests on is measured (facts).
// This file: the facade.
import type { Acl } from './acl/acl.ts'
import type { Keyring } from './acl/keyring.ts'
import type { WorkloadEvent } from './client/allocation-run.ts'
import type { DevConfig } from './client/dev-config.ts'
import type { AllocationFiles } from './client/files.ts'
import { canonical, checkJob, type JobSpec } from './cluster/job-spec.ts'
import { groupOf, type Allocation, type Node, type Task } from './cluster/shapes.ts'
import { Door, type RecordedCall } from './door.ts'
import { Faults } from './faults.ts'
import type { Answer, Request } from './http/exchange.ts'
import type { Leader } from './leader.ts'
import type { DevNomadOptions } from './options.ts'
import { assemble, type Parts } from './parts.ts'
import { listen, type Listening } from './server.ts'

export type { Answer, DevConfig, DevNomadOptions, JobSpec, Listening, RecordedCall, Request, WorkloadEvent }

/** Which tasks a script means: those of one allocation, or of a group, its future allocations too. */
export type Target = string | { readonly job: string; readonly group: string; readonly namespace?: string }

export interface NodeScript {
  /** The machine dies with all that runs on it, and the servers have given it up: allocations with a `disconnect` block are
   *  unknown, all others lost. */
  down(): void
  up(): void
  /** Workloads go on, but the agent answers no checks, restart or signal, and reports nothing: the servers keep the old
   *  view. Calls answer 404 `No path to node`, or hang for 10 s and then answer 500. */
  silence(how?: 'refuses' | 'hangs'): void
  speak(): void
  /** The agent's process ends, and is there again after `ms`. Workloads go on, and nobody gives them up; but change modes that
   *  waited for their splay are lost, the tasks' API sockets are gone meanwhile, and checks begin anew. */
  restartAgent(ms: number): void
  /** The servers have given it up, but everything on it goes on: allocations with a `disconnect` block are unknown, all
   *  others lost. */
  away(): void
  /** It is heard of again. */
  back(): void
  /** The clock of the machine is set so many milliseconds before (negative) or after that of the servers. */
  setClock(skewMs: number): void
}

const DEFAULT_NODES = ['node-1', 'node-2', 'node-3']

export class DevNomad {
  /** What goes wrong with requests. */
  readonly faults = new Faults()
  readonly leader: Leader
  readonly acl: Acl
  /** Signs the workload identities. */
  readonly keyring: Keyring
  readonly #parts: Parts
  readonly #door: Door
  readonly #configs = new Map<string, DevConfig>()
  readonly #listeners = new Set<(event: WorkloadEvent) => void>()
  readonly #servers: Listening[] = []
  readonly #maxConnections: number

  constructor(options: DevNomadOptions) {
    this.#parts = assemble(options, {
      observe: (event) => this.#tell(event),
      config: (alloc, task) => this.#configOf(alloc, task),
    })
    this.leader = this.#parts.leader
    this.acl = this.#parts.acl
    this.keyring = this.#parts.keyring
    this.#door = new Door(this.#parts, this.faults, () => options.clock.now())
    this.#maxConnections = options.maxConnectionsPerClient ?? 100
    for (const name of options.nodes ?? DEFAULT_NODES) this.#cluster.addNode(name)
  }

  /** Answers one request. Rejects with ECONNRESET when the connection breaks, or with the signal's reason: what the request
   *  asked for may be done all the same. */
  handle(request: Request): Promise<Answer> {
    return this.#door.handle(request)
  }

  async listen(port = 0, host = '127.0.0.1'): Promise<Listening> {
    const server = await listen((request) => this.handle(request), port, host, this.#maxConnections)
    this.#servers.push(server)
    return server
  }

  /** Stops every timer, fails everybody who waits, and stops listening. */
  close(): void {
    this.#parts.timers.close()
    for (const server of this.#servers) void server.close()
    this.#door.close()
    this.#parts.streams.endAll()
    this.#parts.raft.dropWaiters()
  }

  // Scripts: what the demo and the tests do to it.

  /** Registers a job in Nomad's JSON (without the `Job` envelope): as soon as there is a leader, as all that scripts write. */
  registerJob(job: JobSpec): void {
    checkJob(canonical(job))
    this.#parts.duties.now(() => this.#cluster.register(job))
  }

  /** `memoryMb`: how much room it has; tasks want 300 MB unless they say otherwise. */
  addNode(name: string, options: { readonly memoryMb?: number } = {}): void {
    if (this.#cluster.state.node(name) !== undefined) throw new Error(`there is a node ${name} already`)
    this.#parts.duties.now(() => this.#cluster.addNode(name, options.memoryMb))
  }

  /** Changes how tasks behave from their next start on; with `now`, running processes behave so at once. What was set for
   *  an allocation goes before what was set for its group. */
  setTask(target: Target, config: DevConfig, options: { readonly now?: boolean } = {}): void {
    const key = typeof target === 'string' ? this.#alloc(target).ID : this.#keyOf(target)
    this.#configs.set(key, { ...this.#configs.get(key), ...config })
    if (options.now !== true) return
    for (const alloc of this.#cluster.state.allocs.values()) {
      const meant = key === alloc.ID || key === groupKey(alloc.Namespace, alloc.JobID, alloc.TaskGroup)
      if (meant) this.#cluster.agentOf(alloc.NodeID).run(alloc.ID)?.reread()
    }
  }

  /** A process ends by itself: the first main task's, unless named. */
  crash(allocId: string, task?: string, exitCode = 137): void {
    const alloc = this.#alloc(allocId)
    this.#cluster.agentOf(alloc.NodeID).run(allocId)?.crash(task, exitCode)
  }

  /** Vault did not renew the token of a task: Nomad gets a new one, and does what the task's `vault` block says. */
  renewVaultToken(allocId: string, task: string): void {
    this.#cluster.agentOf(this.#alloc(allocId).NodeID).run(allocId)?.renewVaultToken(task)
  }

  /** A fresh workload identity of a task, as Nomad would write it to the task's files: `default`, or the name of an
   *  `identity` block. */
  identity(allocId: string, task: string, name = 'default'): string {
    return this.#parts.identities.issueNamed(this.#alloc(allocId), task, name)
  }

  /** The files of an allocation: to be read, written or touched by a script. */
  files(allocId: string): AllocationFiles {
    const files = this.#cluster.agentOf(this.#alloc(allocId).NodeID).run(allocId)?.files
    if (files === undefined) throw new Error(`allocation ${allocId} is not on its node`)
    return files
  }

  node(name: string): NodeScript {
    const node: Node | undefined = this.#cluster.state.node(name)
    if (node === undefined) throw new Error(`no node ${name}`)
    const agent = this.#cluster.agentOf(node.ID)
    return {
      down: () => this.#cluster.nodeDown(node),
      up: () => this.#cluster.nodeUp(node),
      silence: (how = 'refuses') => agent.silence(how),
      away: () => this.#cluster.nodeAway(node),
      back: () => this.#cluster.nodeReturns(node),
      speak: () => this.#cluster.nodeSpeaks(node),
      restartAgent: (ms) => {
        agent.stop()
        this.#parts.timers.after(ms, () => {
          agent.start()
          this.#cluster.nodeSpeaks(node)
        })
      },
      setClock: (skewMs) => agent.setClock(skewMs),
    }
  }

  /** Whether the servers think well of themselves, as autopilot says; whatever it says, they work. */
  setServersHealthy(healthy: boolean): void {
    this.#parts.system.healthy = healthy
  }

  /** Tells every true event of the workloads at once. Returns what ends it. */
  observe(listener: (event: WorkloadEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Keeps the last `n` requests in `calls`; 0 keeps none. */
  record(n: number): void {
    this.#door.record(n)
  }

  get calls(): readonly RecordedCall[] {
    return this.#door.calls
  }

  /** Every blocking query answers now, though nothing has changed. */
  wakeSpuriously(): void {
    this.#parts.raft.wake(true)
  }

  /** All event streams end, without an error; who asks again gets what is remembered. With `forget` nothing is: a gap. */
  endEventStreams(options: { readonly forget?: boolean } = {}): void {
    if (options.forget === true) this.#parts.events.forget()
    this.#parts.streams.endAll()
  }

  get #cluster(): Parts['cluster'] {
    return this.#parts.cluster
  }

  #alloc(id: string): Allocation {
    const alloc = this.#cluster.state.allocs.get(id)
    if (alloc === undefined) throw new Error(`no allocation ${id}`)
    return alloc
  }

  #keyOf({ namespace = 'default', job, group }: Exclude<Target, string>): string {
    const known = this.#cluster.state.job(namespace, job)
    if (known === undefined) throw new Error(`no job ${job}`)
    return groupKey(namespace, job, groupOf(known, group).Name)
  }

  #configOf(alloc: Allocation, task: Task): DevConfig {
    return {
      ...(task.Driver === 'dev' && (task.Config as DevConfig | null)),
      ...this.#configs.get(groupKey(alloc.Namespace, alloc.JobID, alloc.TaskGroup)),
      ...this.#configs.get(alloc.ID),
    }
  }

  #tell(event: WorkloadEvent): void {
    for (const listener of this.#listeners) listener(event)
  }
}

const groupKey = (namespace: string, job: string, group: string): string => [namespace, job, group].join('\0')
