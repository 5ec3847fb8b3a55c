// Operators, who lock and unlock with the command line.
import { spawn } from 'node:child_process'
import process from 'node:process'
import type { Nomad } from './nomad.ts'

/** A lock whose put was answered. */
export interface LockStory {
  /** The names of the histories that it shuts. */
  readonly shuts: readonly string[]
  readonly answeredAt: number
  /** The commit index of the lock; null: it could not be read. */
  readonly index: number | null
  readonly inFlight: readonly string[]
  /** When the first try to remove it began. */
  unlockedAt: number
}

interface Result {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export class Operators {
  readonly stories: LockStory[] = []
  /** Exit codes by verb. */
  readonly codes: string[] = []
  readonly #bin: string
  readonly #env: NodeJS.ProcessEnv
  readonly #nomad: Nomad
  /** Levels that may be locked, with the flags that name them. */
  readonly #open = new Map<string, readonly string[]>()

  constructor(bin: string, env: NodeJS.ProcessEnv, nomad: Nomad) {
    this.#bin = bin
    this.#env = env
    this.#nomad = nomad
  }

  async lock(flags: readonly string[], path: string, shuts: readonly string[]): Promise<LockStory | null> {
    this.#open.set(path, flags)
    const { code, stdout } = await this.#run(['lock', ...flags, '--reason', 'torture', '--json'])
    const answeredAt = Date.now()
    this.codes.push(`lock ${code}`)
    if (code !== 0) return null
    const { in_flight } = JSON.parse(stdout) as { in_flight: { hold: string }[] }
    const read = await this.#nomad.ask('GET', `/v1/var/${path}`)
    const index = read.status === 200 ? (read.body as { ModifyIndex: number }).ModifyIndex : null
    const story: LockStory = { shuts, answeredAt, index, inFlight: in_flight.map(({ hold }) => hold), unlockedAt: Infinity }
    this.stories.push(story)
    return story
  }

  async unlock(path: string, story: LockStory | null): Promise<void> {
    if (story !== null) story.unlockedAt = Date.now()
    const { code, stderr } = await this.#run(['unlock', ...(this.#open.get(path) ?? []), '--json'])
    this.codes.push(`unlock ${code}`)
    if (code === 0 || stderr.includes('unknown_lock')) this.#open.delete(path)
  }

  /** What was not removed because Nomad did not answer. */
  async unlockAll(): Promise<void> {
    for (let tries = 0; this.#open.size > 0 && tries < 10; tries++)
      for (const path of this.#open.keys()) await this.unlock(path, null)
    if (this.#open.size > 0) throw new Error(`cannot be unlocked: ${[...this.#open.keys()].join(', ')}`)
  }

  #run(words: readonly string[]): Promise<Result> {
    const child = spawn(process.execPath, [this.#bin, ...words], { env: this.#env, stdio: ['ignore', 'pipe', 'pipe'] })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
    return new Promise((resolve) => child.once('close', (code) => resolve({ code, stdout, stderr })))
  }
}
