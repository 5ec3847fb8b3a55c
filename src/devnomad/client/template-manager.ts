import { milliseconds, type ChangeScript, type Template } from '../cluster/shapes.ts'
import type { Timers } from '../timers.ts'
import type { AllocationFiles } from './files.ts'
import type { Task } from './task.ts'
import { render, type ReadVariable } from './template.ts'

export interface TemplateSeams {
  readonly timers: Timers
  readonly random: () => number
  readonly files: AllocationFiles
  readonly namespace: string
  readonly env: Readonly<Record<string, string>>
  readonly variable: ReadVariable
  /** Calls whenever a variable may have changed. Returns what ends it. */
  readonly watch: (listener: () => void) => () => void
  readonly task: () => Task
  /** All templates have been rendered for the first time. */
  readonly rendered: () => void
}

/** Nomad's `template.wait`: a change is written when nothing has changed for this long … (measured: 5.05 s) */
const QUIET_MS = 5_000
/** … or this long after the first. */
const MOST_MS = 240_000
const MISSING_EVENT_MS = 3_000
/** A script that was killed for its timeout. */
const NO_EXIT_CODE = -1

/** Renders the templates of one task, and does what their change modes say. All that it has not done yet is in memory: when
 *  the agent ends, it is lost (facts §8). */
export class TemplateManager {
  readonly #seams: TemplateSeams
  readonly #templates: readonly Template[]
  readonly #unhandled = new Set<Template>()
  readonly #cancels = new Set<() => void>()
  #rendered = false
  #handling = false
  #closed = false
  #unwatch: (() => void) | undefined
  #waiting: { cancel: () => void; waitedMs: number; forText: string } | undefined

  constructor(templates: readonly Template[], seams: TemplateSeams) {
    this.#templates = templates
    this.#seams = seams
  }

  get rendered(): boolean {
    return this.#rendered
  }

  start(): void {
    if (this.#templates.length > 0) this.#unwatch = this.#seams.watch(() => this.#changed())
    this.#first()
    if (!this.#rendered) this.#later(MISSING_EVENT_MS, () => this.#tellMissing())
  }

  close(): void {
    this.#closed = true
    this.#unwatch?.()
    this.#waiting?.cancel()
    for (const cancel of this.#cancels) cancel()
  }

  // None is written before all of them can be. A process is already there when the agent was restarted: what it has not seen
  // yet is a change.
  #first(): void {
    if (this.#missing().length > 0) return
    this.#rendered = true
    this.#store(this.#outdated(this.#templates), this.#seams.task().alive)
    this.#seams.rendered()
  }

  #missing(): string[] {
    const paths = this.#templates.flatMap((template) => {
      const result = this.#render(template)
      return result.kind === 'missing' ? result.paths : []
    })
    return [...new Set(paths)]
  }

  #tellMissing(): void {
    if (this.#rendered) return
    const names = this.#missing().map((path) => `nomad.var.block(${path}@${this.#seams.namespace}.global)`)
    this.#seams.task().note('Template', `Missing: ${names.join(', ')}`)
  }

  // A variable has changed: perhaps one of ours.
  #changed(): void {
    if (this.#closed) return
    if (!this.#rendered) return this.#first()
    const due = this.#due()
    if (due.length === 0) return
    const forText = JSON.stringify(due.map((template) => this.#render(template)))
    if (forText === this.#waiting?.forText) return
    const waitedMs = this.#waiting?.waitedMs ?? 0
    this.#waiting?.cancel()
    const bounds = due.map(({ Wait }) => Wait).filter((wait) => wait !== null)
    const quietMs = bounds.length > 0 ? Math.min(...bounds.map(({ Min }) => milliseconds(Min))) : QUIET_MS
    const delayMs = Math.max(0, Math.min(quietMs, MOST_MS - waitedMs))
    const cancel = this.#seams.timers.after(delayMs, () => {
      this.#waiting = undefined
      this.#store(this.#due(), true)
    })
    this.#waiting = { cancel, waitedMs: waitedMs + delayMs, forText }
  }

  #due(): Template[] {
    return this.#outdated(this.#templates.filter(({ Once }) => !Once))
  }

  #outdated(templates: readonly Template[]): Template[] {
    return templates.filter((template) => {
      const result = this.#render(template)
      return result.kind === 'rendered' && result.text !== this.#seams.files.read(this.#path(template))
    })
  }

