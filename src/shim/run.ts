import { ERRORS, Problem } from '../core/errors.ts'
import type { Outcome } from '../core/state.ts'
import { isOutOfReach, type Absence } from '../core/unavailable.ts'
import { acquire, type AcquireDeps } from './acquire.ts'
import { exitCodeOf, signalCode, startCommand, type Command, type CommandOptions, type Exit } from './command.ts'
import type { Hold } from './hold.ts'
import type { Wish } from './service.ts'

export interface RunOptions {
  readonly wish: Wish
  readonly waitMs: number
  readonly absence: Absence
  readonly killTimeoutMs: number
}
/** Calls the listener for each of these signals until what it returns is called. While somebody listens they do nothing else. */
export type ListenToSignals = (names: readonly NodeJS.Signals[], listener: (name: NodeJS.Signals) => void) => () => void

export interface RunDeps extends AcquireDeps {
  readonly listen: ListenToSignals
  readonly command: CommandOptions
}

const ENDING: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGHUP']
const OTHERS: readonly NodeJS.Signals[] = ['SIGUSR1', 'SIGUSR2']
/** What the terminal sends to all of its foreground group, and so to the command as well. */
const OF_TERMINAL: ReadonlySet<NodeJS.Signals> = new Set(['SIGINT', 'SIGHUP'])

/** Runs one command inside a hold and returns the exit code: the command's own once it ran; 5 when the lease was lost meanwhile, after
 *  the command was ended; 126 or 127 when it could not be executed; 128 + n when signal n came before it was started. Throws a
 *  Problem when there was no hold. It is started at most once, and never 0 is returned for one that did not run.
 *  Without a hold it is started only when nobody could be asked and `absence` wants it.
 *  It listens to signals until the process ends: one that comes when all is over must not change the exit code.
 *  Hole: between the last look at the lease and the start of the command the process may be frozen; nothing can see that. */
export async function run(options: RunOptions, deps: RunDeps): Promise<number> {
  const { wish, waitMs, absence, killTimeoutMs } = options
  const { clock, listen } = deps
  const patience = { since: clock.now(), ms: waitMs, absence }
  const stopped = new AbortController()
  let stoppedBy: NodeJS.Signals | null = null
  let command: Command | null = null
  listen([...ENDING, ...OTHERS], (name) => {
    if (command !== null) {
      if (!deps.command.onTerminal || !OF_TERMINAL.has(name)) command.send(name)
    } else if (ENDING.includes(name)) {
      stoppedBy ??= name
      stopped.abort(new Error(`stopped by ${name}`))
    }
  })
  try {
    for (;;) {
      const hold = await acquire(deps, wish, patience, stopped.signal).catch((error: unknown) =>
        withoutHold(error, absence, deps),
      )
      // Nothing may stand between this look and the start.
      if (stopped.signal.aborted || hold?.valid() === false) {
        if (hold !== null) await release(hold, 'abandoned', deps)
        stopped.signal.throwIfAborted()
        continue
      }
      const started = await start(hold, deps)
      if (typeof started === 'number') return started
      command = started
      return hold === null ? exitCodeOf(await ended(started, deps)) : await finish(hold, started, killTimeoutMs, deps)
    }
  } catch (error) {
    if (stoppedBy === null) throw error
    return signalCode(stoppedBy)
  }
}

/** Comes back when it is acted although nobody could be asked. */
function withoutHold(error: unknown, { lastResort }: Absence, { tell }: RunDeps): null {
  if (!(error instanceof Problem) || !isOutOfReach(error)) throw error
  const { kind, message, more } = error
  tell({ event: 'unavailable', did: lastResort, kind, detail: message })
  if (lastResort === 'skip') throw new Problem(kind, `${message}; the command is not run`, more)
  return null
}

/** The command, or the exit code of one that cannot be executed: its hold is over then. */
async function start(hold: Hold | null, deps: RunDeps): Promise<Command | number> {
  const { words, env } = deps.command
  const started = await startCommand({ ...deps.command, env: hold === null ? env : { ...env, ...environmentOf(hold) } })
  if ('pid' in started) {
    deps.tell({ event: 'started', command: words[0], pid: started.pid })
    return started
  }
  deps.tell({ event: 'not_started', command: words[0], detail: started.detail })
  if (hold !== null) await release(hold, 'abandoned', deps)
  return started.code
}

/** What the command learns of its hold. The lease is not in it: it is for this process alone. */
function environmentOf({ id, token, slot }: Hold): Record<string, string> {
  return { LOCKKEEPER_HOLD: id, LOCKKEEPER_TOKEN: String(token), LOCKKEEPER_SLOT: String(slot) }
}

async function finish(hold: Hold, command: Command, killTimeoutMs: number, deps: RunDeps): Promise<number> {
  const lost = whenAborted(hold.signal)
  if ((await Promise.race([command.ended, lost])) === null) {
    await end(command, killTimeoutMs, deps)
    return ERRORS.lease_lost.exit
  }
  const code = exitCodeOf(await ended(command, deps))
  await release(hold, code === 0 ? 'done' : 'failed', deps)
  return code
}

/** SIGTERM, and SIGKILL to what is still there after a while. Comes back when the command is over. */
async function end(command: Command, killTimeoutMs: number, deps: RunDeps): Promise<void> {
  const { clock, tell } = deps
  const over = new AbortController()
  const kill = clock.sleep(killTimeoutMs, over.signal).then(
    () => {
      tell({ event: 'killed', detail: 'the command did not end in time' })
      command.send('SIGKILL')
    },
    () => undefined,
  )
  command.send('SIGTERM')
  await ended(command, deps)
  over.abort()
  await kill
}

async function ended(command: Command, { tell }: RunDeps): Promise<Exit> {
  const exit = await command.ended
  tell({ event: 'exited', ...exit })
  return exit
}

async function release(hold: Hold, outcome: Outcome, deps: RunDeps): Promise<void> {
  const answer = await hold.release(outcome)
  if (answer.released) deps.tell({ event: 'released', hold: hold.id, outcome })
  else deps.tell({ event: 'not_released', hold: hold.id, detail: answer.detail })
}

function whenAborted(signal: AbortSignal): Promise<null> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(null)
    else signal.addEventListener('abort', () => resolve(null), { once: true })
  })
}
