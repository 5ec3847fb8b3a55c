// The stored queue of one scope: its request variables, as the newest list and our own writes show them. CreateIndex is the order.
import type { Variable, VariableMeta } from './ports.ts'
import { readRequest, type ManagedRecord, type RequestRecord } from './records.ts'

export interface Entry {
  readonly path: string
  readonly createIndex: number
  readonly modifyIndex: number
  /** Undefined: not read yet. Null: not a request that we can read; it orders nobody. */
  readonly record: RequestRecord | null | undefined
  /** Monotonic time at which its record was known here. */
  readonly knownAt: number
}
export interface ManagedEntry extends Entry {
  readonly record: ManagedRecord
}

/** A request variable, as it was read at this monotonic time. */
export function entryOf({ path, createIndex, modifyIndex, items }: Variable, knownAt: number): Entry {
  return { path, createIndex, modifyIndex, record: readRequest(items), knownAt }
}

export function isManaged(entry: Entry): entry is ManagedEntry {
  return entry.record?.via === null
}

export interface Queue {
  /** Every request that was committed before this index is in. */
  readonly index: number
  /** Monotonic time at which the newest list was asked for. */
  readonly at: number
  readonly entries: ReadonlyMap<string, Entry>
}
/** The queue as its owner keeps it. Changed in place: a copy for each of ten thousand requests would be most of the work. */
export interface OwnQueue extends Queue {
  readonly entries: Map<string, Entry>
  /** What we removed, with an index at which it was gone: an older list still shows it. One of that very index tells the truth. */
  readonly removed: Map<string, number>
}

export function emptyQueue(): OwnQueue {
  return { index: 0, at: -Infinity, entries: new Map(), removed: new Map() }
}

/** The queue as a list shows it. What we wrote or removed after that list was made stays as it is. */
export function withList(queue: OwnQueue, folder: string, index: number, at: number, metas: Iterable<VariableMeta>): OwnQueue {
  const entries = new Map([...queue.entries].filter(([, { modifyIndex }]) => modifyIndex > index))
  for (const meta of metas) {
    // A component's requests lie one folder deeper.
    if (!meta.path.startsWith(folder) || meta.path.includes('/', folder.length)) continue
    if (entries.has(meta.path) || (queue.removed.get(meta.path) ?? 0) > index) continue
    const known = queue.entries.get(meta.path)
    entries.set(meta.path, known?.modifyIndex === meta.modifyIndex ? known : { ...meta, record: undefined, knownAt: Infinity })
  }
  const removed = new Map([...queue.removed].filter(([, goneAt]) => goneAt > index))
  return { index: Math.max(index, queue.index), at: Math.max(at, queue.at), entries, removed }
}

export function putEntry(queue: OwnQueue, entry: Entry): void {
  queue.removed.delete(entry.path)
  queue.entries.set(entry.path, entry)
}

export function dropEntry(queue: OwnQueue, path: string, goneAt: number): void {
  queue.entries.delete(path)
  queue.removed.set(path, goneAt)
}
