// The semaphores that have something open at this replica, and how they hear of what changes: every list of our variables is
// dealt out to those it concerns.
import type { Scope } from '../core/scope.ts'
import type { Hold } from '../core/state.ts'
import type { ErrandDeps } from './errands.ts'
import { endLostLeases, endOverdue, Observer } from './observer.ts'
import type { VariableMeta } from './ports.ts'
import { scopeOf } from './records.ts'
import { isUntouched } from './replica.ts'
import { Semaphore } from './semaphore.ts'
import { watchVariables, NOTHING_SEEN, type Snapshot } from './watch.ts'

const TICK_MS = 1_000
/** A semaphore with nothing open is forgotten after this; its state stays stored. */
const IDLE_MS = 60_000
/** A lease variable that is not locked any more and belongs to nobody is removed after this. */
const SWEEP_MS = 60_000
const FIRST_LIST_MS = 5_000
/** How many semaphores with waiters here are followed by a blocking read of their own while there are other replicas. */
const MAX_FOLLOWED = 4
const FOLLOW_MS = 30_000

interface Running {
  readonly semaphore: Semaphore
  readonly observer: Observer
  readonly end: AbortController
  readonly done: Promise<unknown>
  idleSince: number | null
}

export class Registry {
  readonly #deps: ErrandDeps
  readonly #running = new Map<string, Running>()
  readonly #deadLeases = new Map<string, number>()
  readonly #followed = new Set<string>()
  readonly firstList: Promise<void>
  #seen: Snapshot = NOTHING_SEEN
  #firstSeen: () => void = () => undefined

