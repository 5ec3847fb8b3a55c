import type { Action } from '../core/state.ts'
import type { Contact } from '../shim/contact.ts'
import type { Tell } from '../shim/events.ts'
import type { RunOptions } from '../shim/run.ts'
import type { Wish } from '../shim/service.ts'
import { durationOf, invalid, parse, required, wholeNumberOf } from './arguments.ts'
import type { Env, Io, Verb } from './io.ts'
import { progress } from './progress.ts'
import { absenceFile, allowsColours, ownAllocation, ownHost, serviceContact, unavailablePolicy } from './settings.ts'

const help = `Runs a command inside a hold: waits for its turn, runs it, and releases. The next one goes when this one is healthy.

usage: lockkeeper run [flags] -- COMMAND [WORD...]

The words reach the command unchanged, without a shell in between (for a && b: -- sh -c 'a && b').

  --allocation ID      what is restarted (NOMAD_ALLOC_ID, which Nomad sets inside a task)
  --component NAME     another semaphore than that of the group as a whole
  --task NAME          the one task that is acted on
  --shared NAME        a shared semaphore, instead of the above
  --unit NAME          in a shared semaphore: what is unavailable meanwhile (the name of this host)
  --action ACTION      restart, signal, reload or replace (restart)
  --reason TEXT        why, for people (the name of the command)
  --priority N         higher goes first, -1000 to 1000 (0)
  --wait DURATION      how long to wait for the turn (1h); 0 asks once
  --kill-timeout DURATION
                       when the lease is lost: from SIGTERM to SIGKILL (5s)
  --addr URL[,URL...]  the service (LOCKKEEPER_ADDR, http://127.0.0.1:4650); @FILE: what is in that file, read again as it changes
  --on-unavailable X   what to do when nobody can be asked (LOCKKEEPER_ON_UNAVAILABLE, wait)
                         wait     wait for --unavailable-wait, then as --unavailable-then says
                         jitter   act without a hold at the moment of this allocation within --jitter-window
                         proceed  act at once, without a hold
                         skip     do not act
  --unavailable-wait DURATION
                       within --wait (LOCKKEEPER_UNAVAILABLE_WAIT, 10m)
  --unavailable-then X skip, proceed or jitter (LOCKKEEPER_UNAVAILABLE_THEN, skip)
  --jitter-window DURATION
                       (LOCKKEEPER_JITTER_WINDOW, 5m); the moment depends on NOMAD_ALLOC_INDEX alone
  --verbose            tell everything on stderr, not only what changes while waiting
  --json               tell everything on stderr as JSON, one event a line

The command finds LOCKKEEPER_HOLD, LOCKKEEPER_SLOT and LOCKKEEPER_TOKEN in its environment; the token is a number that is higher for each
grant, for whoever can refuse an older one. stdout belongs to the command alone.

The workload identity of the task is shown to the service: \${NOMAD_SECRETS_DIR}/nomad_lockkeeper.jwt when it is there, or the file
that LOCKKEEPER_TOKEN_FILE names. It is read again for each call.

SIGTERM, SIGINT and SIGHUP go on to the command and what it started (on a terminal: to the command alone, and Ctrl-C
reaches it directly), SIGUSR1 and SIGUSR2 to the command. Before it is started, the first three end the waiting.

exit codes: that of the command, once it ran (128+n when signal n ended it), or
  2  wrong words, or the service refuses   5  the lease was lost: the command was ended, and is not started again
  3  not granted in time                   6  the service cannot be reached, or cannot reach Nomad
  4  likewise, because of an operator      126, 127  the command cannot be executed, is not found
     lock or a halt                        128+n  signal n came before it was started
`

