import { cut } from '../../core/state.ts'
import type { Paths } from '../paths.ts'
import type { Log, Variables } from '../ports.ts'
import type { Replica } from '../replica.ts'
import type { Snapshot } from '../watch.ts'
import type { WatchState, WatchStatus } from './watched-allocation.ts'

/** What one replica knows of its share. Whatever it looks at and does not name is current. */
export interface Report {
  readonly open: readonly { readonly allocation: string; readonly state: WatchState; readonly detail: string }[]
  /** How many more are not current. While there are any, nothing follows from not being named. */
  readonly more: number
  /** What keeps it from looking, in sentences. */
  readonly missing: readonly string[]
}

/** As many fit into a variable with room to spare. */
const MOST_NAMED = 150
const DETAIL_LENGTH = 160
const DEAD_MS = 60_000

/** Each replica looks at its share of the allocations only. So that any of them can tell about all, each writes down what is not as it
 *  should be, when that changes, at `watch/replicas/<id>`. Nothing is decided by it. */
export class Reports {
  readonly #variables: Variables
  readonly #paths: Paths
  readonly #replica: Replica
  readonly #log: Log
  readonly #snapshot: () => Snapshot
  readonly #read = new Map<string, { readonly index: number; readonly report: Report | null }>()
  readonly #deadSince = new Map<string, number>()
  #stored: { readonly text: string; readonly index: number } | null = null

  constructor(variables: Variables, paths: Paths, replica: Replica, log: Log, snapshot: () => Snapshot) {
    this.#variables = variables
    this.#paths = paths
    this.#replica = replica
    this.#log = log
    this.#snapshot = snapshot
  }

  /** Writes ours down if it has changed and there is anybody who would read it. */
  async store(report: Report, signal: AbortSignal): Promise<void> {
    const text = JSON.stringify(report)
    if (text === this.#stored?.text || this.#replica.others === 0) return
    const path = this.#pathOf(this.#replica.id)
    try {
      const items = { about: 'watched files, as this replica sees them', report: text }
      const answer = await this.#variables.put(path, items, this.#stored?.index ?? 0, signal)
      if (answer.kind === 'written') this.#stored = { text, index: answer.index }
      else this.#stored = { text: '', index: answer.current?.modifyIndex ?? 0 }
    } catch (error) {
      if (!signal.aborted) this.#log.warn({ error: String(error) }, 'the report about watched files is not written')
    }
  }

  /** That of another live replica; null: there is none, so nothing is known of its share. */
  async of(replica: string, signal: AbortSignal): Promise<Report | null> {
    const meta = this.#snapshot().entries.get(this.#pathOf(replica))
    if (meta === undefined) return null
    const known = this.#read.get(replica)
    if (known?.index === meta.modifyIndex) return known.report
    const { variable } = await this.#variables.get(meta.path, undefined, signal)
    const report = variable === null ? null : reportIn(variable.items['report'])
    this.#read.set(replica, { index: variable?.modifyIndex ?? 0, report })
    return report
  }

  /** Removes ours, at the end. */
  async withdraw(signal: AbortSignal): Promise<void> {
    if (this.#stored !== null) await this.#variables.remove(this.#pathOf(this.#replica.id), this.#stored.index, signal)
  }

  /** Removes those of replicas that are gone. */
  async sweep(now: number, signal: AbortSignal): Promise<void> {
    for (const id of this.#read.keys()) if (!this.#replica.isAlive(id)) this.#read.delete(id)
    for (const { path, modifyIndex } of this.#snapshot().entries.values()) {
      if (!path.startsWith(this.#paths.watchReports)) continue
      const isDead = !this.#replica.isAlive(path.slice(this.#paths.watchReports.length))
      const since = this.#deadSince.get(path) ?? now
      if (!isDead) this.#deadSince.delete(path)
      else if (now - since < DEAD_MS) this.#deadSince.set(path, since)
      else if (this.#replica.isMine(path)) {
        this.#deadSince.delete(path)
        await this.#variables.remove(path, modifyIndex, signal)
      }
    }
  }

  #pathOf(replica: string): string {
    return `${this.#paths.watchReports}${replica}`
  }
}

export function reportOf(all: Iterable<readonly [string, WatchStatus]>, missing: readonly string[]): Report {
  const open = [...all].filter(([, { state }]) => state !== 'current')
  return {
    open: open
      .slice(0, MOST_NAMED)
      .map(([allocation, { state, detail }]) => ({ allocation, state, detail: cut(detail, DETAIL_LENGTH) })),
    more: Math.max(0, open.length - MOST_NAMED),
    missing,
  }
}

/** What another replica's report says about an allocation of its share. */
export function statusIn(report: Report | null, allocation: string): WatchStatus {
  if (report === null) return { state: 'unknown', detail: 'the replica that looks at it has not told yet' }
  const named = report.open.find((one) => one.allocation === allocation)
  if (named !== undefined) return { state: named.state, detail: named.detail }
  if (report.more === 0) return { state: 'current', detail: '' }
  return { state: 'unknown', detail: 'the replica that looks at it has too much to tell' }
}

function reportIn(text: string | undefined): Report | null {
  try {
    const value = JSON.parse(text ?? 'null') as Partial<Report> | null
    const whole = Array.isArray(value?.open) && typeof value.more === 'number' && Array.isArray(value.missing)
    return whole ? (value as Report) : null
  } catch {
    return null
  }
}
