import {
  groupOf,
  milliseconds,
  timestamp,
  type Allocation,
  type ClientStatus,
  type Group,
  type Identity,
  type TaskState,
} from '../cluster/shapes.ts'
import type { Timers } from '../timers.ts'
import { Checks } from './checks.ts'
import type { DevConfig } from './dev-config.ts'
import { AllocationFiles } from './files.ts'
import { HealthWatch } from './health-watch.ts'
import { moments } from './moments.ts'
import { TaskFiles } from './task-files.ts'
import { Task, TaskNotRunning, type Role, type TrueEvent } from './task.ts'
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
  readonly files: AllocationFiles
  #checks: Checks | undefined
  #watch: HealthWatch | undefined
  #health: ClientReport['health'] = null
  #watchedFor: string | undefined
  #stopping = false
  #closed = false

  constructor(alloc: Allocation, seams: RunSeams) {
    this.alloc = alloc
    this.#seams = seams
    this.#group = groupOf(alloc.Job, alloc.TaskGroup)
    const batch = alloc.Job.Type === 'batch' || alloc.Job.Type === 'sysbatch'
    const moment = moments(seams.wall)
    this.files = new AllocationFiles(alloc.ID, moment)
    this.#tasks = this.#group.Tasks.map((spec) => {
      const files = this.#filesOf(spec)
      const task: Task = new Task(spec, roleOf(spec), batch, {
        timers: seams.timers,
        now: seams.now,
        wall: seams.wall,
        moment,
        config: () => seams.config(alloc, spec),
        tell: (event) => seams.observe({ at: seams.now(), alloc: alloc.ID, name: alloc.Name, task: spec.Name, event }),
        changed: () => this.#progress(),
        prepare: (begin) => files.prepare(begin),
        over: () => files.close(),
      })
      return task
    })
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
      act: (change) => this.#named(spec.Name).filesChanged(change),
      event: (type, text) => this.#named(spec.Name).note(type, text),
    })
  }

  start(): void {
    this.#checks = new Checks({ id: this.alloc.ID, name: this.alloc.Name }, this.#group, {
      timers: this.#seams.timers,
      wall: this.#seams.wall,
      passes: (task) => this.#passes(task),
      changed: () => this.#judge(),
    })
    this.watchHealth()
    this.#progress()
  }

  /** Decides whether it is healthy: at the start, and anew when a deployment has updated it in place. */
  watchHealth(): void {
    const { Type } = this.alloc.Job
    if ((Type !== 'service' && Type !== 'system') || this.#stopping || this.#watchedFor === this.alloc.DeploymentID) return
    this.#watchedFor = this.alloc.DeploymentID
    const rule = this.alloc.DeploymentID === '' ? this.#group.Migrate : this.#group.Update
    if (rule === null) return
    this.#watch?.close()
    this.#health = null
    const bounds = { minHealthyMs: milliseconds(rule.MinHealthyTime), deadlineMs: milliseconds(rule.HealthyDeadline) }
    this.#watch = new HealthWatch(this.#seams.timers, bounds, (healthy) => {
      this.#watch = undefined
      this.#health = { healthy, at: timestamp(this.#seams.wall()) }
      this.#seams.changed(this)
    })
    this.#judge()
  }

  get report(): ClientReport {
    const [status, description] = statusOf(this.#tasks.map((task) => task.state))
    const tasks = Object.fromEntries(this.#tasks.map((task) => [task.name, task.state]))
    return structuredClone({ status, description, tasks, health: this.#health })
  }

  get checks(): Checks['results'] {
    return this.#checks?.results ?? null
  }

  /** Restarts one task, all running ones, or all (facts §4); resolves when the old processes have ended. */
  async restart(taskName: string, all: boolean): Promise<void> {
    if (taskName !== '') {
      await this.#named(taskName).restart('User requested task to restart')
      return
    }
    if (this.#stopping || this.over) throw new Error('restart of an alloc that should not run')
    if (all) for (const task of this.#tasks.filter((one) => one.dead)) task.runAgain()
    const running = this.#tasks.filter((task) => task.restartable)
    if (running.length === 0 && !all) throw new TaskNotRunning()
    const reason = all ? 'User requested all tasks to restart' : 'User requested running tasks to restart'
    await Promise.all(running.map((task) => task.restart(reason)))
  }

  /** Throws when the task, or without a name any of them, is not running. */
  signal(taskName: string, signal: string): void {
    if (taskName !== '') return this.#named(taskName).signal(signal)
    const dead: string[] = []
    for (const task of this.#tasks) {
      if (task.running) task.signal(signal)
      else dead.push(`\t* Failed to signal task: ${task.name}, err: Task not running\n`)
    }
    const head = dead.length === 1 ? '1 error occurred' : `${dead.length} errors occurred`
    if (dead.length > 0) throw new Error(`${head}:\n${dead.join('')}\n`)
  }

  crash(taskName: string | undefined, exitCode: number): void {
    const task = taskName === undefined ? this.#tasks.find((one) => one.role === 'main') : this.#named(taskName)
    task?.crash(exitCode, 9)
  }

  /** Running processes take their config as it is now. */
  reread(): void {
    for (const task of this.#tasks) task.reread()
    this.#judge()
  }

  stop(): void {
    if (this.#stopping) return
    this.#stopping = true
    this.#watch?.close()
    this.#watch = undefined
    for (const task of this.#tasks) if (task.role !== 'poststop') void task.kill()
    this.#progress()
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
    const mains = this.#of('main')
    if (this.#tasks.some((task) => task.state.Failed)) this.#stopping = true
    if (mains.every((task) => task.dead) || this.#stopping) this.#wind()
    else this.#wake()
    this.#judge()
    this.#seams.changed(this)
    if (this.over) this.#close()
  }

  #wake(): void {
    const start = (role: Role): void => {
      for (const task of this.#of(role)) if (task.waiting) task.start()
    }
    start('prestart')
    start('sidecar')
    if (this.#of('prestart').every((task) => task.dead)) start('main')
    if (this.#of('main').every((task) => task.running)) start('poststart')
  }

  #wind(): void {
    for (const task of this.#tasks) if (task.role !== 'poststop') void task.kill()
    const last = this.#of('poststop')
    if (this.#tasks.every((task) => task.role === 'poststop' || task.dead)) {
      for (const task of last) if (task.waiting) task.start()
    }
  }

  #judge(): void {
    if (this.#watch === undefined) return
    const mains = this.#of('main')
    if (this.#tasks.some((task) => task.state.Failed)) this.#watch.saw('failed')
    else if (mains.every((task) => task.running) && this.#checksPass()) this.#watch.saw('up')
    else this.#watch.saw('down')
  }

  #checksPass(): boolean {
    const rule = this.alloc.DeploymentID === '' ? this.#group.Migrate : this.#group.Update
    return rule?.HealthCheck === 'task_states' || (this.#checks?.passing ?? true)
  }

  #passes(taskName: string | undefined): boolean {
    const asked = taskName === undefined ? this.#of('main') : this.#tasks.filter((task) => task.name === taskName)
    return asked.every((task) => task.healthy)
  }

  #of(role: Role): Task[] {
    return this.#tasks.filter((task) => task.role === role)
  }

  #close(): void {
    this.#closed = true
    this.#checks?.close()
    this.#watch?.close()
    this.#watch = undefined
  }
}

function roleOf(spec: TaskSpec): Role {
  if (spec.Lifecycle === null) return 'main'
  if (spec.Lifecycle.Sidecar) return 'sidecar'
  const hook = spec.Lifecycle.Hook
  return hook === 'prestart' || hook === 'poststart' || hook === 'poststop' ? hook : 'main'
}

// As Nomad's client sums it up.
function statusOf(tasks: readonly TaskState[]): [ClientStatus, string] {
  if (tasks.some((task) => task.Failed)) return ['failed', 'Failed tasks']
  if (tasks.some((task) => task.State === 'running')) return ['running', 'Tasks are running']
  if (tasks.some((task) => task.State === 'pending')) return ['pending', 'No tasks have started']
  return ['complete', 'All tasks have completed']
}
