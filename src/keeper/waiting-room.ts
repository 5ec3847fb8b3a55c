// The askers that wait at this replica for one scope, beside the stored queue: who is here, and who may go.
import type { Candidate, Plan } from '../core/admission.ts'
import { Problem } from '../core/errors.ts'
import type { Scope } from '../core/scope.ts'
import type { Hold } from '../core/state.ts'
import type { Answer, Ask, Waiting } from './ask.ts'
import type { Lease } from './lease.ts'
import type { Paths } from './paths.ts'
import type { Clock } from './ports.ts'
import { isManaged, type Entry, type Queue } from './queue.ts'

/** A poll that runs out while its grant is under way waits so much longer. */
const GRANT_GRACE_MS = 5_000

/** So often it is looked at again whether that has ended. */
const GRANT_TICK_MS = 50

/** Null: its time is over, or its asker has gone. */
type Poll = (answer: Answer | Problem | null) => void

/** One asking process that waits here. */
export interface Waiter {
  readonly id: string
  readonly ask: Ask
  readonly path: string
  readonly arrivedAt: number
  /** Fresh for each lease, so that a grant whose answer was lost is recognised (protocol S2). */
  holdId: string
  lease: Lease | null
  /** Where the answer goes; null: the asker is not here at the moment. */
  poll: Poll | null
  absentSince: number
  /** A grant or an adoption is being confirmed: nothing else is begun for it. */
  confirming: boolean
  /** After a grant was taken back: not granted again before this monotonic time. */
  notBefore: number
}

/** The newest decision about everybody who waits. A place in it is looked up for those who are told only. */
interface Decided {
  readonly plan: Plan
  readonly holds: readonly Hold[]
  readonly waiting: number
  readonly positionOf: (id: string) => number | undefined
}

export class WaitingRoom {
  readonly #scope: Scope
  readonly #paths: Paths
  readonly #clock: Clock
  readonly #waiters = new Map<string, Waiter>()
  #decided: Decided | null = null

  constructor(scope: Scope, paths: Paths, clock: Clock) {
    this.#scope = scope
    this.#paths = paths
    this.#clock = clock
  }

  get size(): number {
    return this.#waiters.size
  }
  all(): Waiter[] {
    return [...this.#waiters.values()]
  }
  get(id: string): Waiter | null {
    return this.#waiters.get(id) ?? null
  }
  has(waiter: Waiter): boolean {
    return this.#waiters.get(waiter.id) === waiter
  }

  /** Waits for a grant until `waitMs` is over; then says why it waits. Rejects with a Problem. The place is kept for a while. `wake`
   *  is called when the waiter is in. */
  async wait(ask: Ask, waitMs: number, wake: () => void, signal: AbortSignal): Promise<Answer> {
    // An asker that went while its allocation was looked up must not be told anything (protocol G5).
    signal.throwIfAborted()
    const clock = this.#clock
    const endsAt = clock.now() + waitMs
    let poll: Poll = () => undefined
    const answered = new Promise<Answer | Problem | null>((resolve) => (poll = resolve))
    const waiter = this.#enter(ask, poll)
    const gone = () => this.#pause(waiter, poll)
    const runOut = () => {
      const undecided = waiter.confirming || this.#isBeingGranted(waiter)
      if (undecided && clock.now() < endsAt + GRANT_GRACE_MS) cancel = clock.after(GRANT_TICK_MS, runOut)
      else gone()
    }
    let cancel = clock.after(Math.max(waitMs, GRANT_TICK_MS), runOut)
    signal.addEventListener('abort', gone, { once: true })
    wake()
    const answer = await answered
    cancel()
    signal.removeEventListener('abort', gone)
    gone()
    const result = answer ?? this.#whyWaits(waiter)
    if (result === null)
      throw new Problem('nomad_unavailable', 'Nomad gave no answer in time; the place is kept for a moment, ask again')
    if (result instanceof Problem) throw result
    return result
  }

  /** The waiter of this asking process: the one that is here already, or a new one. The newest poll gets the answer. */
  #enter(ask: Ask, poll: Poll): Waiter {
    const id = waiterId(ask)
    const waiter = this.#waiters.get(id) ?? this.#newWaiter(id, ask)
    waiter.poll?.(new Problem('conflict', 'the same process has asked again; the newer call goes on'))
    waiter.poll = poll
    this.#waiters.set(id, waiter)
    return waiter
  }

