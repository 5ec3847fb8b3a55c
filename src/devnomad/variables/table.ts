import type { Raft } from '../raft.ts'
import type { Lock } from './rules.ts'

export interface Variable {
  readonly namespace: string
  readonly path: string
  readonly items: Readonly<Record<string, string>> | null
  readonly lock: Lock | null
  readonly createIndex: number
  readonly createTime: number
  readonly modifyIndex: number
  readonly modifyTime: number
}

/** What a write came to. Whatever it is, it took an index. `conflict` shows what is there, or only the path of a
 *  variable that somebody else has locked (facts §1, §2). */
export type Outcome =
  | { readonly kind: 'done'; readonly index: number; readonly variable: Variable | null }
  | { readonly kind: 'conflict'; readonly current: Variable }
  | { readonly kind: 'error'; readonly text: string }

export interface Write {
  readonly namespace: string
  readonly path: string
  readonly items: Readonly<Record<string, string>> | null
  readonly lock: Lock | null
  /** The ModifyIndex that must be there, 0 for none; undefined: whatever is there. */
  readonly cas: number | undefined
}

/** Told of every change, with the variable as it is, or was before its deletion. */
export type VariableWritten = (variable: Variable, index: number, deleted: boolean) => void

/** What reads need of it. */
export type VariablesView = Pick<VariablesTable, 'get' | 'list' | 'index'>

/** The variables table: what the log's entries do to it. Knows locks as content, not their timers. */
export class VariablesTable {
  readonly #rows: Map<string, Variable>
  readonly #frozenAt: number | undefined
  readonly #raft: Raft
  readonly #written: VariableWritten
  readonly #wall: () => number

  constructor(raft: Raft, wall: () => number, written: VariableWritten, from?: VariablesTable) {
    this.#written = written
    this.#rows = new Map(from?.rows ?? [])
    this.#frozenAt = from?.index
    this.#raft = raft
    this.#wall = wall
  }

  /** Of its last change; an empty table has index 1, so that a first blocking query does block. */
  get index(): number {
    return this.#frozenAt ?? Math.max(1, this.#raft.tableIndex('variables'))
  }

  get rows(): ReadonlyMap<string, Variable> {
    return this.#rows
  }

  get(namespace: string, path: string): Variable | undefined {
    return this.#rows.get(key(namespace, path))
  }

  /** In Nomad's order: by namespace, then path. */
  list(namespace: string, prefix: string): Variable[] {
    return [...this.#rows.values()]
      .filter((row) => (namespace === '*' || row.namespace === namespace) && row.path.startsWith(prefix))
      .sort((a, b) => order(a.namespace, b.namespace) || order(a.path, b.path))
  }

  set(write: Write): Outcome {
    const row = this.get(write.namespace, write.path)
    const conflict = this.#unless(row, write)
    return conflict ?? this.#store(row, write)
  }

  delete(write: Write): Outcome {
    const row = this.get(write.namespace, write.path)
    const conflict = this.#unless(row, write)
    if (conflict !== undefined) return conflict
    if (row === undefined) return { kind: 'done', index: this.#raft.commit(), variable: null }
    this.#rows.delete(key(row.namespace, row.path))
    const index = this.#raft.commit('variables')
    this.#written(row, index, true)
    return { kind: 'done', index, variable: null }
  }

  /** Sets and locks in one; the Items are replaced, and may be none. */
  acquire(write: Write): Outcome {
    return this.set({ ...write, cas: undefined })
  }

  release(namespace: string, path: string, lockId: string): Outcome {
    const row = this.get(namespace, path)
    const blank = this.#mayRelease(row)
    if (blank !== undefined) return blank
    const held = row as Variable
    if (held.lock?.id !== lockId) {
      this.#raft.commit()
      return { kind: 'conflict', current: zero(namespace, path) }
    }
    return this.#unlock(held)
  }

  /** Removes whatever lock is there: expiry does not look whose it is (the late-expiry fault, facts §2). */
  expire(namespace: string, path: string): void {
    const row = this.get(namespace, path)
    if (this.#mayRelease(row) === undefined) this.#unlock(row as Variable)
  }

  #mayRelease(row: Variable | undefined): Outcome | undefined {
    if (row !== undefined && row.lock !== null) return undefined
    this.#raft.commit()
    return { kind: 'error', text: row === undefined ? "variable doesn't exist" : "variable doesn't hold a lock" }
  }

  // ModifyTime stays: only the index tells that the lock has gone.
  #unlock(row: Variable): Outcome {
    const index = this.#raft.commit('variables')
    const variable = { ...row, lock: null, modifyIndex: index }
    this.#rows.set(key(row.namespace, row.path), variable)
    this.#written(variable, index, false)
    return { kind: 'done', index, variable }
  }

  #unless(row: Variable | undefined, write: Write): Outcome | undefined {
    if (write.cas !== undefined && write.cas !== (row?.modifyIndex ?? 0)) {
      this.#raft.commit()
      return { kind: 'conflict', current: row ?? zero(write.namespace, write.path) }
    }
    if (row !== undefined && row.lock !== null && row.lock.id !== write.lock?.id) {
      this.#raft.commit()
      return { kind: 'conflict', current: zero(write.namespace, write.path) }
    }
    return undefined
  }

  #store(row: Variable | undefined, write: Write): Outcome {
    const index = this.#raft.commit('variables')
    const time = this.#wall()
    const variable: Variable = {
      namespace: write.namespace,
      path: write.path,
      items: write.items,
      lock: write.lock,
      createIndex: row?.createIndex ?? index,
      createTime: row?.createTime ?? time,
      modifyIndex: index,
      modifyTime: time,
    }
    this.#rows.set(key(write.namespace, write.path), variable)
    this.#written(variable, index, false)
    return { kind: 'done', index, variable }
  }
}

/** What a conflict shows of a variable that is not there, or not to be seen. */
function zero(namespace: string, path: string): Variable {
  return { namespace, path, items: null, lock: null, createIndex: 0, createTime: 0, modifyIndex: 0, modifyTime: 0 }
}

const key = (namespace: string, path: string): string => `${namespace}\0${path}`
const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
