// Room cli: the command line, one file a verb. Reads words and environment, calls the other rooms, writes results.
// This file: from the words to a verb and an exit code.
import { ERRORS } from '../core/errors.ts'
import { fail } from './failure.ts'
import { plain, type Env, type Io } from './io.ts'
import { VERBS } from './verbs.ts'

/** Runs one verb. Never throws, and never ends the process: its exit code is what comes back (`lockkeeper --help` lists them). */
export async function main(argv: readonly string[], env: Env, io: Io): Promise<number> {
  const [first, ...rest] = argv
  if (first === undefined) {
    io.stderr.write(help())
    return ERRORS.invalid_request.exit
  }
  const asked = first === 'help' ? (rest[0] ?? '--help') : first
  if (asked === '--help' || asked === '-h') {
    io.stdout.write(help())
    return 0
  }
  const name = asked === '--version' ? 'version' : asked
  const entry = VERBS.get(name)
  if (entry === undefined) {
    io.stderr.write(`lockkeeper: there is no verb "${plain(name)}"; see lockkeeper --help\n`)
    return ERRORS.invalid_request.exit
  }
  const ours = rest.slice(0, rest.includes('--') ? rest.indexOf('--') : undefined)
  try {
    const { verb } = await entry.load()
    if (first === 'help' || ours.includes('--help') || ours.includes('-h')) {
      io.stdout.write(verb.help)
      return 0
    }
    return await verb.run(rest, env, io)
  } catch (error) {
    return fail(`lockkeeper ${name}`, error, ours.includes('--json'), io)
  }
}

function help(): string {
  const width = Math.max(...Array.from(VERBS.keys(), (name) => name.length))
  const verbs = Array.from(VERBS, ([name, { about }]) => `  ${name.padEnd(width)}  ${about}`)
  return `lockkeeper: at most so many allocations of a group are restarted at once, the next one when the last one is healthy.

usage: lockkeeper VERB [flags]; lockkeeper VERB --help tells more

${verbs.join('\n')}

exit codes: 0 done, 1 a fault of ours, 2 wrong words, no right, or no such thing, 3 not granted in time,
            4 an operator lock or a halt was the last reason, 5 the lease was lost, 6 nobody answers
`
}
