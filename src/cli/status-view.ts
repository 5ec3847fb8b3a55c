// The status as a table for people. Values in, text out.
import { formatDuration } from '../core/duration.ts'
import { describe, type Level, type Scope } from '../core/scope.ts'

/** What is shown of an answer of GET /v1/semaphores; what a newer or older service leaves out is not shown. */
export interface SemaphoreView {
  readonly scope: Scope | null
  readonly path: string
  readonly grants: number | null
  readonly holds?: readonly {
    readonly hold: string
    readonly unit: string
    readonly place: string
    readonly node?: string
    readonly action: string
    readonly reason: string
    readonly phase: string
    readonly outcome: string | null
    readonly slot: number
    readonly token: number
    readonly phase_since: string
    readonly deadline?: string
  }[]
  readonly queue?: readonly { readonly unit: string; readonly position: number; readonly kind: string; readonly detail: string }[]
  readonly failures?: readonly { readonly unit: string; readonly place: string; readonly reason: string; readonly at: string }[]
  readonly halted?: { readonly since: string; readonly reason: string } | null
  readonly locked?: string | null
  readonly policy?: { readonly max_parallel?: { readonly value: number; readonly from: string } }
  readonly policy_faults?: readonly string[]
  readonly unreadable?: string
  readonly warning?: string
}
export interface LockView extends Level {
  readonly path: string
  readonly reason: string
  readonly by: string
  readonly until?: string
}
export interface StatusOptions {
  readonly colours: boolean
  /** Wall time of whoever looks: ages are only for people. */
  readonly now: number
  readonly plain: (text: string) => string
}

type Paint = (code: number, text: string) => string
export const BOLD = 1
const DIM = 2
export const RED = 31
export const YELLOW = 33

export function statusText(semaphores: readonly SemaphoreView[], locks: readonly LockView[], options: StatusOptions): string {
  const paint = painter(options)
  const blocks = semaphores.map((one) => blockOf(one, paint, options))
  if (locks.length > 0) blocks.unshift([paint(BOLD, 'operator locks'), ...table(locks.map((lock) => lockRow(lock, options)))])
  if (semaphores.length === 0) blocks.push(['nothing is held and nobody waits'])
  return `${blocks.map((lines) => lines.join('\n')).join('\n\n')}\n`
}

export function painter({ colours }: StatusOptions): Paint {
  return (code, text) => (colours ? `\u001b[${code}m${text}\u001b[0m` : text)
}

function lockRow({ path, reason, by, until, ...level }: LockView, { plain }: StatusOptions): string[] {
  // Without a level in its items it was written by hand, and its path tells what it shuts.
  const shuts = Object.keys(level).length === 0 ? path : describe(level)
  return [plain(shuts), `by ${plain(by)}`, until === undefined ? '' : `until ${until}`, plain(reason)]
}

function blockOf(view: SemaphoreView, paint: Paint, options: StatusOptions): string[] {
  const { plain } = options
  const { scope, path, grants, holds = [], queue = [], failures = [] } = view
  const name = plain(scope === null ? path : describe(scope))
  const lines = [
    `${paint(BOLD, name)}  ${budgetOf(view)}, ${queue.length} waiting${grants === null ? '' : `, newest token ${grants}`}`,
  ]
  const warn = (code: number, text: string) => lines.push(`  ${paint(code, plain(text))}`)
  if (view.unreadable !== undefined) warn(RED, `its state cannot be read, so it stays shut: ${view.unreadable}`)
  if (view.locked != null) warn(YELLOW, view.locked)
  if (view.halted != null) {
    warn(RED, `halted ${ageOf(view.halted.since, options)}: ${view.halted.reason}`)
    warn(DIM, 'it goes on when what failed is healthy, also with a mended value, or after lockkeeper resume')
  }
  for (const fault of view.policy_faults ?? []) warn(RED, `its policy is wrong, so nobody goes: ${fault}`)
  if (view.warning !== undefined) warn(YELLOW, view.warning)
  if (holds.length > 0) {
    lines.push(paint(DIM, '  holds'))
    lines.push(...table(holds.map((hold) => holdRow(hold, options))))
  }
  if (queue.length > 0) {
    lines.push(paint(DIM, '  queue'))
    lines.push(...table(queue.map(({ unit, position, kind, detail }) => [String(position), plain(unit), kind, plain(detail)])))
  }
  if (failures.length > 0) {
    lines.push(paint(DIM, '  failures'))
    lines.push(...table(failures.map(({ unit, at, reason }) => [plain(unit), ageOf(at, options), plain(reason)])))
  }
  return lines
}

function budgetOf({ holds = [], policy }: SemaphoreView): string {
  const most = policy?.max_parallel?.value
  if (most === undefined) return `${holds.length} held`
  return most === 0 ? `${holds.length} held, not gated` : `${holds.length} of ${most} held`
}

function holdRow(hold: NonNullable<SemaphoreView['holds']>[number], options: StatusOptions): string[] {
  const { plain } = options
  const phase = hold.outcome === null ? hold.phase : `${hold.phase} (${hold.outcome})`
  return [
    plain(hold.unit),
    `${phase} ${ageOf(hold.phase_since, options)}`,
    `slot ${hold.slot}`,
    plain(hold.node ?? ''),
    `${hold.action}: ${plain(hold.reason)}`,
    `hold ${plain(hold.hold)}`,
  ]
}

function ageOf(time: string, { now, plain }: StatusOptions): string {
  const ms = now - Date.parse(time)
  return Number.isNaN(ms) ? plain(time) : `for ${formatDuration(Math.max(0, Math.floor(ms / 1_000) * 1_000))}`
}

/** Columns as wide as their widest cell; columns that are empty in all rows are left out. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => (row[at] as string).length)))
  return rows.map((row) =>
    `    ${row.flatMap((cell, at) => (widths[at] === 0 ? [] : [cell.padEnd(widths[at] as number)])).join('  ')}`.trimEnd(),
  )
}
