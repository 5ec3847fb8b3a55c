import { formatDuration } from '../../core/duration.ts'
import { nanoseconds, type TaskState } from '../cluster/shapes.ts'
import type { Change } from './task-files.ts'
import { behaviour, type Behaviour, type DevConfig } from './dev-config.ts'
import { RestartTracker } from './restart-policy.ts'
import { TaskRecord } from './task-record.ts'
import type { Task as Spec } from '../cluster/shapes.ts'
import type { Timers } from '../timers.ts'

export type TrueEvent = 'starting' | 'running' | 'healthy' | 'unhealthy' | 'stopping' | 'dead' | 'script'
export type Role = 'prestart' | 'sidecar' | 'main' | 'poststart' | 'poststop'

export interface TaskSeams {
  readonly timers: Timers
  readonly now: () => number
  readonly wall: () => number
  /** As `wall`, but never twice the same (see moments.ts). */
  readonly moment: () => string
  /** The config as it would be read now. */
  readonly config: () => DevConfig
  readonly tell: (event: TrueEvent) => void
  /** Something that the servers shall know has changed. */
  readonly changed: () => void
  /** Writes what the task needs before it starts, and calls when that is done. */
  readonly prepare: (begin: () => void) => void
  /** It will not start again. */
  readonly over: () => void
}

type Phase = 'waiting' | 'starting' | 'running' | 'stopping' | 'delayed' | 'dead'

/** One simulated task: at most one process at a time, and what becomes of it. Config is read at each start, as a process
 *  reads its files. */
export class Task {
  readonly name: string
  readonly role: Role
  readonly #seams: TaskSeams
  readonly #record: TaskRecord
  readonly #tracker: RestartTracker
  /** Exit code 0 is an end, not a reason to restart. */
  readonly #mayFinish: boolean
  #phase: Phase = 'waiting'
  #behaviour: Behaviour
  #healthy = false
  #startedAt = 0
  #starts = 0
  #then: 'restart' | 'die' = 'die'
  #gone: Promise<void> = Promise.resolve()
  #exited: () => void = () => {}
  #cancels: (() => void)[] = []
  #cancelHealth: () => void = () => {}

  constructor(spec: Spec, role: Role, batch: boolean, seams: TaskSeams) {
    this.name = spec.Name
    this.role = role
    this.#seams = seams
    this.#record = new TaskRecord(seams.wall, seams.moment)
    this.#tracker = new RestartTracker(spec.RestartPolicy)
    this.#mayFinish = role !== 'sidecar' && (batch || role !== 'main')
    this.#behaviour = this.#read()
    this.#record.event('Received', 'Task received by client')
  }

  get state(): TaskState {
    return this.#record.state
  }

  get running(): boolean {
    return this.#phase === 'running'
  }

  /** Running, or on its way into a restart that another one may join. */
  get restartable(): boolean {
    return this.#phase === 'running' || (this.#phase === 'stopping' && this.#then === 'restart')
  }

  /** Whether its checks would pass this moment. */
  get healthy(): boolean {
    return this.#phase === 'running' && this.#healthy
  }

  get waiting(): boolean {
    return this.#phase === 'waiting'
  }

  get dead(): boolean {
    return this.#phase === 'dead'
  }

  start(): void {
    this.#phase = 'starting'
    this.#behaviour = this.#read()
    this.#seams.tell('starting')
    if (this.state.StartedAt === null) {
      const Message = 'Building Task Directory'
      this.#record.event('Task Setup', Message, { Message, Details: { message: Message } })
    }
    const start = (this.#starts += 1)
    this.#seams.prepare(() => {
      if (this.#phase !== 'starting' || start !== this.#starts) return
      this.#later(this.#behaviour.startAfterMs, () => this.#running())
    })
  }

