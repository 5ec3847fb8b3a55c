import { describe, type Scope } from '../core/scope.ts'
import { resumeSemaphore } from '../keeper/operate.ts'
import { invalid, LEVEL_HELP, LEVEL_OPTIONS, levelOf, parse, required } from './arguments.ts'
import { plain, writeJson, type Verb } from './io.ts'
import { NOMAD_HELP, operate } from './operator.ts'
import { ownNamespace } from './settings.ts'

const help = `Lets a semaphore that is halted after failures go on, and forgets the failures.

usage: lockkeeper resume SCOPE --reason TEXT [flags]

${LEVEL_HELP}
  --reason TEXT      why it may go on
  --json             the result as JSON

${NOMAD_HELP}`

const OPTIONS = {
  ...LEVEL_OPTIONS,
  reason: { type: 'string' },
  prefix: { type: 'string' },
  json: { type: 'boolean', default: false },
} as const

export const verb: Verb = {
  help,
  async run(words, env, io) {
    const { values } = parse(words, OPTIONS)
    const level = levelOf(values, ownNamespace(env))
    const isScope = level.group !== undefined || (level.shared !== undefined && level.shared !== '')
    if (!isScope) throw invalid('resume what? name one semaphore: --job and --group, or --shared')
    const scope = level as Scope
    const reason = required('--reason', values.reason)

    return await operate(env, values.prefix, io, async ({ variables, paths, signal }) => {
      const { changed } = await resumeSemaphore(variables, paths, scope, reason, () => io.clock.wall(), signal)
      const said = changed ? 'goes on' : 'was not halted, and nothing had failed'
      if (values.json) writeJson(io.stdout, { scope, resumed: changed })
      else io.stdout.write(`${plain(describe(scope))} ${said}\n`)
      return 0
    })
  },
}
