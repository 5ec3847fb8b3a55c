// How a restart is shown while it goes on: a table that is drawn anew on a terminal, lines elsewhere, or events for programs.
import { formatDuration } from '../core/duration.ts'
import type { Problem } from '../core/errors.ts'
import { isOpen } from '../core/request.ts'
import type { Clock } from '../keeper/ports.ts'
import { plain, writeJson, type Writer } from './io.ts'
import { countOf, type Row } from './wave.ts'

export interface Begun {
  readonly wave: string
  /** What is restarted, for people. */
  readonly about: string
  /** Why it was begun, when it was there before us. */
  readonly joined: string | null
}
export interface Hints {
  /** The command lines that go on watching, and that withdraw what waits. */
  readonly watch: string
  readonly cancel: string
}

export interface Show {
  begun(begun: Begun): void
  warning(text: string): void
  /** Called at each look, also when nothing has changed. */
  rows(rows: readonly Row[]): void
  unreachable(problem: Problem): void
  /** We go, the requests stay. */
  left(wave: string, why: string, hints: Hints): void
  over(wave: string, rows: readonly Row[], exit: number): void
}

/** Of a terminal that does not tell. */
const SIZE = { columns: 120, rows: 50 }
const STATES = ['done', 'gone', 'failed', 'cancelled', 'unknown', 'acting', 'observing', 'waiting'] as const
const ABOUT: Readonly<Partial<Record<Row['state'], string>>> = { cancelled: 'withdrawn', unknown: 'over, not known how' }
const COLOURS: Readonly<Partial<Record<Row['state'], number>>> = {
  done: 32,
  gone: 2,
  failed: 31,
  cancelled: 33,
  unknown: 33,
  acting: 36,
  observing: 36,
}

/** One event a line. */
export function jsonShow(stdout: Writer): Show {
  const changed = changes()
  return {
    begun: ({ wave, about, joined }) => writeJson(stdout, { event: 'wave', wave, about, joined }),
    warning: (detail) => writeJson(stdout, { event: 'warning', detail }),
    rows: (rows) => {
      for (const row of changed(rows, ({ position }) => position)) writeJson(stdout, { event: 'request', ...row })
    },
    unreachable: ({ kind, message }) => writeJson(stdout, { event: 'unreachable', kind, detail: message }),
    left: (wave, why, hints) => writeJson(stdout, { event: 'left', wave, why, ...hints }),
    over: (wave, rows, exit) =>
      writeJson(stdout, {
        event: 'over',
        wave,
        exit,
        ...Object.fromEntries(STATES.map((state) => [state, countOf(rows, state)])),
      }),
  }
}

/** A line for each thing that changes. */
export function lineShow(stdout: Writer, clock: Clock): Show {
  const startedAt = clock.now()
  const changed = changes()
  const shown = new Set<string>()
  const line = (text: string) => stdout.write(`${plain(text)}\n`)
  return {
    begun: (begun) => line(begunText(begun)),
    warning: (text) => line(`warning: ${text}`),
    rows: (rows) => {
      for (const row of changed(rows)) {
        // They wait for the same: the first of them says it for all.
        if (row.state === 'waiting' && row.position !== 1 && shown.has(row.allocation)) continue
        shown.add(row.allocation)
        line(`${row.place}  ${row.allocation.slice(0, 8)}  ${stateOf(row)}: ${row.detail}`)
      }
    },
    unreachable: ({ message }) => line(`${message}; trying again`),
    left: (_wave, why, hints) => hintText(why, hints).forEach(line),
    over: (wave, rows) => line(`${wave}: ${summary(rows)}, ${formatDuration(seconds(clock.now() - startedAt))}`),
  }
}

