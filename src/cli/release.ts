import { describe } from '../core/scope.ts'
import { releaseByForce } from '../keeper/operate.ts'
import { parse, required } from './arguments.ts'
import { plain, writeJson, type Verb } from './io.ts'
import { NOMAD_HELP, operate } from './operator.ts'

const help = `Ends a hold by force: its slot is free at once, whatever the state of its unit. Whoever acts under it may still act.

usage: lockkeeper release HOLD --reason TEXT [flags]

HOLD is an ID from lockkeeper status.

  --reason TEXT      why
  --json             the result as JSON

${NOMAD_HELP}`

const OPTIONS = { reason: { type: 'string' }, prefix: { type: 'string' }, json: { type: 'boolean', default: false } } as const
const WARNING = 'whoever acts under it may still act: make sure that it does not'

export const verb: Verb = {
  help,
  async run(words, env, io) {
    const { values, positionals } = parse(words, OPTIONS, ['HOLD'])
    const id = positionals[0] as string
    const reason = required('--reason', values.reason)

    return await operate(env, values.prefix, io, async ({ variables, paths, signal }) => {
      const { scope, hold } = await releaseByForce(variables, paths, id, reason, () => io.clock.wall(), signal)
      if (values.json) writeJson(io.stdout, { hold: id, scope, unit: hold.unit, warning: WARNING })
      else io.stdout.write(plain(`hold ${id} of ${hold.unit} in ${describe(scope)} is ended; ${WARNING}`) + '\n')
      return 0
    })
  },
}
