import { formatDuration } from '../../core/duration.ts'
import { milliseconds, nanoseconds, type TaskState } from '../cluster/shapes.ts'
import { isSidecar, type Stage } from './coordinator.ts'
import { behaviour, type Behaviour, type DevConfig } from './dev-config.ts'
import { ProcessHealth } from './process-health.ts'
import { RestartTracker } from './restart-policy.ts'
import { exitCodeOf, signalNumber } from './signals.ts'
import { TaskRecord } from './task-record.ts'
import type { Task as Spec } from '../cluster/shapes.ts'
import type { Timers } from '../timers.ts'

export type TrueEvent = 'starting' | 'running' | 'healthy' | 'unhealthy' | 'stopping' | 'dead' | 'script'

export interface TaskSeams {
  readonly timers: Timers
  readonly now: () => number
  readonly wall: () => number
  /** As `wall`, but never twice the same (see moments.ts). */
  readonly moment: () => string
  /** As it was when its machine died. */
  readonly before: TaskState | undefined
  /** The config as it would be read now. */
  readonly config: () => DevConfig
  readonly tell: (event: TrueEvent) => void
  /** Something that the servers shall know has changed. */
  readonly changed: () => void
  /** It is to be started as soon as its stage may. */
  readonly waits: () => void
  /** Writes what the task needs before it starts, and calls when that is done. */
  readonly prepare: (begin: () => void) => void
  /** It will not start again. */
  readonly over: () => void
}

export const NOT_RUNNING = 'Task not running'
/** More than this no client grants (its `max_kill_timeout`). */
const MAX_KILL_TIMEOUT = 30e9
const KILLED = signalNumber('SIGKILL')

type Phase = 'waiting' | 'starting' | 'running' | 'stopping' | 'delayed' | 'dead'

/** One simulated task: at most one process at a time, and what becomes of it. Config is read at each start, as a process
 *  reads its files. */
export class Task {
  readonly name: string
  readonly stage: Stage
  readonly #spec: Spec
  readonly #seams: TaskSeams
  readonly #record: TaskRecord
  readonly #health: ProcessHealth
  readonly #tracker: RestartTracker
  /** Exit code 0 is an end, not a reason to restart. */
  readonly #mayFinish: boolean
  #phase: Phase = 'waiting'
  #behaviour: Behaviour
  #starts = 0
  #then: 'restart' | 'die' = 'die'
  #fails = false
  #gone: Promise<void> = Promise.resolve()
  #exited: () => void = () => {}
  #cancels: (() => void)[] = []

  constructor(spec: Spec, stage: Stage, batch: boolean, seams: TaskSeams) {
    this.name = spec.Name
    this.stage = stage
    this.#spec = spec
    this.#seams = seams
    this.#record = new TaskRecord(seams.wall, seams.moment, seams.before)
    this.#health = new ProcessHealth(seams)
    this.#tracker = new RestartTracker(spec.RestartPolicy)
    this.#mayFinish = !isSidecar(stage) && (batch || stage !== 'main')
    this.#behaviour = this.#read()
    this.#record.event('Received', 'Task received by client')
  }

  get state(): TaskState {
    return this.#record.state
  }

  get running(): boolean {
    return this.#phase === 'running'
  }

  /** Nomad asks for what it has written down: so one that is ending may be restarted, one that waits to be told not. */
  get restartable(): boolean {
    return this.state.State === 'running'
  }

  /** There is a process, though perhaps one that is ending. */
  get alive(): boolean {
    return this.#phase === 'running' || this.#phase === 'stopping'
  }