const OPTIONS = {
  allocation: { type: 'string' },
  component: { type: 'string' },
  task: { type: 'string' },
  shared: { type: 'string' },
  unit: { type: 'string' },
  action: { type: 'string' },
  reason: { type: 'string' },
  priority: { type: 'string' },
  wait: { type: 'string', default: '1h' },
  'kill-timeout': { type: 'string', default: '5s' },
  addr: { type: 'string' },
  'on-unavailable': { type: 'string' },
  'unavailable-wait': { type: 'string' },
  'unavailable-then': { type: 'string' },
  'jitter-window': { type: 'string' },
  verbose: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
} as const
const ACTIONS: readonly Action[] = ['restart', 'signal', 'reload', 'replace']

export const verb: Verb = {
  help,
  async run(words, env, io) {
    const at = words.indexOf('--')
    const command = at === -1 ? [] : words.slice(at + 1)
    if (!isCommand(command)) throw invalid('which command? put it behind two dashes: lockkeeper run [flags] -- COMMAND')
    const { values } = parse(words.slice(0, at), OPTIONS)
    const wish = wishOf(values, env, command[0])
    const options = {
      wish,
      waitMs: durationOf('--wait', values.wait),
      absence: unavailablePolicy(env, values),
      killTimeoutMs: durationOf('--kill-timeout', values['kill-timeout']),
    }
    const contact = serviceContact(env, values.addr)
    const tell = progress(io.stderr, { json: values.json, verbose: values.verbose, colours: allowsColours(env) })
    return await runCommand(options, contact, command, env, io, tell)
  },
}

/** The client and what it needs are loaded when the words are known to be right. */
async function runCommand(
  options: RunOptions,
  contact: Contact,
  command: readonly [string, ...string[]],
  env: Env,
  io: Io,
  tell: Tell,
): Promise<number> {
  const [{ createServiceClient }, { createService }, { Absences }, { run }] = await Promise.all([
    import('../shim/client.ts'),
    import('../shim/service.ts'),
    import('../shim/absences.ts'),
    import('../shim/run.ts'),
  ])
  const { clock, newId, random, listen, kill, onTerminal } = io
  const client = createServiceClient(contact, clock)
  const service = createService(client)
  const absences = new Absences({ client, clock, newId, allocation: options.wish.allocation, file: absenceFile(env) })
  const ports = { service, clock, newId, random, tell: absences.listen(tell), listen }
  try {
    return await run(options, { ...ports, command: { words: command, env, onTerminal, kill } })
  } finally {
    await absences.report()
    await client.close()
  }
}

interface WishFlags {
  readonly allocation?: string | undefined
  readonly component?: string | undefined
  readonly task?: string | undefined
  readonly shared?: string | undefined
  readonly unit?: string | undefined
  readonly action?: string | undefined
  readonly reason?: string | undefined
  readonly priority?: string | undefined
}

function wishOf(flags: WishFlags, env: Env, command: string): Wish {
  const { shared, component, task } = flags
  const reason = flags.reason === undefined ? command : required('--reason', flags.reason)
  const priority = flags.priority === undefined ? undefined : wholeNumberOf('--priority', flags.priority)
  const action = flags.action === undefined ? undefined : ACTIONS.find((one) => one === flags.action)
  if (flags.action !== undefined && action === undefined) throw invalid(`--action: one of ${ACTIONS.join(', ')}`)
  const common = { reason, ...given({ action, priority }) }
  if (shared !== undefined) {
    const wrong = (['allocation', 'component', 'task'] as const).find((name) => flags[name] !== undefined)
    if (wrong !== undefined) throw invalid(`--${wrong} does not go with --shared`)
    return { ...common, shared, unit: flags.unit ?? ownHost() }
  }
  if (flags.unit !== undefined) throw invalid('--unit goes with --shared')
  const allocation = flags.allocation ?? ownAllocation(env)
  if (allocation === undefined)
    throw invalid('which allocation? give --allocation (inside a Nomad task NOMAD_ALLOC_ID says it), or --shared')
  return { ...common, allocation, ...given({ component, task }) }
}

/** Without the fields that are undefined. */
function given<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never
}

function isCommand(words: readonly string[]): words is [string, ...string[]] {
  return words[0] !== undefined && words[0] !== ''
}
