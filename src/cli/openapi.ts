import { parse } from './arguments.ts'
import type { Verb } from './io.ts'

const help = `Prints the contract of the API, OpenAPI 3.1 in JSON; a running service has the same at /openapi.json.

usage: lockkeeper openapi
`

export const verb: Verb = {
  help,
  async run(words, _env, io) {
    parse(words, { json: { type: 'boolean' } })
    const { openapiDocument } = await import('../api/openapi.ts')
    io.stdout.write(await openapiDocument())
    return 0
  },
}