  constructor(deps: ErrandDeps) {
    this.#deps = deps
    this.firstList = new Promise((resolve) => (this.#firstSeen = resolve))
  }

  /** The newest list of our variables. */
  get snapshot(): Snapshot {
    return this.#seen
  }

  get waiting(): number {
    return this.all().reduce((sum, { room }) => sum + room.size, 0)
  }

  all(): Semaphore[] {
    return Array.from(this.#running.values(), ({ semaphore }) => semaphore)
  }

  at(path: string): Semaphore | null {
    return this.#running.get(path)?.semaphore ?? null
  }

  findHold(id: string): { hold: Hold; semaphore: Semaphore } | null {
    for (const semaphore of this.all()) {
      const hold = semaphore.state?.holds.find((held) => held.id === id)
      if (hold !== undefined) return { hold, semaphore }
    }
    return null
  }

  /** The running semaphore of a scope; it is started when there is none. */
  ensure(scope: Scope): Semaphore {
    const path = this.#deps.paths.semaphore(scope)
    const known = this.#running.get(path)
    if (known !== undefined) return known.semaphore
    const end = new AbortController()
    const semaphore = new Semaphore(this.#deps, scope, () => observer.wake())
    const observer: Observer = new Observer(this.#deps, semaphore)
    const done = Promise.all([semaphore.run(end.signal), observer.run(end.signal)])
    this.#running.set(path, { semaphore, observer, end, done, idleSince: null })
    semaphore.chores.queue.see(this.#seen.index, this.#seen.at, this.#seen.entries.values())
    return semaphore
  }

  /** Deals out what the lists show, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { variables, paths, clock, log } = this.#deps
    void clock.sleep(FIRST_LIST_MS, signal).then(this.#firstSeen, this.#firstSeen)
    const see = (snapshot: Snapshot, changed: readonly string[]) => this.#see(snapshot, changed)
    await Promise.all([watchVariables(variables, paths.prefix, clock, log, see, signal), this.#tick(signal)])
  }

  async close(): Promise<void> {
    for (const { end } of this.#running.values()) end.abort()
    await Promise.all(Array.from(this.#running.values(), ({ done }) => done))
    const leases = this.all().flatMap(({ room }) => room.all().flatMap(({ lease }) => (lease === null ? [] : [lease])))
    await Promise.all(leases.map((lease) => lease.end()))
    await Promise.all(this.all().map(({ chores }) => chores.settled()))
  }

  /** Reads every semaphore whose variable is newer than what is known of it. */
  async refresh(signal: AbortSignal): Promise<void> {
    const { variables, paths } = this.#deps
    const list = await variables.list(paths.semaphores, undefined, signal)
    const newer = list.variables.filter(({ path, modifyIndex }) => (this.at(path)?.stored?.index ?? -1) < modifyIndex)
    await Promise.all(newer.map(({ path }) => this.#read(path)))
  }

  #see(snapshot: Snapshot, changed: readonly string[]): void {
    const { paths, locks, replica, meter } = this.#deps
    this.#seen = snapshot
    replica.see(snapshot)
    this.#beside('locks', () => locks.see(snapshot).finally(() => this.#wakeAll()))
    const folders = byFolder(this.#entriesBelow(snapshot, paths.requests))
    for (const { semaphore } of this.#running.values()) {
      const folder = paths.requestsOf(semaphore.scope)
      semaphore.chores.queue.see(snapshot.index, snapshot.at, folders.get(folder) ?? [])
      this.#beside('leases', () => endLostLeases(semaphore, snapshot, meter))
      this.#beside('take over', () => semaphore.errands.takeOverLost(snapshot))
    }
    for (const path of changed) {
      if (path.startsWith(paths.semaphores) && snapshot.entries.has(path)) {
        const known = this.at(path)?.stored?.index ?? -1
        if (known < (snapshot.entries.get(path) as VariableMeta).modifyIndex) this.#beside('semaphore', () => this.#read(path))
      } else if (path.startsWith(paths.requests) && snapshot.entries.has(path)) {
        this.#beside('request', () => this.#open(path))
      }
    }
    this.#wakeAll()
    this.#firstSeen()
  }

  #entriesBelow(snapshot: Snapshot, folder: string): VariableMeta[] {
    return [...snapshot.entries.values()].filter(({ path }) => path.startsWith(folder))
  }

  #wakeAll(): void {
    for (const { semaphore } of this.#running.values()) semaphore.wake()
  }

  /** A semaphore that somebody changed: whoever runs it here is told; one with something open is run from now on. */
  async #read(path: string): Promise<void> {
    const { variables, clock, signal, paths, log } = this.#deps
    const at = clock.now()
    const { variable } = await variables.get(path, undefined, signal)
    if (variable === null) return
    const known = this.at(path)
    const scope = known?.scope ?? scopeOf(variable.items, (named) => paths.semaphore(named) === path)
    if (scope === null) return log.error({ path }, 'this semaphore cannot be read: its scope does not belong to its path')
    ;(known ?? this.ensure(scope)).seeStored(variable.modifyIndex, variable.items, at)
  }

  /** A request of a scope that nobody runs here yet. */
  async #open(path: string): Promise<void> {
    const { variables, paths, signal } = this.#deps
    const folder = folderOf(path)
    if (this.all().some(({ scope }) => paths.requestsOf(scope) === folder)) return
    const { variable } = await variables.get(path, undefined, signal)
    const scope = variable === null ? null : scopeOf(variable.items, (named) => paths.requestsOf(named) === folder)
    if (scope !== null) this.ensure(scope)
  }

  async #tick(signal: AbortSignal): Promise<void> {
    const { clock, locks, replica } = this.#deps
    while (!signal.aborted) {
      await clock.sleep(TICK_MS, signal).catch(() => undefined)
      if (signal.aborted) return
      this.#beside('until', () => locks.endOverdue())
      for (const [path, running] of this.#running) {
        this.#beside('overdue', () => endOverdue(running.semaphore, clock))
        this.#forgetIdle(path, running)
        if (replica.others > 0) this.#follow(path, running, signal)
      }
      this.#sweep()
    }
  }

  #forgetIdle(path: string, running: Running): void {
    const now = this.#deps.clock.now()
    if (!running.semaphore.isIdle) running.idleSince = null
    else if (running.idleSince === null) running.idleSince = now
    else if (now - running.idleSince >= IDLE_MS) {
      running.end.abort()
      this.#running.delete(path)
    }
  }

  /** Somebody waits here, and another replica may end the hold before it: the semaphore is read as it changes. */
  #follow(path: string, running: Running, signal: AbortSignal): void {
    const waits = () => running.semaphore.room.size > 0
    if (this.#followed.has(path) || this.#followed.size >= MAX_FOLLOWED || !waits()) return
    this.#followed.add(path)
    const { variables, clock } = this.#deps
    const { semaphore } = running
    this.#beside('follow', async () => {
      try {
        while (!signal.aborted && !running.end.signal.aborted && waits() && semaphore.stored !== null) {
          const at = clock.now()
          const { variable } = await variables.get(path, { index: semaphore.stored.index, waitMs: FOLLOW_MS }, signal)
          if (variable === null) return
          semaphore.seeStored(variable.modifyIndex, variable.items, at)
        }
      } finally {
        this.#followed.delete(path)
      }
    })
  }

  /** Removes what is left of leases that were released or ran out, when nobody did (a dead actor cannot). */
  #sweep(): void {
    const { paths, replica, variables, clock, signal } = this.#deps
    const now = clock.now()
    const dead = this.#entriesBelow(this.#seen, paths.leases).filter((meta) => !isUntouched(meta))
    const deadPaths = new Set(dead.map(({ path }) => path))
    for (const path of this.#deadLeases.keys()) if (!deadPaths.has(path)) this.#deadLeases.delete(path)
    for (const { path, modifyIndex } of dead) {
      const since = this.#deadLeases.get(path) ?? now
      this.#deadLeases.set(path, since)
      if (now - since < SWEEP_MS || !replica.isMine(path)) continue
      this.#deadLeases.set(path, now)
      this.#beside('sweep', async () => void (await variables.remove(path, modifyIndex, signal)))
    }
  }

  #beside(what: string, work: () => Promise<unknown>): void {
    const { log, signal } = this.#deps
    void work().catch((error: unknown) => {
      if (!signal.aborted) log.warn({ what, error: String(error) }, 'not done; it will be tried again')
    })
  }
}

function byFolder(metas: readonly VariableMeta[]): ReadonlyMap<string, VariableMeta[]> {
  const folders = new Map<string, VariableMeta[]>()
  for (const meta of metas) {
    const folder = folderOf(meta.path)
    const metasThere = folders.get(folder)
    if (metasThere === undefined) folders.set(folder, [meta])
    else metasThere.push(meta)
  }
  return folders
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/') + 1)
}
