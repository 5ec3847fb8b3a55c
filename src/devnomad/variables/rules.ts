// Room variables: Nomad's key-value store and its locks (facts §1, §2).
// This file: what a request may say. Pure; texts and order of the rules as Nomad has them.
import { listed, Refusal } from '../refusal.ts'

const MAX_BYTES = 65_536
const MIN_TTL_MS = 10_000
const MAX_TTL_MS = 86_400_000
const DEFAULT_MS = 15_000
const PATH = /^[a-zA-Z0-9\-_~/]{1,128}$/

export interface Lock {
  readonly id: string
  readonly ttlMs: number
  readonly delayMs: number
}

/** A lock as a request names it: zero or empty means not said. */
export interface LockWish {
  readonly id: string
  readonly ttlMs: number
  readonly delayMs: number
}

export interface VariableBody {
  readonly namespace: string
  readonly items: Readonly<Record<string, string>> | null
  readonly lock: LockWish | null
}

/** A wish with Nomad's defaults: a delay of zero is "not said" and becomes 15 s. */
export function complete(wish: LockWish, newId: () => string): Lock {
  return { id: wish.id || newId(), ttlMs: wish.ttlMs || DEFAULT_MS, delayMs: wish.delayMs || DEFAULT_MS }
}

/** Throws what Nomad answers to a set that may not be. */
export function checkSet(path: string, body: VariableBody): void {
  if (body.lock !== null && (body.lock.ttlMs !== 0 || body.lock.delayMs !== 0)) {
    throw invalid('RPC Error:: 400,variable should not contain lock definition')
  }
  if (body.namespace === '*') throw invalid('can not target wildcard ("*")namespace')
  checkSize(body)
  checkPath(path)
}

/** Throws what Nomad answers to an acquire that may not be. `lock` is the completed one. */
export function checkAcquire(path: string, body: VariableBody, lock: Lock): void {
  if (body.namespace === '*') throw invalid(listed(['can not target wildcard ("*")namespace']))
  checkSize(body)
  checkPath(path)
  const wrong: string[] = []
  if (lock.delayMs < 0 || lock.ttlMs < 0) wrong.push('Lock delay and TTL must be positive')
  if (lock.ttlMs < MIN_TTL_MS || lock.ttlMs > MAX_TTL_MS) wrong.push('TTL must be between 10 seconds and 24 hours')
  if (wrong.length > 0) throw invalid(listed(wrong))
}

/** Throws what Nomad answers to a release that may not be. */
export function checkRelease(path: string, body: VariableBody): void {
  if (body.lock === null || body.lock.id === '') throw invalid('missing lock information')
  if (body.items !== null) throw invalid("lock release operation doesn't take variable items")
  checkPath(path)
}

function checkSize(body: VariableBody): void {
  let bytes = 0
  for (const [key, value] of Object.entries(body.items ?? {})) bytes += Buffer.byteLength(key) + Buffer.byteLength(value)
  if (bytes > MAX_BYTES) throw invalid('variables are limited to 64KiB in total size')
}

function checkPath(path: string): void {
  if (!PATH.test(path)) throw invalid(`invalid path ${JSON.stringify(path)}`)
  const [top, second, third] = path.split('/')
  if (top !== 'nomad' || second === 'jobs' || second === 'sentinel') return
  if (second === 'job-templates' && third !== undefined) return
  throw invalid(
    'only paths at "nomad/jobs" or "nomad/job-templates" and below are valid paths under the top-level "nomad" directory',
  )
}

// Refused before the log is touched: no index is taken, and the header says 0.
const invalid = (reason: string): Refusal => new Refusal(400, `RPC Error:: 400,${reason}`, { 'X-Nomad-Index': '0' })
