// How everything ended: exit codes, logs, and what is left.
import { ERRORS } from '../../../src/core/errors.ts'
import { count, emptyVerdict, type Evidence, type Verdict } from '../evidence.ts'
import { ACT_FAILED, ACT_REFUSED } from '../setup.ts'

const DOCUMENTED: ReadonlySet<number> = new Set(
  [0, ACT_FAILED, ACT_REFUSED, ...Object.values(ERRORS).map(({ exit }) => exit)].filter((code) => code !== 1 && code !== 2),
)
const TERMINATED = 143
const WARN = 40

export function judgeShims({ shims }: Evidence): Verdict {
  const verdict = emptyVerdict()
  for (const { name, code, signal, sent, events } of shims) {
    count(verdict, `shims that ended with ${code ?? signal}`)
    if (sent.includes('SIGKILL')) continue
    // One that had not even begun, or was at its very end, dies of the signal itself.
    const last = events.at(-1)
    const idle = last === undefined || (typeof last === 'object' && (last.event === 'released' || last.event === 'not_released'))
    const ended = sent.includes('SIGTERM') && (code === TERMINATED || (signal === 'SIGTERM' && idle))
    const fine = ended || (code !== null && DOCUMENTED.has(code))
    const texts = events.filter((event) => typeof event === 'string')
    if (!fine) verdict.violations.push(`${name} ended with ${code ?? signal}: ${JSON.stringify(events.at(-1))}`)
    else if (texts.length > 0) verdict.violations.push(`${name} says on stderr: ${texts.join(' | ').slice(0, 300)}`)
    for (const event of events) if (typeof event === 'object') count(verdict, `shim events: ${event.event ?? 'problem'}`)
  }
  return verdict
}

export function judgeLogs({ logs, accidents, left }: Evidence): Verdict {
  const verdict = emptyVerdict()
  verdict.violations.push(...accidents, ...left)
  for (const line of logs) {
    if (typeof line === 'string' && line.startsWith('lockkeeper serve: SIGTERM, closing')) continue
    if (typeof line === 'string') verdict.violations.push(`a replica says: ${line.slice(0, 300)}`)
    else if (Number(line['level']) > WARN)
      verdict.violations.push(`a replica logs an error: ${JSON.stringify(line).slice(0, 500)}`)
    else if (Number(line['level']) === WARN) count(verdict, `replica warnings: ${String(line['msg'])}: ${kindOf(line['error'])}`)
  }
  return verdict
}

/** The text of an error without what is different each time. */
function kindOf(error: unknown): string {
  const text = typeof error === 'string' ? error : ''
  return text
    .replace(/https?:\/\/\S+|[0-9a-f]{8}-[0-9a-f-]{27}|\/\S+/g, '…')
    .replace(/\d+/g, 'N')
    .slice(0, 50)
}
