import { parseDuration } from '../../core/duration.ts'
import type { Table } from '../raft.ts'
import { Refusal } from '../refusal.ts'
import type { Call } from './exchange.ts'

const DEFAULT_WAIT_MS = 300_000
const MAX_WAIT_MS = 600_000

/** `?index=` and `?wait=` of a read: 0 does not wait; without a wait 5 minutes, and never more than 10. */
export function blocking(call: Call, tables: readonly Table[]): { index: number; waitMs: number; tables: readonly Table[] } {
  const wait = call.query.get('wait') || '0'
  const waitMs = parseDuration(wait)
  if (waitMs === null) throw new Refusal(400, 'Invalid wait time')
  const index = call.query.get('index') || '0'
  if (!/^\d+$/.test(index)) throw new Refusal(400, 'Invalid index')
  return { index: Number(index), waitMs: Math.min(waitMs || DEFAULT_WAIT_MS, MAX_WAIT_MS), tables }
}

/** One page of a list that is in the order of its tokens: `?per_page=` and `?next_token=` (which names the first element). */
export function page<T>(call: Call, all: readonly T[], token: (item: T) => string): { items: T[]; next: Record<string, string> } {
  const perPage = Number(call.query.get('per_page') ?? '0')
  const from = call.query.get('next_token') ?? ''
  const rest = all.filter((item) => token(item) >= from)
  if (!(perPage > 0) || rest.length <= perPage) return { items: rest, next: {} }
  return { items: rest.slice(0, perPage), next: { 'X-Nomad-Nexttoken': token(rest[perPage] as T) } }
}