/** One table that is drawn over itself; what does not fit on the screen is counted. */
export function liveShow(stdout: Writer, clock: Clock, colours: boolean): Show {
  const startedAt = clock.now()
  const since = new Map<string, { readonly state: Row['state']; readonly at: number }>()
  const paint = (code: number | undefined, text: string) =>
    colours && code !== undefined ? `\u001b[${code}m${text}\u001b[0m` : text
  let drawn = 0
  let last: readonly Row[] = []

  function draw(below: string | null): void {
    const { columns, rows: height } = stdout.size?.() ?? SIZE
    const { shown, left } = fitting(last, height - 5)
    const cells = shown.map((row) => [row.place, row.allocation.slice(0, 8), stateOf(row), ageOf(row), row.detail].map(plain))
    const widths = [0, 1, 2, 3].map((at) => Math.max(0, ...cells.map((row) => (row[at] as string).length)))
    const lines = cells.map((row, nth) => {
      const text = row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')
      return paint(COLOURS[(shown[nth] as Row).state], `  ${text}`.slice(0, columns - 1).trimEnd())
    })
    const total = `${summary(last)}, ${formatDuration(seconds(clock.now() - startedAt))}`
    if (left.length > 0) lines.push(`  … and ${summary(left)}`)
    lines.push(total.slice(0, columns - 1))
    if (below !== null) lines.push(paint(33, plain(below).slice(0, columns - 1)))
    stdout.write(`${drawn === 0 ? '' : `\u001b[${drawn}A\r\u001b[J`}${lines.join('\n')}\n`)
    drawn = lines.length
  }

  /** Since when it is as it is: of one that waits as the service says, else as it was seen here. */
  function ageOf({ allocation, state, at }: Row): string {
    const seen = since.get(allocation)
    const asked = state === 'waiting' && at !== null ? clock.wall() - Date.parse(at) : Number.NaN
    const ms = Number.isNaN(asked) ? clock.now() - (seen?.at ?? clock.now()) : asked
    return formatDuration(seconds(ms))
  }

  return {
    begun(begun) {
      stdout.write(`${plain(begunText(begun))}\n`)
    },
    warning: (text) => stdout.write(`${paint(33, plain(`warning: ${text}`))}\n`),
    rows(rows) {
      for (const { allocation, state } of rows)
        if (since.get(allocation)?.state !== state) since.set(allocation, { state, at: clock.now() })
      last = rows
      draw(null)
    },
    unreachable: ({ message }) => draw(`${message}; trying again`),
    left: (_wave, why, hints) => hintText(why, hints).forEach((line) => stdout.write(`${plain(line)}\n`)),
    // The last line of the table says it.
    over: () => undefined,
  }
}

function begunText({ wave, about, joined }: Begun): string {
  return joined === null ? `wave ${wave}: ${about}` : `wave ${wave} is under way already (${joined}), going on with it: ${about}`
}

function hintText(why: string, { watch, cancel }: Hints): string[] {
  return [why, `  to go on watching:         ${watch}`, `  to withdraw what waits:    ${cancel}`]
}

function stateOf({ state, position, kind }: Row): string {
  if (state !== 'waiting') return ABOUT[state] ?? state
  const parts = ['waiting', ...(position === null ? [] : [`place ${position}`]), ...(kind === null ? [] : [kind])]
  return parts.join(', ')
}

function summary(rows: readonly Row[]): string {
  const counts = STATES.map((state) => [countOf(rows, state), ABOUT[state] ?? state] as const)
  return counts.flatMap(([count, word]) => (count === 0 ? [] : [`${count} ${word}`])).join(', ')
}

/** Those that something happens to first, in the order of the wave. */
function fitting(rows: readonly Row[], most: number): { readonly shown: readonly Row[]; readonly left: readonly Row[] } {
  if (rows.length <= most) return { shown: rows, left: [] }
  const weight = (row: Row) => (row.state === 'waiting' ? (row.position ?? 0) : isOpen(row) || row.state === 'failed' ? -1 : 1e9)
  const chosen = new Set(rows.toSorted((a, b) => weight(a) - weight(b)).slice(0, Math.max(1, most)))
  return { shown: rows.filter((row) => chosen.has(row)), left: rows.filter((row) => !chosen.has(row)) }
}

/** Those that are not as they were at the last look. `more`: what counts besides the state and what is waited for. */
function changes(): (rows: readonly Row[], more?: (row: Row) => unknown) => Row[] {
  const known = new Map<string, string>()
  return (rows, more = () => null) =>
    rows.filter((row) => {
      const now = JSON.stringify([row.id, row.state, row.kind, more(row)])
      const isNew = known.get(row.allocation) !== now
      known.set(row.allocation, now)
      return isNew
    })
}

function seconds(ms: number): number {
  return Math.max(0, Math.floor(ms / 1_000) * 1_000)
}
