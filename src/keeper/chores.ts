// What keeps the queue of one scope moving, beside the decisions: waiters get a stored place, the next ones a lease, new requests
// are read, and requests that nobody waits for any more are removed. Each chore runs once at a time and wakes the scope at its end.
import type { Candidate, Plan } from '../core/admission.ts'
import type { Scope } from '../core/scope.ts'
import { acquireLease, type LeaseDeps } from './lease.ts'
import type { Entry } from './queue.ts'
import { requestItems } from './records.ts'
import type { Replica } from './replica.ts'
import { StoredQueue, type QueueDeps } from './stored-queue.ts'
import { isBehind, requestOf, waiterId, type Waiter, type WaitingRoom } from './waiting-room.ts'

/** A poll has ended and the asker has not come back: so long its place is kept. */
const ABSENT_MS = 5_000
/** So long an asker may take to come to another replica when its own is gone. */
const ORPHAN_MS = 15_000
/** How many waiters behind those that may go next have a lease already: making one takes longer than a short hold. */
const LEASES_AHEAD = 4
/** Before something that failed is tried again. */
const RETRY_MS = 500
/** How many variables one scope writes or reads at a time. */
const AT_A_TIME = 16

export interface ChoreDeps extends LeaseDeps, QueueDeps {
  readonly replica: Replica
}

export class Chores {
  readonly queue: StoredQueue
  readonly #deps: ChoreDeps
  readonly #room: WaitingRoom
  readonly #wake: () => void
  readonly #running = new Map<string, Promise<void>>()
  readonly #orphans = new Map<string, number>()

  constructor(deps: ChoreDeps, scope: Scope, room: WaitingRoom, wake: () => void) {
    this.queue = new StoredQueue(deps, scope, room, wake)
    this.#deps = deps
    this.#room = room
    this.#wake = wake
  }

  /** Starts what is to be done after a turn. `reach`: how many of the queue's head may go soon; `stateAt`: when the state was read. */
  start(ordered: readonly Candidate[], plan: Plan, reach: number, stateAt: number): void {
    const now = this.#deps.clock.now()
    const granted = new Set(plan.grants.map(({ candidate }) => candidate.id))
    const isIdle = (waiter: Waiter) => !waiter.confirming && !granted.has(waiter.id)
    const idle = this.#room.all().filter(isIdle)
    for (const waiter of idle) {
      if (waiter.poll === null && now - waiter.absentSince >= ABSENT_MS) this.#giveUp(waiter)
      else if (waiter.lease !== null && !waiter.lease.valid()) this.startOver(waiter)
    }
    const soon = new Set([...plan.next, ...ordered.slice(0, reach + LEASES_AHEAD).map(({ id }) => id)])
    const nextOnes = [...soon].flatMap((id) => this.#room.get(id) ?? []).filter(isIdle)
    for (const waiter of nextOnes) {
      if (waiter.poll !== null && waiter.lease === null) this.run(`lease ${waiter.id}`, () => this.#acquire(waiter))
    }
    // Whoever is about to be granted at once needs no place in the queue.
    const isPlaceless = (waiter: Waiter) => waiter.poll !== null && !plan.next.has(waiter.id) && this.#mayStore(waiter)
    this.#each(
      'store',
      () => idle.filter(isPlaceless),
      (waiter) => this.#store(waiter),
    )
    this.#each(
      'read',
      () => [...this.queue.known.entries.values()].filter(({ record }) => record === undefined),
      ({ path }) => this.queue.read(path),
    )
    this.#each(
      'remove',
      () => this.#forsaken(ordered, now),
      (entry) => {
        this.#orphans.delete(entry.path)
        return this.queue.remove(entry)
      },
    )
    // Whose place is still being stored is behind again when it is.
    const isPlaced = (waiter: Waiter) => plan.next.has(waiter.id) || requestOf(waiter, this.queue.known) !== null
    const behind = nextOnes.some((waiter) => isPlaced(waiter) && isBehind(waiter, this.queue.known))
    const others = this.queue.known.at < stateAt && [...plan.next].some((id) => this.#room.get(id) === null)
    if (behind || others) this.run('list', () => this.queue.list())
  }

  /** Whether somebody is away or pauses, so that the scope must look again although nothing happens. */
  get isRestless(): boolean {
    const now = this.#deps.clock.now()
    return this.#orphans.size > 0 || this.#room.all().some(({ poll, notBefore }) => poll === null || notBefore > now)
  }

  /** Its asker has not come back. It may wait at another replica meanwhile, also one of which no list has told yet: nobody goes before
   *  it until its place is gone for certain. */
  #giveUp(waiter: Waiter): void {
    const request = requestOf(waiter, this.queue.known)
    this.#forget(waiter)
    if (request?.record?.via === this.#deps.replica.id)
      this.run(`remove ${request.path} ${request.modifyIndex}`, () => this.queue.remove(request))
  }

  #forget(waiter: Waiter): void {
    if (!this.#room.has(waiter)) return
    this.#room.remove(waiter)
    this.startOver(waiter)
  }

