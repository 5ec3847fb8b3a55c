// What it needs to know: environment and flags.
import { parseArgs } from 'node:util'

export interface Settings {
  /** HTTP addresses of the servers, in the order of their numbers. */
  readonly servers: readonly string[]
  readonly token: string | null
  /** Command templates with `{}` for the number of a server, from 1. */
  readonly commands: { readonly kill: string; readonly stall: string; readonly continue: string; readonly start: string }
  readonly minutes: number
  readonly seed: number
  /** How many shims are there at a time. */
  readonly shims: number
}

export const HELP = `usage: npm run torture -- [--minutes 10] [--seed N] [--shims 50]

needs a Nomad cluster whose clients may use raw_exec, on this machine, and in the environment:
  LOCKKEEPER_TEST_NOMAD_ADDR    the HTTP addresses of its servers, with commas between them
  LOCKKEEPER_TEST_NOMAD_TOKEN   a management token, with ACLs
  LOCKKEEPER_TORTURE_KILL, _STALL, _CONTINUE, _START
                                commands with {} for the number of a server (1 is the first address)
  LOCKKEEPER_TORTURE_SERVERS    how many servers there are (as many as addresses)
`

/** Throws an Error with a sentence for whoever called. */
export function settingsOf(words: readonly string[], env: Readonly<Record<string, string | undefined>>): Settings {
  const { values } = parseArgs({
    args: [...words],
    options: {
      minutes: { type: 'string', default: '10' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
      shims: { type: 'string', default: '50' },
    },
  })
  const needed = (name: string): string => {
    const value = env[name]
    if (value === undefined || value === '') throw new Error(`${name} is not set`)
    return value
  }
  const command = (name: string): string => {
    const value = needed(`LOCKKEEPER_TORTURE_${name}`)
    if (!value.includes('{}')) throw new Error(`LOCKKEEPER_TORTURE_${name} has no {} for the number of the server`)
    return value
  }
  const servers = needed('LOCKKEEPER_TEST_NOMAD_ADDR')
    .split(',')
    .map((address) => address.trim().replace(/\/+$/, ''))
  const count = Number(env['LOCKKEEPER_TORTURE_SERVERS'] ?? servers.length)
  if (count !== servers.length) throw new Error(`${count} servers, but ${servers.length} addresses`)
  const [minutes, seed, shims] = [values.minutes, values.seed, values.shims].map(Number) as [number, number, number]
  if (![minutes, seed, shims].every((number) => number >= 0)) throw new Error('--minutes, --seed and --shims are numbers')
  return {
    servers,
    token: env['LOCKKEEPER_TEST_NOMAD_TOKEN'] ?? null,
    commands: { kill: command('KILL'), stall: command('STALL'), continue: command('CONTINUE'), start: command('START') },
    minutes,
    seed,
    shims,
  }
}
