import type { Allocation } from '../../core/cluster.ts'
import type { Remembered } from '../../core/watch-decision.ts'
import type { Paths } from '../paths.ts'
import type { Variable, Variables } from '../ports.ts'
import type { Snapshot } from '../watch.ts'

/** How often a write that lost its check-and-set is made anew. */
const MOST_TRIES = 4

interface Known {
  /** 0: nothing is stored. */
  readonly index: number
  readonly files: readonly Remembered[]
}

/** What is kept about watched files of an allocation, at `watch/<allocation>`, by check-and-set. Most allocations have nothing there:
 *  for a restart, the StartedAt of the task tells what it has read. */
export class WatchMemory {
  readonly #variables: Variables
  readonly #paths: Paths
  readonly #snapshot: () => Snapshot
  readonly #known = new Map<string, Known>()

  constructor(variables: Variables, paths: Paths, snapshot: () => Snapshot) {
    this.#variables = variables
    this.#paths = paths
    this.#snapshot = snapshot
  }

  /** Whether the newest list shows something about the allocation. A list may be late: it decides nothing. */
  has(allocation: string): boolean {
    return this.#listed(allocation) !== undefined || (this.#known.get(allocation)?.index ?? 0) > 0
  }

  /** Reads it unless what is known is as new as the list. */
  async read(allocation: string, signal: AbortSignal): Promise<readonly Remembered[]> {
    const known = this.#known.get(allocation)
    if (known !== undefined && known.index >= (this.#listed(allocation)?.modifyIndex ?? 0)) return known.files
    const { variable } = await this.#variables.get(this.#pathOf(allocation), undefined, signal)
    return this.#keep(allocation, variable).files
  }

  /** Stores what has changed of it; `null` forgets a file. Whoever was faster is not overwritten: the change is made to what is there. */
  async write(allocation: Allocation, changes: readonly Change[], signal: AbortSignal): Promise<void> {
    await this.read(allocation.id, signal)
    for (let tries = 1; ; tries++) {
      const known = this.#known.get(allocation.id) ?? { index: 0, files: [] }
      const files = changes.reduce(applied, known.files)
      if (JSON.stringify(files) === JSON.stringify(known.files)) return
      const path = this.#pathOf(allocation.id)
      const answer =
        files.length === 0
          ? await this.#variables.remove(path, known.index, signal)
          : await this.#variables.put(path, itemsOf(allocation, files), known.index, signal)
      if (answer.kind !== 'conflict') {
        this.#known.set(allocation.id, { index: answer.kind === 'written' ? answer.index : 0, files })
        return
      }
      this.#keep(allocation.id, answer.current)
      if (tries >= MOST_TRIES) throw new Error('what is remembered of this allocation is changed by others all the time')
    }
  }

  /** All allocations that something is stored about, by the newest list. */
  listed(): string[] {
    const { watch, watchReports } = this.#paths
    return [...this.#snapshot().entries.keys()]
      .filter((path) => path.startsWith(watch) && !path.startsWith(watchReports))
      .map((path) => path.slice(watch.length))
  }

  /** Keeps in mind only what is about these. */
  retain(isWatched: (allocation: string) => boolean): void {
    for (const id of this.#known.keys()) if (!isWatched(id)) this.#known.delete(id)
  }

  async forget(allocation: string, signal: AbortSignal): Promise<void> {
    this.#known.delete(allocation)
    const meta = this.#listed(allocation)
    if (meta !== undefined) await this.#variables.remove(meta.path, meta.modifyIndex, signal)
  }

  #keep(allocation: string, variable: Variable | null): Known {
    const known = variable === null ? { index: 0, files: [] } : { index: variable.modifyIndex, files: filesIn(variable) }
    this.#known.set(allocation, known)
    return known
  }

  #listed(allocation: string) {
    return this.#snapshot().entries.get(this.#pathOf(allocation))
  }

  #pathOf(allocation: string): string {
    return `${this.#paths.watch}${allocation}`
  }
}

/** What is to be stored about one file; `remember` null: nothing. */
export interface Change {
  readonly task: string
  readonly path: string
  readonly remember: Remembered | null
}

function applied(files: readonly Remembered[], { task, path, remember }: Change): readonly Remembered[] {
  const at = files.findIndex((file) => file.task === task && file.path === path)
  if (remember === null) return at < 0 ? files : files.toSpliced(at, 1)
  return at < 0 ? [...files, remember] : files.with(at, { ...files[at], ...remember })
}

function itemsOf({ namespace, job, group, name }: Allocation, files: readonly Remembered[]) {
  return { about: `watched files of ${name}`, scope: JSON.stringify({ namespace, job, group }), files: JSON.stringify(files) }
}

/** What cannot be read counts as nothing: then a file may be acted on once more, and is written down anew. */
function filesIn({ items }: Variable): readonly Remembered[] {
  try {
    const files: unknown = JSON.parse(items['files'] ?? '[]')
    return Array.isArray(files) ? files.filter(isRemembered) : []
  } catch {
    return []
  }
}

function isRemembered(value: unknown): value is Remembered {
  const { task, path, mtime, startedAt, at, times } = (value ?? {}) as Partial<Remembered>
  return (
    typeof task === 'string' && typeof path === 'string' && [mtime, startedAt, at, times].every((one) => typeof one === 'number')
  )
}