  /** The poll ends without an answer for good; the place is kept for a while. */
  #pause(waiter: Waiter, poll: Poll): void {
    if (waiter.poll !== poll) return
    waiter.poll = null
    waiter.absentSince = this.#clock.now()
    poll(null)
  }

  /** Ends a waiter with its answer. False: nobody is there to be told (protocol G5). A told lease is its holder's to renew. */
  tell(waiter: Waiter, answer: Answer | Problem): boolean {
    if (waiter.poll === null || !this.has(waiter)) return false
    this.#waiters.delete(waiter.id)
    waiter.lease?.handOver()
    waiter.poll(answer)
    waiter.poll = null
    return true
  }

  remove(waiter: Waiter): void {
    this.#waiters.delete(waiter.id)
  }

  /** A new attempt: the lease of the last one, and its hold id, are never used again. The lease is given back to be ended. */
  startOver(waiter: Waiter): Lease | null {
    const { lease } = waiter
    waiter.lease = null
    return lease
  }

  /** Everybody who waits anywhere; not what is held already, as it was granted. A waiter of ours is ready with a valid lease, an open
   *  poll, and when nobody can be before it of whom we do not know: the list must be as new as its own place in the queue. */
  candidates(queue: Queue, holds: readonly Hold[], mayGrant: (entry: Entry) => boolean): Candidate[] {
    const entries = [...queue.entries.values()]
    const complete = entries.every(({ record }) => record !== undefined)
    const now = this.#clock.now()
    const own = new Set<Entry>()
    const candidates: Candidate[] = this.all().map((waiter) => {
      const request = requestOf(waiter, queue)
      if (request !== null) own.add(request)
      const here = waiter.poll !== null && !waiter.confirming && waiter.notBefore <= now
      const ready = here && complete && waiter.lease?.valid() === true && !isBehind(waiter, queue)
      const { unit, place, priority, deadline } = waiter.ask
      const createIndex = request?.createIndex ?? Infinity
      return { id: waiter.id, unit, place, priority, deadline, createIndex, ready, watched: false }
    })
    const acted = new Set(holds.map(({ key, request }) => `${key} ${request}`))
    for (const entry of entries) {
      const { path, createIndex, modifyIndex, record } = entry
      if (record == null || own.has(entry) || (record.via === null && acted.has(`${record.key} ${modifyIndex}`))) continue
      const { unit, place, priority, deadline } = record
      const managed = isManaged(entry)
      const ready = managed && complete && queue.index >= createIndex && mayGrant(entry)
      const watched = managed && entry.record.watched
      candidates.push({ id: path, unit, place, priority, deadline, createIndex, ready, watched })
    }
    return candidates
  }

  /** Remembers what was decided: a poll that runs out is told why it waits. */
  explain(ordered: readonly Candidate[], plan: Plan, holds: readonly Hold[]): void {
    let positions: ReadonlyMap<string, number> | null = null
    const positionOf = (id: string) => (positions ??= new Map(ordered.map((one, at) => [one.id, at + 1]))).get(id)
    this.#decided = { plan, holds, waiting: ordered.length, positionOf }
  }

  /** What was decided last may not be true any more. */
  forgetDecided(): void {
    this.#decided = null
  }

  /** Whether it is, or may be as far as is decided. */
  #isBeingGranted({ id }: Waiter): boolean {
    const plan = this.#decided?.plan
    return plan === undefined || plan.next.has(id) || !plan.waits.has(id)
  }

  /** Null: that is not decided. */
  #whyWaits({ id }: Waiter): Waiting | null {
    if (this.#decided === null) return null
    const { plan, holds, waiting, positionOf } = this.#decided
    const [wait, position] = [plan.waits.get(id), positionOf(id)]
    return wait === undefined || position === undefined ? null : { kind: 'waiting', wait, position, waiting, holds }
  }

  #newWaiter(id: string, ask: Ask): Waiter {
    return {
      id,
      ask,
      path: this.#paths.request(this.#scope, ask.unit),
      arrivedAt: this.#clock.now(),
      holdId: '',
      lease: null,
      poll: null,
      absentSince: 0,
      confirming: false,
      notBefore: -Infinity,
    }
  }
}

/** The same for the same asking process and unit, and different from every path. */
export function waiterId({ unit, key }: { readonly unit: string; readonly key: string }): string {
  return `${unit.length} ${unit} ${key}`
}

/** The waiter's own stored request; null: it has none, or another process of the unit has the place. */
export function requestOf(waiter: Waiter, queue: Queue): Entry | null {
  const entry = queue.entries.get(waiter.path)
  return entry?.record?.key === waiter.ask.key ? entry : null
}

/** Whether somebody may be before this waiter of whom the list does not tell yet. */
export function isBehind(waiter: Waiter, queue: Queue): boolean {
  const request = requestOf(waiter, queue)
  return request === null ? queue.at < waiter.arrivedAt : queue.index < request.createIndex
}