  /** Resolves when the old process has ended; that says nothing about the new one. Two at once are one restart.
   *  Throws when there is no process (facts §4). */
  restart(reason: string): Promise<void> {
    if (!this.restartable) throw new TaskNotRunning()
    if (this.#phase === 'stopping') return this.#gone
    this.#record.event('Restart Signaled', reason, { RestartReason: reason, Details: { restart_reason: reason } })
    return this.#end('restart')
  }

  /** A task that has finished runs once more. */
  runAgain(): void {
    this.#record.restarting('0s', 0)
    this.start()
  }

  signal(signal: string): void {
    if (this.#phase !== 'running') throw new TaskNotRunning()
    this.#signaled(`Task being sent signal ${signal}: User requested task to be signaled`)
  }

  #signaled(text: string): void {
    this.#record.event('Signaling', text)
    if (this.#behaviour.onSignal === 'reload') this.reread()
    if (this.#behaviour.onSignal === 'exit') this.crash(0, 1)
    else this.#seams.changed()
  }

  /** One of its files has changed. Kept nowhere: what meets no running process is lost, or kills the task when it comes of
   *  an identity (facts §8). */
  filesChanged(change: Change): void {
    if (this.#phase !== 'running') {
      if (change.from === 'identity') this.#failed()
      else if (change.mode !== 'restart') this.note('Task hook message', `Template skipped ${change.mode}: task is not running`)
      return
    }
    switch (change.mode) {
      case 'restart':
        void this.restart(change.from === 'template' ? 'Template with change_mode restart re-rendered' : 'Identity renewed')
        return
      case 'signal':
        this.#signaled('Template re-rendered')
        return
      case 'script':
        this.#seams.tell('script')
        this.note(
          'Task hook message',
          `Template successfully ran script ${change.command} with arguments: [${change.args.join(' ')}]. Exit code: 0`,
        )
    }
  }

  #failed(): void {
    this.#record.event('Killing', 'Identity failed to act on its change', { FailsTask: true })
    this.#die(true)
    this.#seams.changed()
  }

  note(type: string, text: string): void {
    this.#record.event(type, text)
    this.#seams.changed()
  }

  /** Ends it for good. */
  kill(): Promise<void> {
    switch (this.#phase) {
      case 'stopping':
        this.#then = 'die'
        return this.#gone
      case 'running':
        this.#record.event('Killing', 'Sent interrupt. Waiting 5s before force killing', { KillTimeout: 5e9 })
        return this.#end('die')
      case 'waiting':
      case 'starting':
      case 'delayed':
        if (this.#phase === 'starting') this.#seams.tell('dead')
        this.#die(false)
        return Promise.resolve()
      case 'dead':
        return Promise.resolve()
    }
  }

  /** The process ends by itself, now. */
  crash(exitCode: number, signal = 0): void {
    if (this.#phase !== 'running' && this.#phase !== 'starting') return
    this.#ended(exitCode, signal)
  }

  /** The machine is gone: nothing is recorded any more, it just ends. */
  vanish(): void {
    this.#clear()
    if (this.#phase === 'running' || this.#phase === 'starting' || this.#phase === 'stopping') this.#seams.tell('dead')
    this.#phase = 'dead'
    this.#seams.over()
    this.#exited()
  }

  /** The running process takes its config as it is now. */
  reread(): void {
    this.#behaviour = this.#read()
    if (this.#phase === 'running') this.#health()
  }

  #read(): Behaviour {
    return behaviour(this.#seams.config(), this.role !== 'sidecar' && this.role !== 'main')
  }

  #running(): void {
    this.#phase = 'running'
    this.#startedAt = this.#seams.now()
    this.#record.started()
    this.#seams.tell('running')
    this.#healthy = false
    this.#health()
    const { exitAfterMs, exitCode } = this.#behaviour
    if (exitAfterMs !== null) this.#later(exitAfterMs, () => this.#ended(exitCode, 0))
    this.#seams.changed()
  }

  #health(): void {
    this.#cancelHealth()
    const { healthy, healthyAfterMs } = this.#behaviour
    if (!healthy) {
      this.#healthy = false
      this.#seams.tell('unhealthy')
    } else if (!this.#healthy) {
      const remaining = Math.max(0, this.#startedAt + healthyAfterMs - this.#seams.now())
      this.#cancelHealth = this.#seams.timers.after(remaining, () => {
        this.#healthy = true
        this.#seams.tell('healthy')
      })
    }
  }

  #end(then: 'restart' | 'die'): Promise<void> {
    this.#clear()
    this.#phase = 'stopping'
    this.#then = then
    this.#seams.tell('stopping')
    this.#gone = new Promise((resolve) => (this.#exited = resolve))
    this.#later(this.#behaviour.stopAfterMs, () => {
      this.#clear()
      this.#record.ended(130, 2)
      this.#seams.tell('dead')
      if (this.#then === 'die') this.#die(false)
      else {
        this.#record.restarting('0s', 0)
        this.start()
      }
      this.#exited()
      this.#seams.changed()
    })
    return this.#gone
  }

  // Nobody asked for it.
  #ended(exitCode: number, signal: number): void {
    this.#clear()
    this.#record.ended(exitCode, signal)
    this.#seams.tell('dead')
    if (exitCode === 0 && signal === 0 && this.#mayFinish) this.#die(false)
    else this.#byPolicy()
    this.#seams.changed()
  }

  #byPolicy(): void {
    const verdict = this.#tracker.ended(this.#seams.now())
    if (verdict.kind === 'fail') {
      this.#record.event('Not Restarting', verdict.why, { FailsTask: true })
      this.#die(true)
      return
    }
    this.#phase = 'delayed'
    this.#record.restarting(formatDuration(verdict.afterMs), nanoseconds(verdict.afterMs))
    this.#later(verdict.afterMs, () => this.start())
  }

  #die(failed: boolean): void {
    const killed = this.#phase === 'stopping'
    this.#clear()
    this.#phase = 'dead'
    this.#seams.over()
    if (killed) this.#record.event('Killed', 'Task successfully killed')
    this.#record.dead(failed)
  }

  #later(ms: number, work: () => void): void {
    this.#cancels.push(this.#seams.timers.after(ms, work))
  }

  #clear(): void {
    this.#cancelHealth()
    this.#healthy = false
    for (const cancel of this.#cancels.splice(0)) cancel()
  }
}

export class TaskNotRunning extends Error {
  constructor() {
    super('Task not running')
    this.name = 'TaskNotRunning'
  }
}
