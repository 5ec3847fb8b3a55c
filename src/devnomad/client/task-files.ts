import { milliseconds, type Identity, type Template, type Task as TaskSpec } from '../cluster/shapes.ts'
import type { Timers } from '../timers.ts'
import type { AllocationFiles } from './files.ts'
import { render, type ReadVariable } from './template.ts'

/** What a changed file does to its task. */
export interface Change {
  readonly mode: 'restart' | 'signal' | 'script'
  readonly from: 'template' | 'identity'
  readonly signal: string
  readonly command: string
  readonly args: readonly string[]
}

export interface TaskFilesSeams {
  readonly timers: Timers
  readonly random: () => number
  readonly files: AllocationFiles
  readonly namespace: string
  readonly env: Readonly<Record<string, string>>
  readonly variable: ReadVariable
  readonly issue: (identity: Identity) => string
  /** Calls whenever a variable may have changed. Returns what ends it. */
  readonly watch: (listener: () => void) => () => void
  readonly act: (change: Change) => void
  readonly event: (type: string, text: string) => void
}

/** Nomad's `template.wait`: a change is written when nothing has changed for this long … (measured: 5.05 s) */
const QUIET_MS = 5_000
/** … or this long after the first. */
const MOST_MS = 240_000
const MISSING_EVENT_MS = 3_000

/** The files that Nomad writes for one task: its directories, identities and rendered templates (facts §7, §8, §9). */
export class TaskFiles {
  readonly #seams: TaskFilesSeams
  readonly #name: string
  readonly #identities: readonly Identity[]
  readonly #templates: readonly Template[]
  readonly #renewals = new Set<() => void>()
  #begin: (() => void) | undefined
  #prepared = false
  #unwatch: (() => void) | undefined
  #waiting: { cancel: () => void; waitedMs: number; forText: string } | undefined
  #cancels: (() => void)[] = []

  constructor(spec: TaskSpec, seams: TaskFilesSeams) {
    this.#seams = seams
    this.#name = spec.Name
    this.#identities = [spec.Identity, ...(spec.Identities ?? [])]
    this.#templates = spec.Templates ?? []
    for (const name of ['', '/local', '/private', '/secrets', '/tmp']) seams.files.directory(`/${spec.Name}${name}`)
  }

