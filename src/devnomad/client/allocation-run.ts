import {
  groupOf,
  milliseconds,
  type Allocation,
  type ClientStatus,
  type Group,
  type Identity,
  type TaskState,
} from '../cluster/shapes.ts'
import { listed } from '../refusal.ts'
import type { Timers } from '../timers.ts'
import { AllocationHealth } from './allocation-health.ts'
import { Coordinator, isSidecar, stageOf } from './coordinator.ts'
import type { DevConfig } from './dev-config.ts'
import { AllocationFiles } from './files.ts'
import { moments } from './moments.ts'
import { signalOf } from './signals.ts'
import { TaskFiles } from './task-files.ts'
import { NOT_RUNNING, Task, type TrueEvent } from './task.ts'
import type { Task as TaskSpec } from '../cluster/shapes.ts'

/** What truly happens to a workload, told at once; the servers hear of it later. */
export interface WorkloadEvent {
  readonly at: number
  readonly alloc: string
  readonly name: string
  readonly task: string
  readonly event: TrueEvent
}

export interface RunSeams {
  readonly timers: Timers
  readonly now: () => number
  readonly wall: () => number
  readonly config: (alloc: Allocation, task: TaskSpec) => DevConfig
  readonly observe: (event: WorkloadEvent) => void
  readonly random: () => number
  /** A variable as the task may read it. */
  readonly variable: (alloc: Allocation, task: string, path: string) => Readonly<Record<string, string>> | undefined
  readonly watchVariables: (listener: () => void) => () => void
  readonly issue: (alloc: Allocation, task: string, identity: Identity) => string
  /** The servers shall be told. */
  readonly changed: (run: AllocationRun) => void
}

export interface ClientReport {
  readonly status: ClientStatus
  readonly description: string
  readonly tasks: Record<string, TaskState>
  readonly health: { readonly healthy: boolean; readonly at: string } | null
}

/** One allocation on its node: its tasks in the order of their lifecycles, its checks, its health. */
export class AllocationRun {
  readonly alloc: Allocation
  readonly #seams: RunSeams
  readonly #group: Group
  readonly #tasks: Task[]
  readonly #taskFiles = new Map<string, TaskFiles>()
  readonly #coordinator: Coordinator
  readonly #health: AllocationHealth
  readonly files: AllocationFiles
  #delay: Promise<void> = Promise.resolve()
  #stopping = false
  #killing = false
  #detached = false
  #closed = false

