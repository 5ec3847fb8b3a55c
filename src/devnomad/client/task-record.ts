import { formatDuration } from '../../core/duration.ts'
import { milliseconds, nanoseconds, timestamp, type TaskEvent, type TaskState } from '../cluster/shapes.ts'

const EVENTS_KEPT = 10

/** What a task's own node has written down of it, in the shape that the servers will be told. */
export class TaskRecord {
  readonly state: TaskState
  readonly #wall: () => number
  readonly #moment: () => string

  /** `before`: what is on the disk of a machine that was off. */
  constructor(wall: () => number, moment: () => string, before: TaskState | undefined) {
    this.#wall = wall
    this.#moment = moment
    this.state = {
      State: 'pending',
      Failed: false,
      Restarts: before?.Restarts ?? 0,
      LastRestart: before?.LastRestart ?? null,
      StartedAt: before?.StartedAt ?? null,
      FinishedAt: null,
      Paused: '',
      Events: [],
    }
  }

  /** Only the last ten are kept (facts §4). */
  event(type: string, message: string, more: Partial<TaskEvent> = {}): void {
    this.state.Events.push({
      Details: {},
      DiskLimit: 0,
      DisplayMessage: message,
      ExitCode: 0,
      FailsTask: false,
      KillTimeout: 0,
      Message: '',
      RestartReason: '',
      Signal: 0,
      StartDelay: 0,
      Time: nanoseconds(this.#wall()),
      Type: type,
      ...more,
    })
    if (this.state.Events.length > EVENTS_KEPT) this.state.Events.shift()
  }

  started(): void {
    this.event('Started', 'Task started by client')
    this.state.State = 'running'
    this.state.StartedAt = this.#moment()
  }

  /** It is told to end, and will be made to after the timeout. "Interrupt" whatever the signal is. */
  killing(timeout: number): void {
    const after = formatDuration(milliseconds(timeout))
    const text = timeout === 0 ? 'Sent interrupt' : `Sent interrupt. Waiting ${after} before force killing`
    this.event('Killing', text, { KillTimeout: timeout, Details: { kill_timeout: after } })
  }

  /** While it waits to be told, its process runs on, but Nomad calls it pending. */
  delaying(delay: number): void {
    const text = `Waiting for shutdown_delay of ${formatDuration(milliseconds(delay))} before killing the task.`
    this.event('Waiting for shutdown delay', text)
    this.state.State = 'pending'
  }

  ended(exitCode: number, signal: number): void {
    const message = signal === 0 ? `Exit Code: ${exitCode}` : `Exit Code: ${exitCode}, Signal: ${signal}`
    const Details = { exit_code: String(exitCode), signal: String(signal), oom_killed: 'false' }
    this.event('Terminated', message, { ExitCode: exitCode, Signal: signal, Details })
  }

  /** Counted when the old process is gone; StartedAt moves only with the new one. */
  restarting(delay: string, delayNanoseconds: number): void {
    const Details = { start_delay: String(delayNanoseconds) }
    this.event('Restarting', `Task restarting in ${delay}`, { StartDelay: delayNanoseconds, Details })
    this.state.State = 'pending'
    this.state.Failed = false
    this.state.Restarts += 1
    this.state.LastRestart = timestamp(this.#wall())
  }

  dead(failed: boolean): void {
    this.state.State = 'dead'
    this.state.Failed = failed
    this.state.FinishedAt = timestamp(this.#wall())
  }
}
