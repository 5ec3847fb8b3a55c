// Where everything is stored. A path is readable for ordinary names, different for different ones, and always one that Nomad
// takes: `[A-Za-z0-9-_~/]`, at most 128 characters (facts §1). Full names are in the Items, so a path is never decoded.
import { createHash } from 'node:crypto'
import { segmentsOf, type Level, type Scope } from '../core/scope.ts'

const MAX_PATH = 128
/** The longest unit that stands as it is: a UUID. */
const MAX_UNIT = 36
const HASH_LENGTH = 22

export interface Paths {
  readonly prefix: string
  readonly semaphores: string
  readonly requests: string
  readonly leases: string
  readonly replicas: string
  readonly locks: string
  readonly sentinel: string
  /** The folder of what is remembered about watched files, and below it of what each replica reports. */
  readonly watch: string
  readonly watchReports: string
  semaphore(scope: Scope): string
  /** The folder of a scope's requests, with the slash; `request` and `managedRequest` are in it, and nothing else directly. */
  requestsOf(scope: Scope): string
  request(scope: Scope, unit: string): string
  /** Of the same folder. A unit may have both: its shim waits, and somebody asks us to act. `allocation`: a UUID. */
  managedRequest(scope: Scope, allocation: string): string
  lease(uuid: string): string
  replicaLease(replica: string, nth: number): string
  lock(level: Level): string
}

/** All paths below a prefix. The prefix is part of the deployment: other replicas must use the same. */
export function paths(prefix: string): Paths {
  const budget = MAX_PATH - `${prefix}/semaphores/`.length - 1 - MAX_UNIT
  const inside = (level: Level | Scope) => encodeNames(segmentsOf(level), budget)
  const locks = `${prefix}/locks`
  return {
    prefix,
    semaphores: `${prefix}/semaphores/`,
    requests: `${prefix}/requests/`,
    leases: `${prefix}/leases/`,
    replicas: `${prefix}/leases/replicas/`,
    locks,
    sentinel: `${locks}/~sentinel`,
    watch: `${prefix}/watch/`,
    watchReports: `${prefix}/watch/replicas/`,
    semaphore: (scope) => `${prefix}/semaphores/${inside(scope)}`,
    requestsOf: (scope) => `${prefix}/requests/${inside(scope)}/`,
    request: (scope, unit) => `${prefix}/requests/${inside(scope)}/${encodeNames([unit], MAX_UNIT)}`,
    managedRequest: (scope, allocation) => `${prefix}/requests/${inside(scope)}/~m${allocation.replaceAll('-', '')}`,
    lease: (uuid) => `${prefix}/leases/${uuid}`,
    replicaLease: (replica, nth) => `${prefix}/leases/replicas/${replica}/${nth}`,
    lock: (level) => (segmentsOf(level).length === 0 ? locks : `${locks}/${inside(level)}`),
  }
}

/** Null when the prefix leaves room for a readable path; else what is wrong with it. */
export function prefixFault(prefix: string): string | null {
  if (!/^[A-Za-z0-9_-]+(\/[A-Za-z0-9_-]+)*$/.test(prefix)) return 'it may hold letters, digits, - and _, and / between them'
  if (prefix === 'nomad' || prefix.startsWith('nomad/')) return 'nomad/ is reserved by Nomad'
  return prefix.length <= 32 ? null : 'it may be 32 characters long'
}

/** A path that somebody wrote by hand may end in slashes: the level is the same. */
export function withoutTrailingSlash(path: string): string {
  return path.replace(/\/+$/, '')
}

/** Names as segments. Too long: the first one stays if it fits, and a hash stands for the rest (`~~` starts no escaped name). */
function encodeNames(names: readonly string[], budget: number): string {
  const plain = names.map(escapeName)
  const whole = plain.join('/')
  if (whole.length <= budget) return whole
  const hash = `~~${hashOf(names)}`
  const first = plain.length > 1 ? `${plain[0]}/${hash}` : hash
  return first.length <= budget ? first : hash
}

/** Every byte outside `[A-Za-z0-9_-]` as `~` and two hex digits; the marks ~shared and ~nodes stand as they are. */
function escapeName(name: string, position: number): string {
  if (position === 0 && (name === '~shared' || name === '~nodes')) return name
  if (name === '') return '~'
  return Array.from(new TextEncoder().encode(name), (byte) => {
    const letter = String.fromCharCode(byte)
    return /[A-Za-z0-9_-]/.test(letter) ? letter : `~${byte.toString(16).padStart(2, '0')}`
  }).join('')
}

function hashOf(names: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(names)).digest('base64url').slice(0, HASH_LENGTH)
}
