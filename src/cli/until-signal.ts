import { signalCode } from '../shim/command.ts'
import type { Io } from './io.ts'

export interface Closable {
  close(): Promise<void>
}

/** What the drain may take: long polls are sent away at once, releases under way need an answer of Nomad. */
const DRAIN_MS = 20_000

/** Starts something, waits for SIGTERM or SIGINT, then closes it. 0: closed. A second signal, or a drain that takes too long, ends at
 *  once and is told in the exit code; what was left undone another replica finishes. */
export async function untilSignal(name: string, start: () => Promise<Closable>, io: Io): Promise<number> {
  const { listen, clock, stderr } = io
  let begin = () => {}
  let cut: (code: number) => void = () => {}
  const first = new Promise<void>((resolve) => (begin = resolve))
  const second = new Promise<number>((resolve) => (cut = resolve))
  let seen = 0
  // From before the start: what is half started has leases to give back, too.
  const unlisten = listen(['SIGTERM', 'SIGINT'], (signal) => {
    seen++
    if (seen > 1) return cut(signalCode(signal))
    stderr.write(`${name}: ${signal}, closing; a second signal ends at once\n`)
    begin()
  })
  const over = new AbortController()
  // Its time stands before the drain begins: that may block.
  const late = first
    .then(() => clock.sleep(DRAIN_MS, over.signal))
    .then(() => {
      stderr.write(`${name}: not closed after ${DRAIN_MS / 1_000}s, ending at once\n`)
      return 1
    })
  const closed = start().then(async (started) => {
    await first
    await started.close()
    return 0
  })
  try {
    return await Promise.race([closed, second, late])
  } finally {
    over.abort()
    unlisten()
  }
}
