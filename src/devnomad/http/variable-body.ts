import { Refusal } from '../refusal.ts'
import type { LockWish, VariableBody } from '../variables/rules.ts'
import { bodyOf, type Call } from './exchange.ts'

const GO_DURATION = /^([+-]?)((?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h))+$/
const UNIT_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1e3,
  m: 6e4,
  h: 36e5,
}

/** Reads the body of a write; 400 in Go's words when it is not what it should be. */
export function readBody(call: Call): VariableBody {
  const raw = bodyOf<{ Namespace?: string; Items?: Record<string, unknown> | null; Lock?: RawLock | null }>(call)
  for (const value of Object.values(raw.Items ?? {})) {
    if (typeof value !== 'string') {
      const kind = typeof value === 'boolean' ? 'bool' : Array.isArray(value) ? 'array' : typeof value
      throw new Refusal(400, `json: cannot unmarshal ${kind} into Go struct field VariableDecrypted.Items of type string`)
    }
  }
  return {
    namespace: raw.Namespace ?? '',
    items: (raw.Items ?? null) as Record<string, string> | null,
    lock: raw.Lock == null ? null : readLock(raw.Lock),
  }
}

interface RawLock {
  readonly ID?: string
  readonly TTL?: string | number
  readonly LockDelay?: string | number
}

function readLock(raw: RawLock): LockWish {
  return { id: raw.ID ?? '', ttlMs: readDuration(raw.TTL), delayMs: readDuration(raw.LockDelay) }
}

// A number is nanoseconds. Unlike ours, Go's durations may be negative; the rules refuse those by name.
function readDuration(value: string | number | undefined): number {
  if (value === undefined || value === '' || value === '0') return 0
  if (typeof value === 'number') return value / 1e6
  const whole = GO_DURATION.exec(value)
  if (whole === null) throw new Refusal(400, `time: invalid duration ${JSON.stringify(value)}`)
  let ms = 0
  for (const part of value.matchAll(/(\d*\.?\d*)(ns|us|µs|ms|s|m|h)/g)) {
    ms += Number(part[1]) * (UNIT_MS[part[2] as string] as number)
  }
  return whole[1] === '-' ? -ms : ms
}
