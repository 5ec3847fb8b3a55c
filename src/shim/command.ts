import { spawn, type ChildProcess } from 'node:child_process'
import { constants } from 'node:os'

export type Kill = (pid: number, signal: NodeJS.Signals) => void

export interface CommandOptions {
  readonly words: readonly [string, ...string[]]
  readonly env: Readonly<Record<string, string | undefined>>
  /** On a terminal the command shares our process group, so that it keeps the terminal, which then sends Ctrl-C to it directly.
   *  Elsewhere it leads a group of its own, and signals that end it reach what it started as well: of `sh -c 'a && b'` not the
   *  shell alone, or `a` would act on outside of any hold. */
  readonly onTerminal: boolean
  readonly kill: Kill
}
export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}
export interface Command {
  readonly pid: number
  /** When the process itself is over; what it left in the background does not count. */
  readonly ended: Promise<Exit>
  send(signal: NodeJS.Signals): void
}
/** `code` as a shell gives it: 127 not found, 126 not to be executed. */
export interface NotStarted {
  readonly code: 126 | 127
  readonly detail: string
}

/** What else is sent (SIGUSR1, SIGUSR2) would end whatever does not expect it: it is for the command alone. */
const ENDING: ReadonlySet<NodeJS.Signals> = new Set(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGKILL'])

/** Starts the words as they are, without a shell, on our own stdin, stdout and stderr. */
export async function startCommand(options: CommandOptions): Promise<Command | NotStarted> {
  const { words, env, onTerminal, kill } = options
  const [file, ...rest] = words
  let child: ChildProcess
  try {
    child = spawn(file, rest, { stdio: 'inherit', env: { ...env }, detached: !onTerminal })
  } catch (error) {
    return notStarted(error)
  }
  const { pid } = child
  if (pid === undefined) return await new Promise((resolve) => child.once('error', (error) => resolve(notStarted(error))))
  // A process that is there reports later errors (a signal that cannot be sent) here; its exit is what counts.
  child.on('error', () => undefined)
  let over = false
  const ended = new Promise<Exit>((resolve) =>
    child.once('exit', (code, signal) => {
      over = true
      resolve({ code, signal })
    }),
  )
  return {
    pid,
    ended,
    send(signal) {
      // Its number may belong to somebody else by now.
      if (over) return
      try {
        kill(onTerminal || !ENDING.has(signal) ? pid : -pid, signal)
      } catch {
        // It is over, and its exit is on its way.
      }
    },
  }
}

/** What a shell makes of it: 128 and the number of the signal. */
export function exitCodeOf({ code, signal }: Exit): number {
  return signal === null ? (code ?? 1) : signalCode(signal)
}

export function signalCode(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal]
}

function notStarted(error: unknown): NotStarted {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return { code: code === 'ENOENT' ? 127 : 126, detail: error instanceof Error ? error.message : String(error) }
}
