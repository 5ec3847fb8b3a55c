// One list of everything below our prefix, again and again: hints that something changed, with a slow resync as the guarantee.
import type { Clock, Log, VariableMeta, Variables } from './ports.ts'

/** What one list showed. `index`: everything committed before it is in. `at`: monotonic time at which the list was asked for. */
export interface Snapshot {
  readonly index: number
  readonly at: number
  readonly entries: ReadonlyMap<string, VariableMeta>
}
export const NOTHING_SEEN: Snapshot = { index: 0, at: -Infinity, entries: new Map() }

const RESYNC_MS = 10_000
/** At most four lists a second, and fewer when a list is so long that reading it takes a twentieth of the time. */
const PAUSE_MS = 250
const PAUSE_PER_ENTRY_MS = 0.1
const FAILED_PAUSE_MS = 1_000

export type Changed = (snapshot: Snapshot, paths: readonly string[]) => void

/** Runs until the signal aborts. `changed` is told each snapshot with the paths that came, changed or went since the last one;
 *  also without any, so that whoever waits for a newer index sees it. */
export async function watchVariables(
  variables: Variables,
  prefix: string,
  clock: Clock,
  log: Log,
  changed: Changed,
  signal: AbortSignal,
): Promise<void> {
  let last = NOTHING_SEEN
  while (!signal.aborted) {
    let pause = FAILED_PAUSE_MS
    try {
      const at = clock.now()
      const list = await variables.list(`${prefix}/`, { index: last.index, waitMs: RESYNC_MS }, signal)
      const snapshot = { index: list.index, at, entries: new Map(list.variables.map((meta) => [meta.path, meta])) }
      changed(snapshot, changedPaths(last, snapshot))
      last = snapshot
      pause = Math.max(PAUSE_MS, PAUSE_PER_ENTRY_MS * snapshot.entries.size)
    } catch (error) {
      if (!signal.aborted) log.warn({ error: String(error) }, 'the list of our variables cannot be read')
    }
    await clock.sleep(pause, signal).catch(() => undefined)
  }
}

function changedPaths(before: Snapshot, after: Snapshot): string[] {
  const came = [...after.entries.values()].filter((meta) => before.entries.get(meta.path)?.modifyIndex !== meta.modifyIndex)
  const went = [...before.entries.keys()].filter((path) => !after.entries.has(path))
  return [...came.map(({ path }) => path), ...went]
}