  #store(templates: readonly Template[], changes: boolean): void {
    for (const template of templates) {
      const result = this.#render(template)
      if (result.kind !== 'rendered') continue
      const executable = /[1357]/.test(template.Perms.slice(-3))
      this.#seams.files.write(this.#path(template), result.text, executable ? '-rwxr-xr-x' : '-rw-r--r--')
      if (changes && template.ChangeMode !== 'noop') this.#unhandled.add(template)
    }
    void this.#handle()
  }

  // Files are written at once, but what shall follow waits until the splay, the restart or the script before it is over.
  async #handle(): Promise<void> {
    if (this.#handling) return
    this.#handling = true
    while (this.#unhandled.size > 0 && !this.#closed) {
      const due = [...this.#unhandled]
      this.#unhandled.clear()
      const splayMs = this.#seams.random() * Math.max(...due.map(({ Splay }) => milliseconds(Splay)))
      if (splayMs >= 1) await this.#pause(splayMs)
      await this.#act(due)
    }
    this.#handling = false
  }

  // A restart makes all else needless. What meets no process is lost.
  async #act(due: readonly Template[]): Promise<void> {
    const task = this.#seams.task()
    if (due.some(({ ChangeMode }) => ChangeMode === 'restart')) {
      if (task.restartable) await task.restart('Template with change_mode restart re-rendered')
      return
    }
    for (const signal of new Set(due.flatMap((one) => (one.ChangeMode === 'signal' ? [one.ChangeSignal] : [])))) {
      if (task.alive) task.signal(signal, 'Template re-rendered')
      else task.note('Task hook message', `Template skipped signal ${signal}: task is not running`)
    }
    const scripts = due.flatMap(({ ChangeMode, ChangeScript }) => (ChangeMode === 'script' ? (ChangeScript ?? []) : []))
    await Promise.all(scripts.map((script) => this.#run(script)))
  }

  async #run({ Command, Args, Timeout, FailOnError }: ChangeScript): Promise<void> {
    const task = this.#seams.task()
    const script = `script ${Command} with arguments`
    const args = `[${(Args ?? []).join(' ')}]`
    const failed = (text: string): void => {
      task.note('Task hook failed', text)
      if (FailOnError) void task.kill('Template script failed, task is being killed')
    }
    if (!task.alive) return failed(`Template failed to run ${script} ${args} on change: Task not running. Exit code: 0`)
    const { takesMs, exitCode } = task.exec()
    const timeoutMs = milliseconds(Timeout)
    if (takesMs > 0) await this.#pause(Math.min(takesMs, timeoutMs))
    const code = takesMs > timeoutMs ? NO_EXIT_CODE : exitCode
    if (code === 0) task.note('Task hook message', `Template successfully ran ${script}: ${args}. Exit code: 0`)
    else failed(`Template ran ${script} ${args} on change but it exited with code: ${code}`)
  }

  #render(template: Template): ReturnType<typeof render> {
    return render(template.EmbeddedTmpl, this.#seams.variable, this.#seams.env)
  }

  #path({ DestPath }: Template): string {
    const inTask = DestPath.replace(/^\$\{NOMAD_TASK_DIR\}/, 'local').replace(/^\$\{NOMAD_SECRETS_DIR\}/, 'secrets')
    return `/${this.#seams.task().name}/${inTask}`
  }

  #later(ms: number, work: () => void): void {
    const cancel = this.#seams.timers.after(ms, () => {
      this.#cancels.delete(cancel)
      work()
    })
    this.#cancels.add(cancel)
  }

  /** Never over, when it is closed before. */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#later(ms, resolve))
  }
}