  /** Before each start: identities are written anew. Before the first, all templates must have been rendered; `begin` is
   *  called when they have. */
  prepare(begin: () => void): void {
    for (const cancel of this.#renewals) cancel()
    this.#renewals.clear()
    for (const identity of this.#identities) this.#write(identity, false)
    if (this.#prepared) return begin()
    const secrets = `/${this.#name}/secrets`
    this.#seams.files.write(`${secrets}/.nomad-mount`, '')
    this.#seams.files.write(`${secrets}/api.sock`, '', 'Srw-rw-rw-')
    this.#begin = begin
    if (this.#templates.length > 0) this.#unwatch ??= this.#seams.watch(() => this.#changed())
    this.#first(true)
  }

  close(): void {
    this.#begin = undefined
    this.#unwatch?.()
    this.#unwatch = undefined
    this.#waiting?.cancel()
    this.#waiting = undefined
    for (const cancel of [...this.#cancels, ...this.#renewals]) cancel()
    this.#cancels = []
    this.#renewals.clear()
  }

  #first(isNew: boolean): void {
    const missing = this.#templates.flatMap((template) => {
      const result = this.#render(template)
      return result.kind === 'missing' ? result.paths : []
    })
    if (missing.length > 0) {
      const names = [...new Set(missing)].map((path) => `nomad.var.block(${path}@${this.#seams.namespace}.global)`)
      const tell = (): void => {
        if (!this.#prepared) this.#seams.event('Template', `Missing: ${names.join(', ')}`)
      }
      if (isNew) this.#cancels.push(this.#seams.timers.after(MISSING_EVENT_MS, tell))
      return
    }
    for (const template of this.#templates) this.#store(template)
    this.#prepared = true
    this.#begin?.()
    this.#begin = undefined
  }

  // A variable has changed: perhaps one of ours.
  #changed(): void {
    if (!this.#prepared) return this.#first(false)
    const due = this.#outdated()
    if (due.length === 0) return
    const forText = JSON.stringify(due.map((template) => this.#render(template)))
    if (forText === this.#waiting?.forText) return
    const waitedMs = this.#waiting?.waitedMs ?? 0
    this.#waiting?.cancel()
    const bounds = due.map(({ Wait }) => Wait).filter((wait) => wait !== null)
    const quietMs = bounds.length > 0 ? Math.min(...bounds.map(({ Min }) => milliseconds(Min))) : QUIET_MS
    const delayMs = Math.max(0, Math.min(quietMs, MOST_MS - waitedMs))
    const cancel = this.#seams.timers.after(delayMs, () => this.#rerender())
    this.#waiting = { cancel, waitedMs: waitedMs + delayMs, forText }
  }

  #rerender(): void {
    this.#waiting = undefined
    const due = this.#outdated()
    for (const template of due) this.#store(template)
    const acting = due.filter(({ ChangeMode }) => ChangeMode !== 'noop')
    if (acting.length === 0) return
    const splayMs = this.#seams.random() * Math.max(...acting.map(({ Splay }) => milliseconds(Splay)))
    const act = (): void => {
      for (const change of changesOf(acting)) this.#seams.act(change)
    }
    if (splayMs < 1) act()
    else this.#cancels.push(this.#seams.timers.after(splayMs, act))
  }

  #outdated(): Template[] {
    return this.#templates.filter((template) => {
      if (template.Once) return false
      const result = this.#render(template)
      return result.kind === 'rendered' && result.text !== this.#seams.files.read(this.#path(template))
    })
  }

  #render(template: Template): ReturnType<typeof render> {
    return render(template.EmbeddedTmpl, this.#seams.variable, this.#seams.env)
  }

  #store(template: Template): void {
    const result = this.#render(template)
    const executable = /[1357]/.test(template.Perms.slice(-3))
    if (result.kind === 'rendered') {
      this.#seams.files.write(this.#path(template), result.text, executable ? '-rwxr-xr-x' : '-rw-r--r--')
    }
  }

  // The file is always fresh; who is told of it is another matter.
  #write(identity: Identity, again: boolean): void {
    const name = identity.Name === 'default' ? 'nomad_token' : `nomad_${identity.Name}.jwt`
    if (identity.File) this.#seams.files.write(`/${this.#name}/secrets/${name}`, this.#seams.issue(identity))
    if (again && (identity.ChangeMode === 'restart' || identity.ChangeMode === 'signal')) {
      const { ChangeMode: mode, ChangeSignal: signal } = identity
      this.#seams.act({ mode, from: 'identity', signal, command: '', args: [] })
    }
    if (identity.TTL <= 0 || (!identity.File && identity.ChangeMode === 'noop')) return
    const cancel = this.#seams.timers.after(milliseconds(identity.TTL) / 2, () => {
      this.#renewals.delete(cancel)
      this.#write(identity, true)
    })
    this.#renewals.add(cancel)
  }

  #path({ DestPath }: Template): string {
    return `/${this.#name}/${DestPath.replace(/^\$\{NOMAD_TASK_DIR\}/, 'local').replace(/^\$\{NOMAD_SECRETS_DIR\}/, 'secrets')}`
  }
}

// A restart makes signals needless; scripts run in any case.
function changesOf(templates: readonly Template[]): Change[] {
  const changes: Change[] = templates.map((template) => ({
    mode: template.ChangeMode as Change['mode'],
    from: 'template',
    signal: template.ChangeSignal,
    command: template.ChangeScript?.Command ?? '',
    args: template.ChangeScript?.Args ?? [],
  }))
  const restart = changes.find(({ mode }) => mode === 'restart')
  const signals = new Map(changes.filter(({ mode }) => mode === 'signal').map((change) => [change.signal, change]))
  const scripts = changes.filter(({ mode }) => mode === 'script')
  return [...scripts, ...(restart === undefined ? signals.values() : [restart])]
}