  /** `before`: its tasks as they were when the machine died; none: it is new. */
  constructor(alloc: Allocation, seams: RunSeams, before: ClientReport['tasks'] = {}) {
    this.alloc = alloc
    this.#seams = seams
    this.#group = groupOf(alloc.Job, alloc.TaskGroup)
    const batch = alloc.Job.Type === 'batch' || alloc.Job.Type === 'sysbatch'
    const moment = moments(seams.wall)
    this.files = new AllocationFiles(alloc.ID, moment)
    this.#tasks = this.#group.Tasks.map((spec) => {
      const files = this.#filesOf(spec)
      this.#taskFiles.set(spec.Name, files)
      return new Task(spec, stageOf(spec), batch, {
        timers: seams.timers,
        now: seams.now,
        wall: seams.wall,
        moment,
        before: before[spec.Name],
        config: () => seams.config(alloc, spec),
        tell: (event) => seams.observe({ at: seams.now(), alloc: alloc.ID, name: alloc.Name, task: spec.Name, event }),
        changed: () => this.#progress(),
        waits: () => this.#wake(),
        prepare: (begin) => files.prepare(begin),
        over: () => files.close(),
      })
    })
    this.#coordinator = new Coordinator(this.#tasks)
    const { timers, wall } = seams
    const decided = (): void => seams.changed(this)
    this.#health = new AllocationHealth(alloc, this.#group, { timers, wall, tasks: this.#tasks, decided })
  }

  #filesOf(spec: TaskSpec): TaskFiles {
    const { alloc } = this
    const { timers, random, variable, issue, watchVariables } = this.#seams
    return new TaskFiles(spec, {
      timers,
      random,
      files: this.files,
      namespace: alloc.Namespace,
      env: { NOMAD_ALLOC_ID: alloc.ID, NOMAD_JOB_ID: alloc.JobID, NOMAD_TASK_NAME: spec.Name, NOMAD_GROUP_NAME: alloc.TaskGroup },
      variable: (path) => variable(alloc, spec.Name, path),
      issue: (identity) => issue(alloc, spec.Name, identity),
      watch: watchVariables,
      task: () => this.#named(spec.Name),
    })
  }

  start(): void {
    this.#health.start()
    this.#progress()
  }

  /** A deployment may have updated it in place. */
  watchHealth(): void {
    if (!this.#stopping) this.#health.watch()
  }

  get report(): ClientReport {
    const [status, description] = statusOf(this.#tasks.map((task) => task.state))
    const tasks = Object.fromEntries(this.#tasks.map((task) => [task.name, task.state]))
    return structuredClone({ status, description, tasks, health: this.#health.verdict })
  }

  get checks(): AllocationHealth['checks'] {
    return this.#health.checks
  }

  /** Restarts one task, all running ones (there may be none, and that is no fault: measured), or all (facts §4); resolves when the
   *  old processes have ended. Only who restarts one task does not wait for the group's shutdown_delay. */
  async restart(taskName: string, all: boolean): Promise<void> {
    if (taskName !== '') return this.#named(taskName).restart('User requested task to restart')
    if (this.#stopping || this.over) throw new Error('restart of an alloc that should not run')
    if (all) this.#coordinator.restart()
    await this.#shutdownDelay()
    const reason = all ? 'User requested all tasks to restart' : 'User requested running tasks to restart'
    const ending = this.#tasks.filter((task) => task.restartable).map((task) => task.restart(reason))
    if (all) for (const task of this.#tasks) if (task.dead && task.stage !== 'poststop') task.runAgain()
    await Promise.all(ending)
  }

  // Of every group, with or without services; one after another (Nomad's client/allocrunner/group_service_hook.go).
  #shutdownDelay(): Promise<void> {
    const delayMs = milliseconds(this.#group.ShutdownDelay ?? 0)
    if (delayMs > 0) this.#delay = this.#delay.then(() => this.#seams.timers.wait(delayMs))
    return this.#delay
  }

  /** Throws when the task, or without a name any of them, is not running. */
  signal(taskName: string, signal: string): void {
    if (taskName !== '') return this.#named(taskName).signal(signal)
    const dead: string[] = []
    for (const task of this.#tasks) {
      if (task.alive) task.signal(signal)
      else dead.push(`Failed to signal task: ${task.name}, err: ${NOT_RUNNING}`)
    }
    if (dead.length > 0) throw new Error(listed(dead))
  }

  crash(taskName: string | undefined, exitCode: number): void {
    const task = taskName === undefined ? this.#tasks.find((one) => one.stage === 'main') : this.#named(taskName)
    task?.crash(exitCode, signalOf(exitCode))
  }

  /** Running processes take their config as it is now. */
  reread(): void {
    for (const task of this.#tasks) task.reread()
    this.#health.judge()
  }

  stop(): void {
    if (this.#stopping) return
    this.#stopping = true
    this.#health.unwatch()
    void this.#killTasks()
    this.#progress()
  }

  /** The agent's process ends. Tasks run on, but nothing looks after them. */
  detach(): void {
    if (this.#closed) return
    this.#detached = true
    this.#health.close()
    for (const files of this.#taskFiles.values()) files.detach()
  }

  /** It is there again: checks and the decision on health begin anew. */
  restore(): void {
    if (this.#closed) return
    this.#detached = false
    if (!this.#stopping) this.#health.start()
    for (const files of this.#taskFiles.values()) files.restore()
    this.#progress()
  }

  renewVaultToken(taskName: string): void {
    this.#taskFiles.get(this.#named(taskName).name)?.renewVaultToken()
  }

  /** The machine is gone. */
  vanish(): void {
    this.#close()
    for (const task of this.#tasks) task.vanish()
  }

  #named(name: string): Task {
    const task = this.#tasks.find((one) => one.name === name)
    if (task === undefined) throw new Error(`Could not find task runner for task: ${name}`)
    return task
  }

  /** All its tasks have ended. */
  get over(): boolean {
    return this.#tasks.every((task) => task.dead)
  }

  // What a change of one task means for the others.
  #progress(): void {
    if (this.#closed) return
    const live = this.#tasks.filter((task) => task.stage !== 'poststop' && !task.dead)
    const failed = this.#tasks.some((task) => task.dead && task.state.Failed)
    if (failed) this.#stopping = true
    if (live.length > 0 && (failed || live.every((task) => isSidecar(task.stage)))) void this.#killTasks()
    this.#wake()
    this.#health.judge()
    this.#seams.changed(this)
    if (this.over) this.#close()
  }

  #wake(): void {
    if (this.#closed || this.#detached) return
    this.#coordinator.look()
    // Each start and each end wakes others in turn.
    for (const task of this.#tasks) {
      if (!task.waiting) continue
      if (this.#killing && task.stage !== 'poststop') void task.kill()
      else if (this.#coordinator.allows(task.stage)) task.start()
    }
  }

  // Sidecars last, poststop tasks not at all.
  async #killTasks(): Promise<void> {
    if (this.#killing) return
    this.#killing = true
    await this.#shutdownDelay()
    this.#health.close()
    const kill = (sidecars: boolean): Promise<unknown> =>
      Promise.all(
        this.#tasks.filter(({ stage }) => stage !== 'poststop' && isSidecar(stage) === sidecars).map((task) => task.kill()),
      )
    await kill(false)
    await kill(true)
  }

  #close(): void {
    this.#closed = true
    this.#health.close()
  }
}

// As Nomad's client sums it up.
function statusOf(tasks: readonly TaskState[]): [ClientStatus, string] {
  if (tasks.some((task) => task.Failed)) return ['failed', 'Failed tasks']
  if (tasks.some((task) => task.State === 'running')) return ['running', 'Tasks are running']
  if (tasks.some((task) => task.State === 'pending')) return ['pending', 'No tasks have started']
  return ['complete', 'All tasks have completed']
}
