import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomUUID } from 'node:crypto'

const ROOT = join(import.meta.dirname, '../..')
const NODE = process.execPath

/** The program as it is installed: compiled, from the sources as they are now. Below node_modules, so that it finds packages. */
export class Binary {
  #folder = join(ROOT, 'node_modules/.cache/lockkeeper-test', randomUUID())
  #path = join(this.#folder, 'dist/bin.js')
  readonly #running = new Set<ChildProcess>()

  build(): this {
    mkdirSync(this.#folder, { recursive: true })
    symlinkSync(join(ROOT, 'package.json'), join(this.#folder, 'package.json'))
    const tsc = join(ROOT, 'node_modules/typescript/bin/tsc')
    const built = spawnSync(NODE, [tsc, '-p', 'src', '--noCheck', '--outDir', join(this.#folder, 'dist')], { cwd: ROOT })
    if (built.status !== 0) throw new Error(`tsc: ${String(built.stdout)}`)
    return this
  }

  /** Instead the bundle, with nothing beside it and no packages above it. */
  bundle(): this {
    const alone = mkdtempSync(join(tmpdir(), 'lockkeeper-bundle-'))
    this.#folder = alone
    this.#path = join(alone, 'lockkeeper.cjs')
    const made = spawnSync(NODE, ['deploy/bundle.mjs', '--to', this.#path], { cwd: ROOT })
    if (made.status !== 0) throw new Error(`bundle: ${String(made.stderr)}`)
    return this
  }

  /** Starts it with these words and nothing of our environment but the path. */
  start(words: readonly string[], env: Readonly<Record<string, string>> = {}): Running {
    const child = spawn(NODE, [this.#path, ...words], {
      env: { PATH: process.env['PATH'], ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    this.#running.add(child)
    return new Running(child, () => this.#running.delete(child))
  }

  /** Starts it and waits for its end. */
  run(words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
    return this.start(words, env).ended
  }

  /** What a failed test has left running ends. */
  endAll(): void {
    for (const child of this.#running) child.kill('SIGKILL')
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export class Running {
  stdout = ''
  stderr = ''
  readonly ended: Promise<Ended>
  readonly #child: ChildProcess
  #wake: (() => void)[] = []

  constructor(child: ChildProcess, over: () => void) {
    this.#child = child
    child.stdout?.on('data', (chunk) => this.#seen('stdout', String(chunk)))
    child.stderr?.on('data', (chunk) => this.#seen('stderr', String(chunk)))
    this.ended = new Promise((resolve) =>
      child.once('close', (code, signal) => {
        over()
        this.#seen('stderr', '')
        resolve({ code, signal, stdout: this.stdout, stderr: this.stderr })
      }),
    )
  }

  write(text: string): void {
    this.#child.stdin?.write(text)
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** Until this was written; fails when the process ends without it. */
  async until(where: 'stdout' | 'stderr', text: string): Promise<void> {
    while (!this[where].includes(text)) {
      if (this.#child.exitCode !== null || this.#child.signalCode !== null)
        throw new Error(`it ended without "${text}": ${this.stdout}${this.stderr}`)
      await new Promise<void>((resolve) => this.#wake.push(resolve))
    }
  }

  #seen(where: 'stdout' | 'stderr', text: string): void {
    this[where] += text
    for (const wake of this.#wake.splice(0)) wake()
  }
}
