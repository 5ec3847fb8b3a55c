import type { ShimEvent, Tell } from '../shim/events.ts'
import { plain, writeJson, type Writer } from './io.ts'

export interface ProgressOptions {
  readonly json: boolean
  readonly verbose: boolean
  readonly colours: boolean
}

type Tone = 'dim' | 'yellow' | 'red'
const CODES: Readonly<Record<Tone, number>> = { dim: 2, yellow: 33, red: 31 }
/** What is told only to those who want everything: when all goes well, the command's own output is enough. */
const QUIET: ReadonlySet<ShimEvent['event']> = new Set(['granted', 'started', 'exited', 'released', 'renew_failed'])

/** What a shim tells, as lines for people or as JSON for programs. Colours only on a terminal. */
export function progress(writer: Writer, { json, verbose, colours }: ProgressOptions): Tell {
  return (event) => {
    if (json) return writeJson(writer, event)
    if (!verbose && QUIET.has(event.event)) return
    // It ends with an error, and that says it.
    if (event.event === 'unavailable' && event.did === 'skip') return
    const { text, tone } = lineOf(event)
    const line = `lockkeeper run: ${plain(text)}`
    writer.write(colours && writer.isTTY ? `\u001b[${CODES[tone]}m${line}\u001b[0m\n` : `${line}\n`)
  }
}

function lineOf(event: ShimEvent): { text: string; tone: Tone } {
  switch (event.event) {
    case 'waiting':
      return { text: `waiting, ${event.kind}${placeOf(event)}: ${event.detail}`, tone: 'yellow' }
    case 'unreachable':
      return { text: `${event.detail}; trying again`, tone: 'yellow' }
    case 'unavailable':
      return { text: `${event.detail}; the command is run WITHOUT A HOLD, as it is told to (${event.did})`, tone: 'red' }
    case 'given_up':
      return {
        text: `hold ${event.hold} is given up before anything was done, and asked for again: ${event.detail}`,
        tone: 'yellow',
      }
    case 'granted':
      return { text: `granted in ${event.scope}: hold ${event.hold}, token ${event.token}, slot ${event.slot}`, tone: 'dim' }
    case 'renew_failed':
      return { text: `a renewal failed and is tried again: ${event.detail}`, tone: 'yellow' }
    case 'started':
      return { text: `started ${event.command}, process ${event.pid}`, tone: 'dim' }
    case 'not_started':
      return { text: `${event.command} cannot be executed: ${event.detail}`, tone: 'red' }
    case 'lease_lost':
      return { text: `the lease of hold ${event.hold} is lost, the command is ended: ${event.detail}`, tone: 'red' }
    case 'killed':
      return { text: `${event.detail}: SIGKILL`, tone: 'red' }
    case 'exited':
      return { text: `the command is over: ${event.signal ?? `exit code ${event.code}`}`, tone: 'dim' }
    case 'released':
      return { text: `released as ${event.outcome}`, tone: 'dim' }
    case 'not_released':
      return { text: `hold ${event.hold} could not be released: ${event.detail}`, tone: 'yellow' }
  }
}

function placeOf({ position, waiting }: { readonly position: number | null; readonly waiting: number | null }): string {
  if (position === null) return ''
  return waiting === null ? `, place ${position}` : `, place ${position} of ${waiting}`
}
