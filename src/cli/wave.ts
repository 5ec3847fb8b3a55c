// A wave: the requests that one restart of a job has made. Values in, values out.
import { isOpen } from '../core/request.ts'
import type { Target } from './target.ts'
import type { RequestView } from './requests.ts'

/** One allocation of a wave, as it was seen last. */
export interface Row {
  /** Null: nothing was asked for. */
  readonly id: string | null
  readonly allocation: string
  readonly place: string
  /** `unknown`: it is over, and nobody remembers how it ended. */
  readonly state: RequestView['state'] | 'unknown'
  readonly position: number | null
  /** The kind of what it waits for. */
  readonly kind: string | null
  readonly detail: string
  /** When it was asked for; null: not known. */
  readonly at: string | null
}

/** What is asked of each allocation. */
export interface Wish {
  readonly action: string
  readonly task?: string
}

/** A name for people, unique, and one word for a shell: the job, when, who. */
export function waveName(job: string, time: string, by: string, id: string): string {
  const at = time.replace(/[-:]|\.\d+Z$/g, '').replace('T', '-')
  const words = [job.slice(0, 60), at, by.slice(0, 40), id.slice(0, 4)]
  return words.map((word) => word.replace(/[^A-Za-z0-9._]+/g, '-').replace(/^-+|-+$/g, '')).join('-')
}

/** The wave that is under way for one of these allocations with the same wish; null: none. */
export function waveUnderWay(seen: readonly RequestView[], { allocations, named }: Target, wish: Wish): RequestView | null {
  const isMeant = ({ allocation }: RequestView) => named === 'job' || allocations.some(({ id }) => id === allocation)
  const open = seen.filter((one) => isOpen(one) && one.wave !== undefined && isMeant(one) && covers(one, wish))
  return open.toSorted(byTime).at(-1) ?? null
}

/** What of a wave is there already for each allocation; null: it is to be asked for. What failed or was withdrawn is asked for again.
 *  Where it ends: what is done is only known to replicas that saw it; one that came later lets it be asked for once more. */
export function alreadyAsked(
  seen: readonly RequestView[],
  { allocations }: Target,
  wish: Wish,
  wave: string | null,
): (RequestView | null)[] {
  const isThere = (one: RequestView) => (isOpen(one) && one.wave !== undefined) || (wave !== null && one.wave === wave)
  const counts = seen.filter((one) => isThere(one) && covers(one, wish) && one.state !== 'failed' && one.state !== 'cancelled')
  const own = (id: string) => counts.filter(({ allocation }) => allocation === id).toSorted(byTime)
  const replaced = counts.filter(({ allocation }) => allocations.every(({ id }) => id !== allocation))
  return allocations.map(({ id, name }) => {
    const found = own(id).at(-1)
    if (found !== undefined) return found
    // A replacement stands where the one before it stood; of a system job all stand in places of the same name.
    const at = replaced.findIndex(({ place }) => place === name)
    return at === -1 ? null : (replaced.splice(at, 1)[0] as RequestView)
  })
}

export function rowOf({ id, allocation, place, state, position, waiting_for, detail, at }: RequestView): Row {
  return { id, allocation, place, state, position, kind: waiting_for?.kind ?? null, detail, at: at ?? null }
}

/** The rows as they are now; of several requests for one allocation the newest counts. */
export function renewed(rows: readonly Row[], seen: readonly RequestView[]): Row[] {
  const newest = new Map(rowsOf(seen).map((row) => [row.allocation, row]))
  return rows.map((row) => {
    const now = newest.get(row.allocation)
    return now !== undefined && (now.id === row.id || (now.at ?? '') > (row.at ?? '')) ? now : row
  })
}

/** One for each allocation. */
export function rowsOf(seen: readonly RequestView[]): Row[] {
  return [...new Map(seen.toSorted(byTime).map((one) => [one.allocation, rowOf(one)])).values()]
}

/** Whether nothing of it goes on until somebody mends what has failed. */
export function isStuck(rows: readonly Row[]): boolean {
  return rows.some(({ state }) => state === 'failed') && rows.filter(isOpen).every(({ kind }) => kind === 'halted')
}

export function countOf(rows: readonly Row[], ...states: Row['state'][]): number {
  return rows.filter(({ state }) => states.includes(state)).length
}

function covers(one: RequestView, { action, task }: Wish): boolean {
  return one.action === action && (one.tasks.length === 0 || (task !== undefined && one.tasks.includes(task)))
}

function byTime(a: RequestView, b: RequestView): number {
  return (a.at ?? '') < (b.at ?? '') ? -1 : 1
}
