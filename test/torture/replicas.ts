// Replicas of the service as processes. One that was killed is started again at the same address.
import { spawn, type ChildProcess } from 'node:child_process'
import { openSync, readFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault } from './journal.ts'

interface One {
  readonly name: string
  readonly address: string
  readonly log: number
  child: ChildProcess | null
  /** We end it ourselves. */
  ending: boolean
}

export class Replicas {
  readonly names: readonly string[] = ['r1', 'r2', 'r3']
  /** Ends that nobody asked for. */
  readonly accidents: string[] = []
  starts = 0
  readonly #all: One[] = []
  readonly #bin: string
  readonly #env: NodeJS.ProcessEnv
  readonly #folder: string
  readonly #faults: Fault[]

  constructor(bin: string, env: NodeJS.ProcessEnv, folder: string, faults: Fault[]) {
    this.#bin = bin
    this.#env = env
    this.#folder = folder
    this.#faults = faults
  }

  get addresses(): string[] {
    return this.#all.map(({ address }) => address)
  }

  async start(): Promise<void> {
    for (const name of this.names) {
      const address = `http://127.0.0.1:${await freePort()}`
      this.#all.push({ name, address, log: openSync(this.logOf(name), 'a'), child: null, ending: false })
    }
    for (const one of this.#all) this.#spawn(one)
    await Promise.all(this.#all.map((one) => ready(one.address)))
  }

  logOf(name: string): string {
    return join(this.#folder, `replica-${name}.log`)
  }

  /** All log lines of all replicas. Those that are no JSON come as they are. */
  logs(): (Record<string, unknown> | string)[] {
    return this.names.flatMap((name) =>
      readFileSync(this.logOf(name), 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => (line.startsWith('{') && line.endsWith('}') ? (JSON.parse(line) as Record<string, unknown>) : line)),
    )
  }

  /** kill -9, or SIGTERM; then a new one after a while. */
  async end(name: string, signal: 'SIGKILL' | 'SIGTERM', pauseMs: number): Promise<void> {
    const one = this.#named(name)
    if (one.child === null || one.ending) return
    const kind = signal === 'SIGKILL' ? 'kill' : 'term'
    const fault: Fault = { at: Date.now(), kind, target: 'replica', who: name, until: null }
    this.#faults.push(fault)
    await this.#end(one, signal)
    await sleep(pauseMs)
    fault.until = Date.now()
    this.#spawn(one)
  }

  async freeze(name: string, ms: number): Promise<void> {
    const { child, ending } = this.#named(name)
    if (child === null || ending) return
    const fault: Fault = { at: Date.now(), kind: 'freeze', target: 'replica', who: name, until: null }
    this.#faults.push(fault)
    child.kill('SIGSTOP')
    await sleep(ms)
    child.kill('SIGCONT')
    fault.until = Date.now()
  }

  /** SIGTERM to all: each must end with 0. */
  async stop(): Promise<void> {
    await Promise.all(this.#all.filter(({ ending }) => !ending).map((one) => this.#end(one, 'SIGTERM')))
  }

  killAll(): void {
    for (const { child } of this.#all) child?.kill('SIGKILL')
  }

  async #end(one: One, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const { child } = one
    if (child === null) return
    one.ending = true
    // One that does not listen yet dies of the signal itself.
    const listens = signal === 'SIGTERM' && (await isLive(one.address))
    const code = await new Promise((resolve) => {
      child.once('exit', resolve)
      child.kill(signal)
      // It may be frozen.
      child.kill('SIGCONT')
    })
    if (listens && code !== 0) this.accidents.push(`${one.name} ended with ${String(code)} on SIGTERM`)
    one.child = null
    one.ending = false
  }

  #spawn(one: One): void {
    const listen = one.address.slice('http://'.length)
    const words = [this.#bin, 'serve', '--listen', listen, '--name', one.name]
    const child = spawn(process.execPath, words, { env: this.#env, stdio: ['ignore', one.log, one.log] })
    one.child = child
    this.starts++
    child.once('exit', (code, signal) => {
      if (one.ending) return
      this.accidents.push(`${one.name} ended by itself with ${code ?? signal}`)
      this.#spawn(one)
    })
  }

  #named(name: string): One {
    return this.#all.find((one) => one.name === name) as One
  }
}

async function isLive(address: string): Promise<boolean> {
  const answer = await fetch(`${address}/health/live`, { signal: AbortSignal.timeout(1_000) }).catch(() => null)
  return answer?.status === 200
}

async function ready(address: string): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    const answer = await fetch(`${address}/health/ready`).catch(() => null)
    if (answer?.status === 200) return
    await sleep(200)
  }
  throw new Error(`${address} does not become ready`)
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