  /** Whether its checks would pass this moment. */
  get healthy(): boolean {
    return this.#phase === 'running' && this.#health.healthy
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
    if (!this.restartable) throw new Error(NOT_RUNNING)
    if (this.#phase === 'stopping') return this.#gone
    this.#record.event('Restart Signaled', reason, { RestartReason: reason, Details: { restart_reason: reason } })
    return this.#end('restart')
  }

  /** A task that has finished runs once more. */
  runAgain(): void {
    this.#record.restarting('0s', 0)
    this.#wait()
  }

  /** Throws when there is no process. */
  signal(signal: string, text = 'Task being sent a signal'): void {
    if (!this.alive) throw new Error(NOT_RUNNING)
    this.#record.event('Signaling', text, { Details: { signal } })
    if (this.#behaviour.onSignal === 'reload') this.reread()
    const number = signalNumber(signal)
    if (this.#behaviour.onSignal === 'exit') this.crash(exitCodeOf(number), number)
    else this.#seams.changed()
  }

  /** Runs a script in its process's surroundings, and says how that will end. Throws when there is no process. */
  exec(): { takesMs: number; exitCode: number } {
    if (!this.alive) throw new Error(NOT_RUNNING)
    this.#seams.tell('script')
    return { takesMs: this.#behaviour.scriptTakesMs, exitCode: this.#behaviour.scriptExitCode }
  }

  note(type: string, text: string): void {
    this.#record.event(type, text)
    this.#seams.changed()
  }

  /** Ends it for good; resolves when there is no process any more. With a `failure` the task has failed, for that. */
  kill(failure?: string): Promise<void> {
    if (this.#phase === 'dead') return Promise.resolve()
    if (failure !== undefined) {
      this.#fails = true
      this.#record.event('Killing', failure, { FailsTask: true })
    }
    switch (this.#phase) {
      case 'stopping':
        this.#then = 'die'
        return this.#gone
      case 'running':
        if (failure === undefined) this.#record.killing(this.#killTimeout)
        void this.#end('die', this.#spec.ShutdownDelay)
        this.#seams.changed()
        return this.#gone
      case 'waiting':
      case 'starting':
      case 'delayed':
        if (this.#phase === 'starting') this.#seams.tell('dead')
        this.#die(false)
        this.#seams.changed()
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
    if (this.#phase === 'running') this.#health.reread(this.#behaviour)
  }

  #read(): Behaviour {
    return behaviour(this.#seams.config(), this.stage !== 'main' && !isSidecar(this.stage))
  }

  #running(): void {
    this.#phase = 'running'
    this.#record.started()
    this.#seams.tell('running')
    this.#health.started(this.#behaviour)
    const { exitAfterMs, exitCode } = this.#behaviour
    if (exitAfterMs !== null) this.#later(exitAfterMs, () => this.#ended(exitCode, 0))
    this.#seams.changed()
  }

  #end(then: 'restart' | 'die', delay = 0): Promise<void> {
    this.#clear()
    this.#phase = 'stopping'
    this.#then = then
    this.#gone = new Promise((resolve) => (this.#exited = resolve))
    if (delay === 0) this.#interrupt()
    else {
      this.#record.delaying(delay)
      this.#later(milliseconds(delay), () => this.#interrupt())
    }
    return this.#gone
  }

  get #killTimeout(): number {
    return Math.min(this.#spec.KillTimeout, MAX_KILL_TIMEOUT)
  }

  // It is asked to end, and made to when it takes too long.
  #interrupt(): void {
    this.#seams.tell('stopping')
    const { stopAfterMs } = this.#behaviour
    const timeoutMs = milliseconds(this.#killTimeout)
    const signal = stopAfterMs > timeoutMs ? KILLED : signalNumber(this.#spec.KillSignal)
    this.#later(Math.min(stopAfterMs, timeoutMs), () => {
      this.#clear()
      this.#record.ended(exitCodeOf(signal), signal)
      this.#seams.tell('dead')
      if (this.#then === 'die') this.#die(false)
      else {
        this.#record.restarting('0s', 0)
        this.#wait()
      }
      this.#exited()
      this.#seams.changed()
    })
  }

  #wait(): void {
    this.#phase = 'waiting'
    this.#seams.waits()
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
    this.#later(verdict.afterMs, () => this.#wait())
  }

  #die(failed: boolean): void {
    const killed = this.#phase === 'stopping'
    this.#clear()
    this.#phase = 'dead'
    this.#seams.over()
    if (killed) this.#record.event('Killed', 'Task successfully killed')
    this.#record.dead(failed || this.#fails)
  }

  #later(ms: number, work: () => void): void {
    this.#cancels.push(this.#seams.timers.after(ms, work))
  }

  #clear(): void {
    this.#health.ended()
    for (const cancel of this.#cancels.splice(0)) cancel()
  }
}
