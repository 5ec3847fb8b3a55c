import { NomadFault } from '../../core/nomad-fault.ts'
import { isPattern, matches, type GroupWatch, type WatchedPath } from '../../core/watch.ts'
import type { SeenFile } from '../../core/watch-decision.ts'
import type { Clock, Files } from '../ports.ts'

/** One call to the file API, and the watched paths that it answers for. */
export interface Call {
  readonly kind: 'stat' | 'list'
  /** In the allocation's directory. */
  readonly path: string
  readonly for: readonly { readonly task: string; readonly path: WatchedPath }[]
}

/** What one look at an allocation showed. */
export interface Sight {
  /** By task. */
  readonly files: ReadonlyMap<string, readonly SeenFile[]>
  /** Why something of it is not known; empty: all was seen. */
  readonly unknown: readonly string[]
  /** Why other looks will meet the same for a while: the client of the node is away, the right is missing in the namespace, or there
   *  is more than is looked at. Null: nothing of that. */
  readonly blocked: 'away' | 'denied' | 'too_many' | null
}

/** An agent that does not answer for so long is away. */
const BOUND_MS = 3_000
/** More files than that are not kept in mind for one allocation. */
const MAX_FILES = 100

/** One `stat` for an exact name, one `list` for a folder with patterns; what several tasks share is asked once. */
export function callsOf({ tasks }: GroupWatch): readonly Call[] {
  const calls = new Map<string, Call>()
  for (const { task, paths } of tasks) {
    for (const path of paths) {
      const kind = isPattern(path) ? 'list' : 'stat'
      const at = kind === 'list' ? path.folder : `${path.folder}/${path.name}`
      const known = calls.get(`${kind} ${at}`)
      calls.set(`${kind} ${at}`, { kind, path: at, for: [...(known?.for ?? []), { task, path }] })
    }
  }
  return [...calls.values()]
}

/** Makes the calls one after another; ends with the first that shows that the others would fail as well. */
export async function look(
  files: Files,
  clock: Clock,
  allocation: string,
  calls: readonly Call[],
  signal: AbortSignal,
): Promise<Sight> {
  const seen = new Map<string, SeenFile[]>()
  const found = new Set<string>()
  const unknown: string[] = []
  let count = 0
  let blocked: Sight['blocked'] = null
  for (const call of calls) {
    try {
      const entries = await clock.within(BOUND_MS, signal, (bounded) => entriesOf(files, allocation, call, bounded))
      if (entries === 'too_many') {
        unknown.push(`${folderOf(call)} holds too many files to be watched: name them, or give them a folder of their own`)
        blocked = 'too_many'
        continue
      }
      for (const { task, path } of call.for) {
        for (const entry of entries.filter(({ name, isDirectory }) => !isDirectory && matches(path, name))) {
          found.add(path.path)
          const shown = `${path.path.slice(0, path.path.lastIndexOf('/') + 1)}${entry.name}`
          const known = seen.get(task) ?? []
          if (known.some((file) => file.path === shown)) continue
          seen.set(task, [...known, { path: shown, mtime: entry.mtime }])
          count++
        }
      }
      if (count > MAX_FILES) return nothing(`more than ${MAX_FILES} files match: name fewer`, 'too_many')
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof NomadFault)) return nothing('the client of its node gives no answer', 'away')
      if (error.kind === 'unavailable') return nothing(error.message, 'away')
      if (error.kind === 'denied') return nothing(error.message, 'denied')
      unknown.push(error.message)
    }
  }
  if (unknown.length === 0) {
    const paths = new Set(calls.flatMap((call) => call.for.map(({ path }) => path.path)))
    for (const path of paths) if (!found.has(path)) unknown.push(`no task has a file ${path}`)
  }
  return { files: seen, unknown, blocked }
}

function nothing(why: string, blocked: Sight['blocked']): Sight {
  return { files: new Map(), unknown: [why], blocked }
}

async function entriesOf(files: Files, allocation: string, { kind, path }: Call, signal: AbortSignal) {
  if (kind === 'list') return (await files.list(allocation, path, signal)) ?? []
  const entry = await files.stat(allocation, path, signal)
  return entry === null ? [] : [entry]
}

function folderOf(call: Call): string {
  const path = call.for[0]?.path.path ?? call.path
  return path.slice(0, path.lastIndexOf('/'))
}
