import { describe } from '../core/scope.ts'
import { formatTime } from '../keeper/clock.ts'
import { readLocks, unlock } from '../keeper/operate.ts'
import { withoutTrailingSlash } from '../keeper/paths.ts'
import { invalid, LEVEL_HELP, LEVEL_OPTIONS, levelOf, parse } from './arguments.ts'
import { plain, writeJson, type Verb } from './io.ts'
import { NOMAD_HELP, operate } from './operator.ts'
import { ownNamespace } from './settings.ts'

const help = `Removes the operator lock on exactly this level. Locks on the levels above and below stay; those above are named.

usage: lockkeeper unlock (--all | LEVEL) [flags]

  --all              the lock on everything (not: all locks)
${LEVEL_HELP}
  --json             the result as JSON

${NOMAD_HELP}`

const OPTIONS = {
  ...LEVEL_OPTIONS,
  all: { type: 'boolean', default: false },
  prefix: { type: 'string' },
  json: { type: 'boolean', default: false },
} as const

export const verb: Verb = {
  help,
  async run(words, env, io) {
    const { values } = parse(words, OPTIONS)
    const level = levelOf(values, ownNamespace(env))
    const isAll = Object.keys(level).length === 0
    if (isAll !== values.all) throw invalid(isAll ? 'unlock what? name a level, or say --all' : '--all does not go with a level')

    return await operate(env, values.prefix, io, async ({ variables, paths, signal }) => {
      const { reason, by, until } = await unlock(variables, paths, level, signal)
      const above = (await readLocks(variables, paths, signal)).filter(({ path }) => shuts(path, paths.lock(level)))
      if (values.json) {
        const ends = until === null ? {} : { until: formatTime(until) }
        writeJson(io.stdout, { unlocked: { ...level, reason, by, ...ends }, still_locked_by: above.map(({ path }) => path) })
      } else {
        io.stdout.write(plain(`${describe(level)} is unlocked; it was locked by ${by}: ${reason}`) + '\n')
        for (const lock of above) io.stdout.write(plain(`it is still shut by ${lock.path}, by ${lock.by}: ${lock.reason}`) + '\n')
      }
      return 0
    })
  },
}

/** Whether a lock at `path` shuts the level whose lock is at `below`: names below a level are names below its path. */
function shuts(path: string, below: string): boolean {
  return below.startsWith(`${withoutTrailingSlash(path)}/`)
}
