// What follows from the files of a task that were seen: is a file newer than the process that should have read it?
import type { TaskWatch } from './watch.ts'

/** A file as it lies there. `path` as people name it; `mtime`: milliseconds since the epoch, on its host's clock. */
export interface SeenFile {
  readonly path: string
  readonly mtime: number
}

/** What is kept about a file for which a StartedAt cannot tell: it is dated after a start that may be none of its business. */
export interface Remembered {
  readonly task: string
  readonly path: string
  readonly mtime: number
  /** Of the process that ran when this was written down. */
  readonly startedAt: number
  /** Wall time of whoever wrote it down. */
  readonly at: number
  /** How many times in a row the file was new again as soon as it was acted on. From two on it is found out. */
  readonly times: number
}

/** `current`: the process has it, or was told of it. `changed`: it is to be acted on. `found_out`: acting on it only makes it new again. */
export type Verdict = 'current' | 'changed' | 'found_out'

export interface Decision {
  readonly verdict: Verdict
  /** What is to be stored about the file from now on: before a restart is asked for, after a signal was. Null: nothing. */
  readonly remember: Remembered | null
}

/** A file that a task writes while it starts is dated so soon after its start. Later than that it looks like any change. */
const SOON_MS = 60_000
/** After so long a start has nothing to do any more with when the file is written. Also between clocks of different hosts, so it is
 *  generous. */
const PROVED_MS = 600_000
/** What was found out is acted on again when it has changed later, and stayed so for this long: nobody writes it all the time. */
const STILL_MS = 300_000
/** From so many times in a row on, see `times`. */
export const FOUND_OUT = 2

/** Judges one file of a task that runs since `startedAt`. `wall`: our own time, which decides nothing that seconds matter to.
 *
 *  Where it ends: what changes between the start of a process and the StartedAt that Nomad writes down looks current; a task that
 *  rewrites its file later than a minute after its start is taken for one whose secrets rotate. */
export function judge(file: SeenFile, watch: TaskWatch, startedAt: number, known: Remembered | null, wall: number): Decision {
  const { path, mtime } = file
  if (mtime <= startedAt) return { verdict: 'current', remember: wall - startedAt > PROVED_MS ? null : known }
  const entry = (times: number): Remembered => ({ task: watch.task, path, mtime, startedAt, at: wall, times })
  const isSame = known?.mtime === mtime
  if (watch.action === 'signal') {
    if (known === null) return { verdict: 'changed', remember: entry(0) }
    if (isSame) return { verdict: known.times >= FOUND_OUT ? 'found_out' : 'current', remember: known }
    // Nobody is started anew by a signal: how close the next change came to the last act is all there is.
    const isAgain = mtime - Math.max(known.mtime, known.at) <= SOON_MS
    if (isAgain && known.times + 1 >= FOUND_OUT) return { verdict: 'found_out', remember: entry(FOUND_OUT) }
    return { verdict: 'changed', remember: entry(isAgain ? known.times + 1 : 0) }
  }
  const isAgain = isSame || mtime - startedAt <= SOON_MS
  if (known !== null && known.times >= FOUND_OUT)
    return { verdict: isAgain || wall - mtime < STILL_MS ? 'found_out' : 'changed', remember: known }
  if (known !== null && isAgain && startedAt > known.startedAt) return { verdict: 'found_out', remember: entry(FOUND_OUT) }
  const isNoted = known !== null && known.startedAt === startedAt
  if (isNoted && (isAgain || mtime - startedAt <= PROVED_MS)) return { verdict: 'changed', remember: known }
  return { verdict: 'changed', remember: isAgain || isDatedAhead(file, wall) ? entry(1) : null }
}

/** Whether the file's own date may be given as what a start must be later than: not when no start can be. */
export function isDatedAhead({ mtime }: SeenFile, wall: number): boolean {
  return mtime - wall > SOON_MS
}
