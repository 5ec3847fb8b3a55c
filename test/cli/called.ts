import { randomUUID } from 'node:crypto'
import type { Env, Io } from '../../src/cli/io.ts'
import { main } from '../../src/cli/main.ts'
import { systemClock } from '../../src/keeper/clock.ts'

export interface Called {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Calls `main` in here, with streams that are read afterwards. Signals do not come. */
export async function called(argv: readonly string[], env: Env = {}, more: Partial<Io> = {}): Promise<Called> {
  const written = { stdout: '', stderr: '' }
  const writer = (name: 'stdout' | 'stderr') => ({ write: (text: string) => void (written[name] += text), isTTY: false })
  const code = await main(
    argv,
    { PATH: process.env['PATH'], ...env },
    {
      stdout: writer('stdout'),
      stderr: writer('stderr'),
      onTerminal: false,
      listen: () => () => undefined,
      kill: (pid, signal) => void process.kill(pid, signal),
      clock: systemClock,
      newId: randomUUID,
      random: () => 0.5,
      ...more,
    },
  )
  return { code, ...written }
}
