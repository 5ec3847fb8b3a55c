// The stored requests of one scope: what is known of them, reading them, and removing them by check-and-set.
import type { EndState } from '../core/request.ts'
import type { Scope } from '../core/scope.ts'
import type { Hold, State } from '../core/state.ts'
import type { Paths } from './paths.ts'
import type { Clock, VariableMeta, Variables } from './ports.ts'
import {
  dropEntry,
  emptyQueue,
  entryOf,
  isManaged,
  putEntry,
  withList,
  type Entry,
  type ManagedEntry,
  type Queue,
} from './queue.ts'
import type { RequestMemory } from './request-memory.ts'
import { waiterId, type WaitingRoom } from './waiting-room.ts'

export interface QueueDeps {
  readonly variables: Variables
  readonly clock: Clock
  readonly paths: Paths
  readonly memory: RequestMemory
  /** Of the keeper's life. */
  readonly signal: AbortSignal
}

export class StoredQueue {
  readonly #deps: QueueDeps
  readonly #scope: Scope
  readonly #room: WaitingRoom
  readonly #isAnother: () => void
  /** By token: what was granted elsewhere, and the index of the list that had it last. */
  readonly #consumed = new Map<number, { readonly entry: Entry; readonly at: number }>()
  #queue = emptyQueue()

  /** `isAnother` is called when what was to be removed turned out to be a newer request. */
  constructor(deps: QueueDeps, scope: Scope, room: WaitingRoom, isAnother: () => void) {
    this.#deps = deps
    this.#scope = scope
    this.#room = room
    this.#isAnother = isAnother
  }

  get known(): Queue {
    return this.#queue
  }

  see(index: number, at: number, metas: Iterable<VariableMeta>): void {
    this.#queue = withList(this.#queue, this.#deps.paths.requestsOf(this.#scope), index, at, metas)
  }

  /** The requests of its holds are granted, as a state at `index` shows: they wait no more, although an older list has them. One
   *  whose hold ended otherwise than by its actor's release (taken back, say, or by force before its asker was told) has its place
   *  again, until a newer list tells. */
  consume({ holds, transitions }: State, index: number): void {
    for (const [token, { entry, at }] of this.#consumed) {
      const isReleased = transitions.some((one) => one.kind === 'released' && one.token === token)
      const isBack = !isReleased && holds.every((hold) => hold.token !== token)
      if (isBack && this.#queue.index === at) putEntry(this.#queue, entry)
      if (isBack || this.#queue.index > at) this.#consumed.delete(token)
    }
    for (const { unit, key, request, token, managed } of holds) {
      if (managed) continue
      const path = this.#deps.paths.request(this.#scope, unit)
      const entry = this.#queue.entries.get(path)
      const isOurs = this.#room.get(waiterId({ unit, key })) !== null
      if (entry === undefined || entry.modifyIndex !== request || isOurs) continue
      dropEntry(this.#queue, path, index)
      this.#consumed.set(token, { entry, at: this.#queue.index })
    }
  }

  /** First the request, then the slot (protocol M5): removes the request that was granted at this index, if it is still the same. */
  async finish({ unit, request, managed, outcome }: Hold): Promise<void> {
    // Nobody knows that it was done: its request is judged by what was started since, and stays until then (protocol M7).
    if (managed && outcome !== 'done') return
    const { paths } = this.#deps
    const path = managed ? paths.managedRequest(this.#scope, unit) : paths.request(this.#scope, unit)
    const entry = this.#queue.entries.get(path)
    if (entry !== undefined && entry.modifyIndex === request) return await this.remove(entry)
    // A list may not show it yet, but it is there: nobody else removes it while its hold lasts.
    if (managed && request !== null) await this.remove({ path, modifyIndex: request })
  }

  /** A managed request has nothing left to do. */
  async end(entry: ManagedEntry, state: EndState, reason: string): Promise<void> {
    await this.remove(entry)
    this.#deps.memory.end(entry.record.key, state, reason)
  }

  async list(): Promise<void> {
    const { variables, paths, clock, signal } = this.#deps
    const at = clock.now()
    const list = await variables.list(paths.requestsOf(this.#scope), undefined, signal)
    this.see(list.index, at, list.variables)
  }

  async read(path: string): Promise<void> {
    const { variable, index } = await this.#deps.variables.get(path, undefined, this.#deps.signal)
    // A leader that was deposed may show what was before (facts §2).
    if ((variable?.modifyIndex ?? index) < (this.#queue.entries.get(path)?.modifyIndex ?? 0)) return
    if (variable === null) dropEntry(this.#queue, path, index)
    else this.put(entryOf(variable, this.#deps.clock.now()))
  }

  /** As it was just read or written, perhaps before a list shows it. */
  put(entry: Entry): void {
    putEntry(this.#queue, entry)
    if (isManaged(entry)) this.#deps.memory.know(entry.record)
  }

  /** It is gone, or given up, and no list that is older than this index tells otherwise. */
  forget(path: string, goneAt: number): void {
    dropEntry(this.#queue, path, goneAt)
  }

  async remove(entry: Pick<Entry, 'path' | 'modifyIndex'>): Promise<void> {
    const removed = await this.#deps.variables
      .remove(entry.path, entry.modifyIndex, this.#deps.signal)
      .catch((error: unknown) => {
        // Whether it is gone, the next list tells.
        if (!this.#queue.entries.has(entry.path)) dropEntry(this.#queue, entry.path, this.#queue.index)
        throw error
      })
    if (removed.kind === 'conflict' && removed.current !== null) {
      await this.read(entry.path)
      return this.#isAnother()
    }
    dropEntry(this.#queue, entry.path, removed.kind === 'removed' ? removed.index : this.#queue.index)
  }
}
