// Shims as processes, each with an act under it: `lockkeeper run … -- node act.js`.
import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import type { ShimEvent } from '../../src/shim/events.ts'
import type { Task } from './act.ts'
import type { Fault } from './journal.ts'

export interface Wish {
  /** The group of the allocation, or the shared semaphore: the name of a history. */
  readonly semaphore: string
  readonly unit: string
  readonly shared: boolean
  readonly wait: string
  readonly thinkMs: number
  readonly nomad: readonly string[]
}

export interface Shim {
  readonly name: string
  readonly wish: Wish
  readonly startedAt: number
  endedAt: number | null
  code: number | null
  signal: string | null
  /** Signals of ours that end it. */
  readonly sent: string[]
}

export interface ShimsDeps {
  readonly bin: string
  readonly act: string
  readonly folder: string
  readonly env: NodeJS.ProcessEnv
  readonly token: string | null
  readonly fenced: string
}

export class Shims {
  readonly all: Shim[] = []
  readonly #children = new Map<string, ChildProcess>()
  readonly #deps: ShimsDeps
  readonly #faults: Fault[]

  constructor(deps: ShimsDeps, faults: Fault[]) {
    this.#deps = deps
    this.#faults = faults
  }

  get running(): Shim[] {
    return this.all.filter(({ endedAt }) => endedAt === null)
  }

  start(wish: Wish, addresses: readonly string[]): Shim {
    const { bin, act, folder, env, token, fenced } = this.#deps
    const name = `s${this.all.length + 1}`
    const { semaphore, unit, shared, wait, thinkMs, nomad } = wish
    const task: Task = {
      folder,
      shim: name,
      unit: shared ? semaphore : unit,
      thinkMs,
      nomad,
      token,
      fenced: shared ? fenced : null,
    }
    const scope = shared ? ['--shared', semaphore, '--unit', unit] : ['--allocation', unit]
    const flags = ['--json', '--wait', wait, '--kill-timeout', '2s', '--addr', addresses.join(','), '--reason', 'torture']
    const words = [bin, 'run', ...scope, ...flags, '--', process.execPath, act, JSON.stringify(task)]
    const files = [openSync(this.#file(name, 'out'), 'a'), openSync(this.#file(name, 'err'), 'a')] as const
    const child = spawn(process.execPath, words, { env, stdio: ['ignore', ...files] })
    for (const file of files) closeSync(file)
    const shim: Shim = { name, wish, startedAt: Date.now(), endedAt: null, code: null, signal: null, sent: [] }
    this.all.push(shim)
    this.#children.set(name, child)
    child.once('exit', (code, signal) => {
      Object.assign(shim, { code, signal, endedAt: Date.now() })
      this.#children.delete(name)
    })
    return shim
  }

  /** What it told on stderr; lines that are no events come as they are. */
  events({ name }: Shim): (ShimEvent | string)[] {
    const file = this.#file(name, 'err')
    const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : []
    return lines
      .filter((line) => line !== '')
      .map((line) => (line.startsWith('{') && line.endsWith('}') ? JSON.parse(line) : line))
  }

  output({ name }: Shim): string {
    return readFileSync(this.#file(name, 'out'), 'utf8')
  }

  send(shim: Shim, signal: 'SIGKILL' | 'SIGTERM'): void {
    const kind = signal === 'SIGKILL' ? 'kill' : 'term'
    this.#faults.push({ at: Date.now(), kind, target: 'shim', who: shim.name, until: null })
    shim.sent.push(signal)
    this.#children.get(shim.name)?.kill(signal)
  }

  /** Freezes a shim, or what runs under it as well, until the returned function is called. */
  freeze(shim: Shim, withAct: boolean): () => void {
    const fault: Fault = { at: Date.now(), kind: 'freeze', target: 'shim', who: shim.name, until: null }
    this.#faults.push(fault)
    const started = this.events(shim).findLast((event) => typeof event !== 'string' && event.event === 'started')
    const act = withAct && typeof started === 'object' && 'pid' in started ? started.pid : null
    const child = this.#children.get(shim.name)
    child?.kill('SIGSTOP')
    if (act !== null) signalGroup(act, 'SIGSTOP')
    return () => {
      child?.kill('SIGCONT')
      if (act !== null) signalGroup(act, 'SIGCONT')
      fault.until = Date.now()
    }
  }

  killAll(): void {
    for (const child of this.#children.values()) child.kill('SIGKILL')
  }

  #file(name: string, what: string): string {
    return join(this.#deps.folder, 'shims', `${name}.${what}`)
  }
}

/** An act leads a group of its own. It may be over. */
function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal)
  } catch {
    // It is over.
  }
}
