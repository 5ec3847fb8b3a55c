import type { Timers } from './timers.ts'

export type Table =
  'variables' | 'jobs' | 'allocs' | 'deployments' | 'nodes' | 'namespaces' | 'evals' | 'acl' | 'keyring' | 'services'

interface Waiter {
  readonly tables: readonly Table[]
  readonly wake: (state: 'changed' | 'lost' | 'spurious') => void
}

/** The servers' log, without its content: one index counter, the last index of every table, and who waits for changes.
 *  A write that changes nothing (a failed check-and-set) still takes an index (measured). */
export class Raft {
  #index = 6
  readonly #tables = new Map<Table, number>()
  readonly #waiters = new Set<Waiter>()
  readonly #listeners = new Set<(tables: readonly Table[], index: number) => void>()
  readonly #timers: Timers
  readonly #random: () => number
  readonly #spurious: number

  constructor(timers: Timers, random: () => number, spuriousWakes = 0) {
    this.#spurious = spuriousWakes
    this.#timers = timers
    this.#random = random
  }

  get index(): number {
    return this.#index
  }

  /** Takes the next index; with tables, they changed at it, and everybody who waits for one of them looks again. */
  commit(...tables: Table[]): number {
    this.#index += 1
    for (const table of tables) this.#tables.set(table, this.#index)
    for (const waiter of this.#waiters) {
      if (this.#spurious > 0 && this.#random() < this.#spurious) waiter.wake('spurious')
      else if (waiter.tables.some((table) => tables.includes(table))) waiter.wake('changed')
    }
    for (const listener of this.#listeners) listener(tables, this.#index)
    return this.#index
  }

  /** Tells every change of a table at once, while it is being made. Returns what ends it. */
  listen(listener: (tables: readonly Table[], index: number) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  tableIndex(...tables: Table[]): number {
    return Math.max(...tables.map((table) => this.#tables.get(table) ?? 0))
  }

  /** A blocking query: answers when `read` yields an index past `index`, or after `waitMs` and its jitter of up to a
   *  sixteenth. Rejects when the leader is lost, the caller gives up, or everything closes. */
  async block<T extends { index: number }>(
    query: { index: number; waitMs: number; tables: readonly Table[] },
    read: () => T,
    signal?: AbortSignal,
  ): Promise<T> {
    signal?.throwIfAborted()
    let answer = read()
    if (query.index === 0 || answer.index > query.index) return answer
    let over = false
    let wake = (_state: 'changed' | 'lost' | 'over' | 'spurious'): void => {}
    const woken = (): Promise<'changed' | 'lost' | 'over' | 'spurious'> => new Promise((resolve) => (wake = resolve))
    let next = woken()
    const waiter: Waiter = { tables: query.tables, wake: (state) => wake(state) }
    this.#waiters.add(waiter)
    const cancel = this.#timers.after(query.waitMs + (this.#random() * query.waitMs) / 16, () => {
      over = true
      wake('over')
    })
    const leave = (): void => wake('over')
    signal?.addEventListener('abort', leave, { once: true })
    try {
      for (;;) {
        const state = await next
        next = woken()
        signal?.throwIfAborted()
        if (state === 'lost') throw new LeaderLost()
        answer = read()
        if (over || state === 'spurious' || answer.index > query.index) return answer
      }
    } finally {
      cancel()
      this.#waiters.delete(waiter)
      signal?.removeEventListener('abort', leave)
    }
  }

  /** Everybody who waits looks again. With `spurious` all are answered too, though nothing has changed. */
  wake(spurious = false): void {
    for (const waiter of this.#waiters) waiter.wake(spurious ? 'spurious' : 'changed')
  }

  /** Fails everybody who waits. */
  dropWaiters(): void {
    for (const waiter of this.#waiters) waiter.wake('lost')
  }
}

/** The leader went away under a waiting query. */
export class LeaderLost extends Error {
  constructor(text = 'rpc error: EOF') {
    super(text)
    this.name = 'LeaderLost'
  }
}
