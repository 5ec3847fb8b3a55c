// Shared semaphores: nobody acts while another one does, beyond what a process that is frozen or has lost its shim can do, and
// that much the fenced log refuses.
import { count, emptyVerdict, iso, troubled, type Evidence, type Verdict } from '../evidence.ts'
import type { FencedLine } from '../journal.ts'
import { SHARED } from '../setup.ts'
import { holdsOf } from './stories.ts'

export function judgeShared(evidence: Evidence): Verdict {
  const verdict = emptyVerdict()
  for (const name of SHARED) {
    const lines = evidence.fenced.filter((line) => line.name === name)
    judgeFence(verdict, name, lines)
    judgeOverlaps(verdict, evidence, name, lines)
  }
  return verdict
}

/** What was accepted has tokens that never fall. */
function judgeFence(verdict: Verdict, name: string, lines: readonly FencedLine[]): void {
  let highest = 0
  for (const { token, accepted, at } of lines) {
    count(verdict, accepted ? 'writes to the fenced log' : 'writes that the fenced log refused')
    if (accepted && token < highest)
      verdict.violations.push(`${name}: a write of token ${token} was accepted at ${iso(at)} after ${highest}`)
    highest = Math.max(highest, token)
  }
}

/** Whoever writes, or tries to, when another one has entered with a higher token, overlaps with it. */
function judgeOverlaps(verdict: Verdict, { faults, histories }: Evidence, name: string, lines: readonly FencedLine[]): void {
  const history = histories.find((one) => one.name === name)
  const holds = history === undefined ? null : holdsOf(history)
  const excused = new Set<string>()
  let inside: FencedLine | null = null
  for (const line of lines) {
    if (line.step === 'enter' && line.accepted) inside = line
    if (inside === null || line.token >= inside.token) continue
    // Without its shim, or with one that is frozen, a command goes on when its lease is over.
    if (troubled(faults, ['freeze', 'kill'], line.shim, holds?.get(line.token)?.granted.at ?? line.at, line.at))
      excused.add(line.shim)
    else
      verdict.violations.push(
        `${name}: ${line.shim} #${line.token} acts at ${iso(line.at)}, ${inside.shim} #${inside.token} does since ${iso(inside.at)}`,
      )
  }
  count(verdict, 'late: acts in a shared semaphore whose shim was frozen or killed', excused.size)
}
