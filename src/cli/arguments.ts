// What verbs read from the words after them. All that is wrong with them is a Problem `invalid_request`: exit code 2.
import { parseArgs, type ParseArgsConfig } from 'node:util'
import { parseDuration } from '../core/duration.ts'
import { Problem, textOf } from '../core/errors.ts'
import { levelFault, type Level } from '../core/scope.ts'

type Options = NonNullable<ParseArgsConfig['options']>

/** `positionals`: what may follow; the first `needed` of them must. */
export function parse<const T extends Options>(
  words: readonly string[],
  options: T,
  positionals: readonly string[] = [],
  needed = positionals.length,
) {
  const parsed = readable(() => parseArgs({ args: [...words], options, allowPositionals: true, strict: true }))
  const more = parsed.positionals[positionals.length]
  if (more !== undefined) throw invalid(`"${more}" is one word too many`)
  const missing = positionals.slice(0, needed)[parsed.positionals.length]
  if (missing !== undefined) throw invalid(`${missing} is missing`)
  return parsed
}

/** The first sentence of what parseArgs says: the rest is about programs that call it. */
function readable<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    const text = textOf(error)
    throw new Problem('invalid_request', `${(text.split(/\. |\n/)[0] as string).replace(/\.$/, '')}; see --help`, {}, error)
  }
}

export function invalid(detail: string): Problem {
  return new Problem('invalid_request', detail)
}

/** Milliseconds. `from` names the flag or variable. */
export function durationOf(from: string, text: string): number {
  const ms = parseDuration(text)
  if (ms === null) throw invalid(`${from}: "${text}" is no duration; write it like 30s or 1h30m`)
  return ms
}

export function wholeNumberOf(from: string, text: string): number {
  if (!/^-?\d{1,9}$/.test(text)) throw invalid(`${from}: "${text}" is no whole number`)
  return Number(text)
}

export function required(from: string, text: string | undefined): string {
  if (text === undefined || text.trim() === '') throw invalid(`${from} is missing: say it in a few words`)
  return text
}

export const LEVEL_OPTIONS = {
  namespace: { type: 'string' },
  job: { type: 'string' },
  group: { type: 'string' },
  component: { type: 'string' },
  shared: { type: 'string' },
} as const

export const LEVEL_HELP = `  --namespace NAME   a namespace; with --job where the job is (default, unless given)
  --job ID           a job in it
  --group NAME       a group of the job
  --component NAME   a component of the group
  --shared NAME      a shared semaphore, instead of the above (--shared= means all of them)
`

/** The level that the flags name; `{}` when there are none. `own`: NOMAD_NAMESPACE, as the operator has set it. */
export function levelOf(values: Level, own: string | undefined): Level {
  const { namespace, job, group, component, shared } = values
  if (namespace === undefined && job !== undefined && own !== undefined && own !== '' && own !== 'default') {
    // It says where the variables of the service are, and might mean the job's namespace as well: a wrong guess locks nothing.
    throw invalid(`NOMAD_NAMESPACE is ${own}: say with --namespace in which namespace the job is`)
  }
  const level: Level = {
    ...(namespace === undefined ? (job === undefined ? {} : { namespace: 'default' }) : { namespace }),
    ...(job === undefined ? {} : { job }),
    ...(group === undefined ? {} : { group }),
    ...(component === undefined ? {} : { component }),
    ...(shared === undefined ? {} : { shared }),
  }
  const fault = levelFault(level)
  if (fault !== null) throw invalid(fault)
  const empty = Object.entries(level).find(([name, value]) => name !== 'shared' && value === '')
  if (empty !== undefined) throw invalid(`--${empty[0]} is empty`)
  return level
}
