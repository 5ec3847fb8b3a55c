import { milliseconds, timestamp, type Allocation, type Group } from '../cluster/shapes.ts'
import type { Timers } from '../timers.ts'
import { Checks } from './checks.ts'
import { HealthWatch } from './health-watch.ts'
import type { Task } from './task.ts'

interface HealthSeams {
  readonly timers: Timers
  readonly wall: () => number
  readonly tasks: readonly Task[]
  /** The servers shall be told. */
  readonly decided: () => void
}

/** How an allocation is: its Nomad checks, and the decision that deployments and drains wait for. */
export class AllocationHealth {
  readonly #alloc: Allocation
  readonly #group: Group
  readonly #seams: HealthSeams
  #checks: Checks | undefined
  #watch: HealthWatch | undefined
  #watchedFor: string | undefined
  #verdict: { readonly healthy: boolean; readonly at: string } | null = null

  constructor(alloc: Allocation, group: Group, seams: HealthSeams) {
    this.#alloc = alloc
    this.#group = group
    this.#seams = seams
  }

  get checks(): Checks['results'] {
    return this.#checks?.results ?? null
  }

  /** What was decided, if anything. */
  get verdict(): { readonly healthy: boolean; readonly at: string } | null {
    return this.#verdict
  }

  /** Begins, or begins anew: only a verdict is kept. */
  start(): void {
    this.#checks = new Checks({ id: this.#alloc.ID, name: this.#alloc.Name }, this.#group, {
      timers: this.#seams.timers,
      wall: this.#seams.wall,
      passes: (task) => this.#passes(task),
      changed: () => this.judge(),
    })
    if (this.#verdict === null) this.#watchedFor = undefined
    this.watch()
  }

  /** Decides whether it is healthy: at the start, and anew when a deployment has updated it in place. */
  watch(): void {
    const { Type } = this.#alloc.Job
    const { DeploymentID } = this.#alloc
    if ((Type !== 'service' && Type !== 'system') || this.#watchedFor === DeploymentID) return
    this.#watchedFor = DeploymentID
    // One that is started anew by its machine has been judged before.
    if (typeof this.#alloc.DeploymentStatus?.Healthy === 'boolean') return
    const rule = this.#rule
    if (rule === null) return
    this.#watch?.close()
    this.#verdict = null
    const bounds = { minHealthyMs: milliseconds(rule.MinHealthyTime), deadlineMs: milliseconds(rule.HealthyDeadline) }
    this.#watch = new HealthWatch(this.#seams.timers, bounds, (healthy) => {
      this.#watch = undefined
      this.#verdict = { healthy, at: timestamp(this.#seams.wall()) }
      this.#seams.decided()
    })
    this.judge()
  }

  /** To be called whenever a task has changed. */
  judge(): void {
    if (this.#watch === undefined) return
    if (this.#seams.tasks.some((task) => task.state.Failed)) this.#watch.saw('failed')
    else if (this.#mains.every((task) => task.running) && this.#checksPass()) this.#watch.saw('up')
    else this.#watch.saw('down')
  }

  /** Nothing is decided any more, but the checks go on. */
  unwatch(): void {
    this.#watch?.close()
    this.#watch = undefined
  }

  close(): void {
    this.#checks?.close()
    this.unwatch()
  }

  get #rule(): Group['Update'] | Group['Migrate'] {
    return this.#alloc.DeploymentID === '' ? this.#group.Migrate : this.#group.Update
  }

  #checksPass(): boolean {
    return this.#rule?.HealthCheck === 'task_states' || (this.#checks?.passing ?? true)
  }

  #passes(taskName: string | undefined): boolean {
    const asked = taskName === undefined ? this.#mains : this.#seams.tasks.filter((task) => task.name === taskName)
    return asked.every((task) => task.healthy)
  }

  get #mains(): Task[] {
    return this.#seams.tasks.filter((task) => task.stage === 'main')
  }
}
