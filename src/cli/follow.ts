import { ERRORS, Problem } from '../core/errors.ts'
import { isOpen } from '../core/request.ts'
import type { Clock } from '../keeper/ports.ts'
import type { Requests } from './requests.ts'
import { countOf, isStuck, renewed, rowOf, type Row } from './wave.ts'
import type { Show } from './wave-view.ts'

export interface Following {
  readonly wave: string
  readonly rows: readonly Row[]
  /** How long to follow it; null: to its end. */
  readonly waitMs: number | null
}
export interface Ended {
  readonly rows: readonly Row[]
  /** `over`: nothing is open. `stuck`: what is open waits until somebody mends what failed. `late`: the time is up. */
  readonly how: 'over' | 'stuck' | 'late'
}

const LOOK_MS = 1_000
/** Replicas may be replaced meanwhile: what was asked for does not need them to be there. */
const UNREACHABLE_MS = 60_000
const FORGOTTEN = 'it is over; how it ended is not remembered any more: see lockkeeper status'

/** Shows a wave until it is over. The requests go on whatever becomes of us. */
export async function follow(
  { wave, rows: from, waitMs }: Following,
  requests: Requests,
  clock: Clock,
  show: Show,
  signal: AbortSignal,
): Promise<Ended> {
  const endsAt = clock.now() + (waitMs ?? Number.POSITIVE_INFINITY)
  let answeredAt = clock.now()
  let rows = [...from]
  for (;;) {
    try {
      rows = await look(rows)
      answeredAt = clock.now()
      show.rows(rows)
    } catch (error) {
      if (!(error instanceof Problem) || !ERRORS[error.kind].retry || clock.now() - answeredAt >= UNREACHABLE_MS) throw error
      show.unreachable(error)
    }
    if (!rows.some(isOpen)) return { rows, how: 'over' }
    if (isStuck(rows)) return { rows, how: 'stuck' }
    if (clock.now() >= endsAt) return { rows, how: 'late' }
    await clock.sleep(Math.min(LOOK_MS, endsAt - clock.now()), signal)
  }

  async function look(known: readonly Row[]): Promise<Row[]> {
    const seen = await requests.list({ wave }, signal)
    const listed = new Set(seen.map(({ id }) => id))
    const found: Row[] = []
    for (const row of renewed(known, seen)) found.push(listed.has(row.id ?? '') || !isOpen(row) ? row : await alone(row))
    return found
  }

  /** One that the list does not show: it has another label, or is forgotten. */
  async function alone(row: Row): Promise<Row> {
    const seen = row.id === null ? null : await requests.get(row.id, signal)
    if (seen !== null) return rowOf(seen)
    return { ...row, state: 'unknown', position: null, kind: null, detail: FORGOTTEN }
  }
}

/** 0 when all is done. Failures and an operator's lock, halt or withdrawal are one exit code, as everywhere. */
export function exitOf({ rows, how }: Ended): number {
  if (countOf(rows, 'failed', 'cancelled') > 0) return ERRORS.halted.exit
  if (how === 'late' && rows.some(isOpen))
    return rows.some(({ kind }) => kind === 'locked' || kind === 'halted') ? ERRORS.locked.exit : ERRORS.full.exit
  return countOf(rows, 'unknown') > 0 ? ERRORS.unknown_request.exit : 0
}
