import type { Clock, NewId } from '../keeper/ports.ts'
import type { Kill } from '../shim/command.ts'
import type { ListenToSignals } from '../shim/run.ts'

export interface Writer {
  write(text: string): void
  readonly isTTY: boolean
  /** Of a terminal, as it is now. */
  readonly size?: () => { readonly columns: number; readonly rows: number }
}

/** Everything that a verb may touch of the process it runs in. bin.ts hands in the real one. */
export interface Io {
  /** Results, and nothing else. Of `run` it belongs to the command. */
  readonly stdout: Writer
  readonly stderr: Writer
  /** Whether a person's terminal is in control of us. */
  readonly onTerminal: boolean
  /** Signals that nobody listens to do what they do by default. */
  readonly listen: ListenToSignals
  readonly kill: Kill
  readonly clock: Clock
  readonly newId: NewId
  /** 0 ≤ x < 1 */
  readonly random: () => number
}

export type Env = Readonly<Record<string, string | undefined>>

/** One verb of the command line. Throws Problems: `main` turns them into a line and an exit code. */
export interface Verb {
  readonly help: string
  /** `words`: what follows the verb. Comes back with the exit code. */
  run(words: readonly string[], env: Env, io: Io): Promise<number>
}

export function writeJson(writer: Writer, value: unknown): void {
  writer.write(`${JSON.stringify(value)}\n`)
}

/** Texts come from anywhere (an operator lock may be written by hand): nothing in them may steer a terminal. */
export function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '\ufffd')
}
