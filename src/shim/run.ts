import { ERRORS } from '../core/errors.ts'
import type { Outcome } from '../core/state.ts'
import { acquire, type AcquireDeps } from './acquire.ts'
import { exitCodeOf, signalCode, startCommand, type Command, type CommandOptions } from './command.ts'
import type { Hold } from './hold.ts'
import type { Wish } from './service.ts'

export interface RunOptions {
  readonly wish: Wish
  readonly waitMs: number
  readonly killTimeoutMs: number
}
/** Calls the listener for each of these signals until what it returns is called. */
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
 *  Hole: between the last look at the lease and the start of the command the process may be frozen; nothing can see that. */
export async function run({ wish, waitMs, killTimeoutMs }: RunOptions, deps: RunDeps): Promise<number> {
  const { clock, listen, tell } = deps
  const patience = { since: clock.now(), ms: waitMs }
  const stopped = new AbortController()
  let stoppedBy: NodeJS.Signals | null = null
  let command: Command | null = null
  const unlisten = listen([...ENDING, ...OTHERS], (name) => {
    if (command !== null) {
      if (!deps.command.onTerminal || !OF_TERMINAL.has(name)) command.send(name)
    } else if (ENDING.includes(name)) {
      stoppedBy ??= name
      stopped.abort(new Error(`stopped by ${name}`))
    }
  })
  try {
    for (;;) {
      const hold = await acquire(deps, wish, patience, stopped.signal)
      // Nothing may stand between this look and the start.
      if (stopped.signal.aborted || !hold.valid()) {
        await release(hold, 'abandoned', deps)
        stopped.signal.throwIfAborted()
        continue
      }
      const started = await startCommand({ ...deps.command, env: { ...deps.command.env, ...environmentOf(hold) } })
      const [name] = deps.command.words
      if (!('pid' in started)) {
        tell({ event: 'not_started', command: name, detail: started.detail })
        await release(hold, 'abandoned', deps)
        return started.code
      }
      command = started
      tell({ event: 'started', command: name, pid: started.pid })
      return await finish(hold, started, killTimeoutMs, deps)
    }
  } catch (error) {
    if (stoppedBy === null) throw error
    return signalCode(stoppedBy)
  } finally {
    unlisten()
  }
}

/** What the command learns of its hold. The lease is not in it: it is for this process alone. */
function environmentOf({ id, token, slot }: Hold): Record<string, string> {
  return { LOCKKEEPER_HOLD: id, LOCKKEEPER_TOKEN: String(token), LOCKKEEPER_SLOT: String(slot) }
}

async function finish(hold: Hold, command: Command, killTimeoutMs: number, deps: RunDeps): Promise<number> {
  const lost = whenAborted(hold.signal)
  const exit = await Promise.race([command.ended, lost])
  if (exit === null) {
    await end(command, killTimeoutMs, deps)
    return ERRORS.lease_lost.exit
  }
  deps.tell({ event: 'exited', ...exit })
  const code = exitCodeOf(exit)
  await release(hold, code === 0 ? 'done' : 'failed', deps)
  return code
}

/** SIGTERM, and SIGKILL to what is still there after a while. Comes back when the command is over. */
async function end(command: Command, killTimeoutMs: number, { clock, tell }: RunDeps): Promise<void> {
  const over = new AbortController()
  const kill = clock.sleep(killTimeoutMs, over.signal).then(
    () => {
      tell({ event: 'killed', detail: 'the command did not end in time' })
      command.send('SIGKILL')
    },
    () => undefined,
  )
  command.send('SIGTERM')
  tell({ event: 'exited', ...(await command.ended) })
  over.abort()
  await kill
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
