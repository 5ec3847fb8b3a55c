import { Problem } from '../core/errors.ts'
import { isOpen } from '../core/request.ts'
import { formatTime } from '../keeper/clock.ts'
import type { Clock, NewId } from '../keeper/ports.ts'
import type { Requests, RequestView } from './requests.ts'
import type { Target } from './target.ts'
import { alreadyAsked, rowOf, rowsOf, waveName, waveUnderWay, type Row, type Wish } from './wave.ts'

/** What is known of a wave; filled while it is asked for, so that whoever is interrupted can tell. */
export interface Wave {
  name: string
  rows: readonly Row[]
  /** What the service has warned of. */
  readonly warnings: Set<string>
}
export interface Asker {
  readonly requests: Requests
  readonly clock: Clock
  readonly newId: NewId
  /** Who asks, for people. */
  readonly by: string
  readonly signal: AbortSignal
}

/** Asks for each allocation that is not asked for yet, in the order of the target, and fills `wave`. `begun` is called once, when its
 *  name is known: with a request of whoever has begun it before us, or null. May be repeated. */
export async function askWave(
  { requests, clock, newId, by, signal }: Asker,
  target: Target,
  wish: Wish & { readonly signal?: string; readonly reason: string },
  wave: Wave,
  begun: (joined: RequestView | null) => void,
): Promise<void> {
  const seen = await requests.list(target.level, signal)
  const underWay = waveUnderWay(seen, target, wish)
  wave.name = underWay?.wave ?? waveName(target.level.job as string, formatTime(clock.wall()), by, newId())
  const there = alreadyAsked(seen, target, wish, underWay?.wave ?? null)
  wave.rows = rowsOf(there.filter((one) => one !== null))
  const missing = target.allocations.filter((_, nth) => there[nth] === null)
  let told = underWay !== null
  if (told) begun(underWay)
  for (const { id, name } of missing) {
    const answer = await ask(id, name)
    if (!told) tell(answer)
  }
  if (!told) begun(null)

  /** Whoever begins at the same moment asks for the same one first: both are one wave then. */
  function tell(answer: RequestView | null): void {
    const isOther = answer?.wave !== undefined && answer.wave !== wave.name
    if (isOther) wave.name = answer.wave as string
    begun(isOther ? answer : null)
    told = true
  }

  async function ask(allocation: string, place: string): Promise<RequestView | null> {
    const row = { id: null, allocation, place, position: null, kind: null, at: formatTime(clock.wall()) }
    try {
      const answer = await requests.put({ ...wish, allocation, wave: wave.name }, signal)
      const satisfied: Row = { ...row, state: 'done', detail: 'there is nothing to restart in it' }
      wave.rows = [...wave.rows, answer === null ? satisfied : rowOf(answer)]
      for (const warning of answer?.warnings ?? []) wave.warnings.add(warning)
      return answer
    } catch (error) {
      const isGone = error instanceof Problem && (error.kind === 'unknown_allocation' || error.kind === 'allocation_finished')
      if (!isGone || target.named === 'allocation') throw error
      // It has ended since the job was read.
      wave.rows = [...wave.rows, { ...row, state: 'gone', detail: error.message }]
      return null
    }
  }
}

/** Withdraws what waits. Comes back with what was open, as it is now. */
export async function withdrawWave(requests: Requests, name: string, signal: AbortSignal): Promise<RequestView[]> {
  const open: RequestView[] = []
  for (const one of (await waveNamed(requests, name, signal)).filter(isOpen))
    open.push((one.state === 'waiting' ? await requests.cancel(one.id, signal) : one) ?? one)
  return open
}

/** Throws Problem `unknown_request` when there is none. */
export async function waveNamed(requests: Requests, name: string, signal: AbortSignal): Promise<readonly RequestView[]> {
  const seen = await requests.list({ wave: name }, signal)
  if (seen.length > 0) return seen
  throw new Problem('unknown_request', `nobody knows of a wave ${name}: it is over and forgotten, or never was`)
}