  /** The waiter was told, or has gone: its stored place is given up. */
  leave(waiter: Waiter): void {
    const request = requestOf(waiter, this.queue.known)
    this.#forget(waiter)
    if (request === null) return
    this.queue.forget(request.path, Infinity)
    // By its index: one of an older request at this path may still be under way.
    this.run(`remove ${request.path} ${request.modifyIndex}`, () => this.queue.remove(request), true)
  }

  startOver(waiter: Waiter): void {
    const lease = this.#room.startOver(waiter)
    if (lease !== null) this.run(`end ${lease.path}`, () => lease.end(), true)
  }

  /** Something beside the turns. A failure is logged, and tried again by a turn after a while: what fails at once, as everything
   *  does that is begun while we shut down, would wake the next turn for ever. `quiet`: no decision depends on its success. */
  run(name: string, work: () => Promise<void>, quiet = false): void {
    if (this.#running.has(name)) return
    const { signal, log, clock } = this.#deps
    let wakes = !quiet
    const done = work()
      .catch(async (error: unknown) => {
        wakes = true
        if (signal.aborted) return
        log.warn({ chore: name.split(' ')[0], error: String(error) }, 'not done; it will be tried again')
        await clock.sleep(RETRY_MS, signal).catch(() => undefined)
      })
      .finally(() => {
        this.#running.delete(name)
        if (wakes && !signal.aborted) this.#wake()
      })
    this.#running.set(name, done)
  }

  /** Resolves when all that is under way has ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#running.values())
  }

  #each<T>(name: string, wanted: () => readonly T[], work: (item: T) => Promise<void>): void {
    if (this.#running.has(name)) return
    const items = wanted()
    if (items.length === 0) return
    this.run(name, async () => {
      const left = items.values()
      const worker = async () => {
        for (const item of left) await work(item)
      }
      const ended = await Promise.allSettled(Array.from({ length: AT_A_TIME }, worker))
      for (const one of ended) if (one.status === 'rejected') throw one.reason
    })
  }

  /** Requests that nobody waits for: their asker is not here, and their replica is we, or gone. After a while they are removed. */
  #forsaken(ordered: readonly Candidate[], now: number): Entry[] {
    const { replica } = this.#deps
    // Whose asker is here stands in the order under another name.
    const theirs = ordered.flatMap(({ id }) => this.queue.known.entries.get(id) ?? [])
    const orphans = theirs.filter(({ record }) => {
      if (record?.via == null || this.#room.get(waiterId(record)) !== null) return false
      return record.via === replica.id || !replica.isAlive(record.via)
    })
    const known = new Set(orphans.map(({ path }) => path))
    for (const path of this.#orphans.keys()) if (!known.has(path)) this.#orphans.delete(path)
    for (const path of known) if (!this.#orphans.has(path)) this.#orphans.set(path, now)
    return orphans.filter(({ path }) => now - (this.#orphans.get(path) as number) >= ORPHAN_MS)
  }

  /** Whether the waiter has no place here yet and may put one: its own from another replica, one that nobody has, or that of another
   *  process of the unit whose replica is gone. */
  #mayStore(waiter: Waiter): boolean {
    const { replica } = this.#deps
    const there = this.queue.known.entries.get(waiter.path)
    if (there === undefined || there.record === null) return true
    if (there.record === undefined) return false
    const { key, via } = there.record
    if (via === null) return false
    return key === waiter.ask.key ? via !== replica.id : !replica.isAlive(via)
  }

  /** Puts the waiter's request. Its CreateIndex, and so its place, stays when it is there already. */
  async #store(waiter: Waiter): Promise<void> {
    // Many are stored one after another: this one may have been told meanwhile.
    if (!this.#room.has(waiter)) return
    const { variables, replica, clock, signal } = this.#deps
    const { scope, unit, place, key, tasks, action, reason, priority, deadline } = waiter.ask
    const there = this.queue.known.entries.get(waiter.path)
    const [via, at] = [replica.id, clock.wall()]
    const record = { scope, unit, place, key, tasks, action, reason, priority, deadline, via, at }
    const put = await variables.put(waiter.path, requestItems(record), there?.modifyIndex ?? 0, signal)
    if (put.kind === 'conflict') return await this.queue.read(waiter.path)
    const entry = { path: waiter.path, createIndex: put.createIndex, modifyIndex: put.index, record, knownAt: clock.now() }
    this.queue.put(entry)
    if (!this.#room.has(waiter)) await this.queue.remove(entry)
  }

  async #acquire(waiter: Waiter): Promise<void> {
    const { newId, paths, signal } = this.#deps
    const { scope, unit, actor } = waiter.ask
    const lease = await acquireLease(this.#deps, paths.lease(newId()), { scope: JSON.stringify(scope), unit, actor }, signal)
    if (!this.#room.has(waiter)) return await lease.end()
    waiter.holdId = newId()
    waiter.lease = lease
    void lease.keep(signal)
  }
}
