// The processes of a run, what they use, and their end.
import { fork, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Counts, Load } from './loads.ts'

/** The compiled bench lies in node_modules/.cache/lockkeeper-bench/test/bench. */
export const ROOT = join(import.meta.dirname, '../../../../..')
/** Another build can be measured the same way. */
export const BIN = process.env['LOCKKEEPER_BENCH_BIN'] ?? join(ROOT, 'dist/bin.js')
const TICKS_PER_SECOND = 100
const PAGE_BYTES = 4_096

export interface Child {
  readonly process: ChildProcess
  end(): Promise<void>
}

function childOf(child: ChildProcess): Child {
  return {
    process: child,
    async end() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    },
  }
}

export async function startDevNomad(writeMs: number): Promise<Child & { readonly address: string }> {
  const child = fork(join(import.meta.dirname, 'devnomad-process.js'), { env: { ...process.env, WRITE_MS: String(writeMs) } })
  const [{ address }] = (await once(child, 'message')) as [{ address: string }]
  return { ...childOf(child), address }
}

export interface Replica extends Child {
  readonly address: string
}

/** `dist/bin.js serve`, once it listens and is ready. */
export async function startReplica(nomadAddress: string, prefix: string): Promise<Replica> {
  const words = [BIN, 'serve', '--listen', '127.0.0.1:0', '--prefix', prefix, '--name', 'bench']
  const child = spawn(process.execPath, words, {
    env: { ...process.env, NOMAD_ADDR: nomadAddress },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const address = await new Promise<string>((resolve, reject) => {
    child.once('exit', () => reject(new Error('the replica has ended')))
    createInterface(child.stdout).on('line', (line) => {
      const { address: at, level, msg } = JSON.parse(line) as { address?: string; level: number; msg: string }
      if (at !== undefined) resolve(at)
      if (level >= 40) process.stderr.write(`replica: ${msg} ${line}\n`)
    })
  })
  while (!(await fetch(`${address}/health/ready`)).ok) await new Promise((resolve) => setTimeout(resolve, 200))
  return { ...childOf(child), address }
}

export interface Client extends Child {
  counts(): Promise<Counts & { readonly at: number }>
}

export function startClient(load: Load): Client {
  const child = fork(join(import.meta.dirname, 'client-process.js'))
  child.send(load)
  return {
    ...childOf(child),
    async counts() {
      child.send('counts')
      const [counts] = (await once(child, 'message')) as [Counts & { at: number }]
      return counts
    },
  }
}

/** What a process uses, from /proc; null on other systems. */
export function usage({ process: { pid } }: Child): { readonly cpuMs: number; readonly rssBytes: number } | null {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    const rssBytes = Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * PAGE_BYTES
    return { cpuMs: ((Number(fields[11]) + Number(fields[12])) * 1_000) / TICKS_PER_SECOND, rssBytes }
  } catch {
    return null
  }
}

/** How many connections a process has to a port; null on other systems than Linux. */
export function connectionsTo({ process: { pid } }: Child, port: number): number | null {
  try {
    const own = new Set(readdirSync(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`)))
    const lines = ['tcp', 'tcp6'].flatMap((table) => readFileSync(`/proc/${pid}/net/${table}`, 'utf8').split('\n').slice(1))
    const hex = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
    return lines.filter((line) => {
      const fields = line.trim().split(/\s+/)
      return fields[2]?.endsWith(hex) === true && own.has(`socket:[${fields[9]}]`)
    }).length
  } catch {
    return null
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}
