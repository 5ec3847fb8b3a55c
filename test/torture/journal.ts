// What happened, as lines of JSON that several processes append to the same files, each with the wall time of this one machine.
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

interface At {
  readonly at: number
}

/** A process of an allocation: it began to start, serves, was told to stop. `bad`: it serves, and is not healthy. */
export interface WorkloadLine extends At {
  readonly event: 'start' | 'healthy' | 'bad' | 'stop'
  readonly allocation: string
  readonly group: string
  readonly pid: number
}

/** A command under a shim. `call` and `answer`: one restart call to Nomad, numbered. */
export type ActLine = At & { readonly shim: string } & (
    | { readonly event: 'begin'; readonly unit: string; readonly token: number; readonly hold: string; readonly pid: number }
    | { readonly event: 'call'; readonly nth: number; readonly address: string }
    | { readonly event: 'answer'; readonly nth: number; readonly status: number | null; readonly text: string }
    | { readonly event: 'refused' | 'terminated' }
    | { readonly event: 'end'; readonly code: number }
  )

/** What was sent to a log that refuses a token lower than one it has seen. */
export interface FencedLine extends At {
  readonly name: string
  readonly token: number
  readonly hold: string
  readonly shim: string
  readonly step: 'enter' | 'write' | 'leave'
  readonly accepted: boolean
}

/** What the nemesis did. `until` null: for good, or not yet over. */
export interface Fault extends At {
  readonly kind: 'kill' | 'freeze' | 'term' | 'crash' | 'bad_value'
  readonly target: 'server' | 'replica' | 'shim' | 'workload' | 'group'
  readonly who: string
  /** An act was frozen together with its shim, or a shim alone. */
  until: number | null
}

export const WORKLOADS = 'workloads.jsonl'
export const ACTS = 'acts.jsonl'

/** A line without its time. */
type Untimed<T> = T extends At ? Omit<T, 'at'> : never

/** Short lines in one write: several processes may append to the same file. */
export function append<T extends At>(folder: string, file: string, line: Untimed<T>): void {
  appendFileSync(join(folder, file), `${JSON.stringify({ at: Date.now(), ...line })}\n`)
}

export function read<T>(folder: string, file: string): T[] {
  const path = join(folder, file)
  if (!existsSync(path)) return []
  return readFileSync(path, 'utf8')
    .split('\n')
    .flatMap((line) => parsed<T>(line))
}

/** A process that was killed may have left half a line. */
function parsed<T>(line: string): T[] {
  try {
    return line === '' ? [] : [JSON.parse(line) as T]
  } catch {
    return []
  }
}
