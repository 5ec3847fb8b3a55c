// What the status tells of watched files. Values in, text out.
import { describe, type Scope } from '../core/scope.ts'
import { painter, RED, table, YELLOW, BOLD, type StatusOptions } from './status-view.ts'

/** What is shown of an answer of GET /v1/watched. */
export interface WatchedView {
  readonly groups: readonly {
    readonly scope: Scope
    readonly watched: number
    readonly current: number
    readonly unknown: number
    readonly allocations: readonly {
      readonly allocation: string
      readonly node: string
      readonly state: string
      readonly detail: string
    }[]
    readonly faults: readonly string[]
    readonly warnings: readonly string[]
  }[]
  readonly missing: readonly string[]
}

/** So many allocations are named in a group; --json has all. */
const MOST_NAMED = 20

/** Empty when no job wants files watched. */
export function watchedText({ groups, missing }: WatchedView, options: StatusOptions): string {
  if (groups.length === 0 && missing.length === 0) return ''
  const { plain } = options
  const paint = painter(options)
  const lines = [paint(BOLD, 'watched files'), ...missing.map((sentence) => `  ${paint(RED, plain(sentence))}`)]
  for (const { scope, watched, current, unknown, allocations, faults, warnings } of groups) {
    const open = allocations.filter(({ state }) => state !== 'current')
    const unknowns = unknown === 0 ? '' : `, ${unknown} unknown`
    lines.push(`  ${plain(describe(scope))}  ${current} of ${watched} converged${unknowns}`)
    for (const fault of faults) lines.push(`    ${paint(RED, `not watched: ${plain(fault)}`)}`)
    for (const warning of warnings) lines.push(`    ${paint(YELLOW, plain(warning))}`)
    const named = open.slice(0, MOST_NAMED)
    lines.push(...table(named.map((one) => [one.allocation, one.state, one.node, one.detail].map(plain))))
    if (open.length > named.length) lines.push(`    and ${open.length - named.length} more`)
  }
  return `\n${lines.join('\n')}\n`
}
