import { VERSION } from '../version.ts'
import { parse } from './arguments.ts'
import { writeJson, type Verb } from './io.ts'

const help = `Prints the version.

usage: lockkeeper version [--json]
`

export const verb: Verb = {
  help,
  async run(words, _env, io) {
    const { values } = parse(words, { json: { type: 'boolean', default: false } })
    if (values.json) writeJson(io.stdout, { version: VERSION })
    else io.stdout.write(`lockkeeper ${VERSION}\n`)
    return 0
  },
}
