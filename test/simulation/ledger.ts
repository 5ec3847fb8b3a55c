import { contains, type Scope } from '../../src/core/scope.ts'
import type { State, Hold } from '../../src/core/state.ts'
import type { RequestRecord } from '../../src/keeper/records.ts'
import { levelOf } from '../../src/keeper/records.ts'
import type { Committed } from './tap.ts'
import type { Told } from './replica.ts'

/** Everything that was promised is promised of these: what Nomad has committed, in its order. */
export class Violation extends Error {
  readonly invariant: string

  constructor(invariant: string, text: string) {
    super(`${invariant}: ${text}`)
    this.invariant = invariant
  }
}

/** What is remembered of a hold, also when it is over. */
export interface HoldStory {
  readonly id: string
  readonly scope: Scope
  readonly path: string
  hold: Hold
  /** True time at which it was committed. */
  readonly grantedAt: number
  readonly told: Told[]
  readonly acts: Act[]
  /** Units that were truly down, and had been for longer than any view lags, when it was committed; by place. */
  readonly downBefore: ReadonlyMap<string, { readonly unit: string; readonly since: number }>
  /** What else was held when it was committed. */
  readonly heldBefore: readonly HoldStory[]
  over: { readonly how: string; readonly at: number } | null
}

/** An act under a hold. */
export interface Act {
  readonly shim: string
  readonly unit: string
  readonly action: 'restart' | 'signal' | 'replace' | 'nothing'
  readonly beganAt: number
  /** When it took effect; null: not yet, or never. */
  effectAt: number | null
  /** Whether it may still take effect. */
  inFlight: boolean
}

export interface StoredRequest {
  readonly path: string
  readonly createIndex: number
  readonly modifyIndex: number
  /** Since when it has its place in the queue: a merge may give it another one. */
  readonly placedAt: number
  readonly placedIndex: number
  readonly record: RequestRecord
}

export interface OperatorLockStory {
  readonly path: string
  readonly index: number
  readonly shuts: (scope: Scope) => boolean
  removed: number | null
}

export interface Semaphore {
  readonly scope: Scope
  readonly index: number
  readonly state: State
}

export class Ledger {
  readonly semaphores = new Map<string, Semaphore>()
  /** Highest token of a scope there ever was; survives a deletion. */
  readonly tokens = new Map<string, number>()
  readonly holds = new Map<string, HoldStory>()
  readonly requests = new Map<string, StoredRequest>()
  /** Requests whose removal was begun, with the ModifyIndex that is to be removed. */
  readonly givenUp = new Map<string, number>()
  readonly locks: OperatorLockStory[] = []
  /** By hold and lease: index of the commit that gave the one this lease. */
  readonly leaseGiven = new Map<string, number>()
  /** Holds that an operator ended, or may be ending, by force; scopes in which one says resume. */
  readonly forced = new Set<string>()
  readonly resumed = new Set<string>()
  /** What was stored last at a path, and when it was removed. */
  readonly removedRequests = new Map<string, { readonly request: StoredRequest; readonly index: number; readonly at: number }>()
  /** Ids of requests that somebody may be withdrawing. */
  readonly cancelled = new Set<string>()
  commits = 0

  noteRequest({ kind, path, index, items, at }: Committed): void {
    const before = this.requests.get(path)
    if (kind === 'remove') {
      this.requests.delete(path)
      if (before !== undefined) this.removedRequests.set(path, { request: before, index, at })
    }
    if (kind !== 'put') return
    const record = JSON.parse(items['request'] ?? 'null') as RequestRecord | null
    if (record === null) return
    const createIndex = before?.createIndex ?? index
    const place = hasKeptPlace(before, record) ? before : { placedAt: at, placedIndex: index }
    const { placedAt, placedIndex } = place
    this.requests.set(path, { path, createIndex, modifyIndex: index, placedAt, placedIndex, record })
  }

  /** An operator has removed the state: all that was held is over by force, except that tokens go on rising. */
  removed(path: string, at: number): void {
    for (const { id } of this.semaphores.get(path)?.state.holds ?? []) {
      this.forced.add(id)
      const story = this.holds.get(id)
      if (story !== undefined) story.over = { how: 'removed', at }
    }
    this.semaphores.delete(path)
  }

  noteLock({ kind, path, index, items }: Committed): void {
    if (path.endsWith('/~sentinel')) return
    const there = this.locks.find((lock) => lock.path === path && lock.removed === null)
    if (there !== undefined) there.removed = index
    if (kind !== 'put') return
    const level = levelOf(items) ?? {}
    this.locks.push({ path, index, shuts: (scope) => contains(level, scope), removed: null })
  }

  /** The lock that shut the scope when `index` was committed, and still does. */
  lockAt(index: number, scope: Scope): OperatorLockStory | undefined {
    return this.locks.find((lock) => lock.index < index && lock.removed === null && lock.shuts(scope))
  }
}

function hasKeptPlace(before: StoredRequest | undefined, { key, priority, deadline }: RequestRecord): before is StoredRequest {
  return before?.record.key === key && before.record.priority === priority && before.record.deadline === deadline
}
