import { readFile } from 'node:fs/promises'
import { parse } from './arguments.ts'
import { writeJson, type Verb } from './io.ts'

const help = `Prints the version.

usage: lockkeeper version [--json]
`

export const verb: Verb = {
  help,
  async run(words, _env, io) {
    const { values } = parse(words, { json: { type: 'boolean', default: false } })
    // The same place seen from src/cli and from dist/cli.
    const manifest = await readFile(new URL('../../package.json', import.meta.url), 'utf8')
    const { version } = JSON.parse(manifest) as { version: string }
    if (values.json) writeJson(io.stdout, { version })
    else io.stdout.write(`lockkeeper ${version}\n`)
    return 0
  },
}
