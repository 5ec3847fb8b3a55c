// Managed requests: asked for here, stored as variables, granted and acted on by whichever replica comes to it (design §4).
import type { Wait } from '../core/admission.ts'
import { Problem } from '../core/errors.ts'
import {
  baselineNow,
  isOpen,
  isSatisfied,
  merge,
  warningsOf,
  type ManagedAction,
  type RequestState,
  type Wanted,
} from '../core/request.ts'
import { contains, type Level, type Scope } from '../core/scope.ts'
import type { Hold } from '../core/state.ts'
import type { Paths } from './paths.ts'
import type { Meter, NewId, Variables } from './ports.ts'
import { entryOf, isManaged, type ManagedEntry } from './queue.ts'
import { readRequest, requestItems, type ManagedRecord } from './records.ts'
import type { Registry } from './registry.ts'
import type { RequestMemory } from './request-memory.ts'
import { ANYBODY, resolveAllocation, type Allowed, type Meant, type ResolveDeps } from './resolve.ts'
import type { QueueSeen, Semaphore } from './semaphore.ts'

export interface RequestInput {
  readonly allocation: string
  readonly component?: string
  readonly task?: string
  readonly action?: ManagedAction
  readonly signal?: string
  readonly reason: string
  /** On the clock of the unit's own host, in milliseconds since the epoch. Without it a restart that the servers hear of after the ask
   *  counts as later than the ask: it may have been earlier by as much as they lag, or as the agent of the node was silent. */
  readonly since?: number
  readonly deadline?: number
  readonly priority?: number
  readonly wave?: string
  /** Made by the service itself, from a watched file. */
  readonly watched?: boolean
}

export type RequestAnswer =
  | { readonly kind: 'satisfied' }
  | { readonly kind: 'stored'; readonly request: RequestSeen; readonly warnings: readonly string[] }

/** A request as somebody may follow it. */
export interface RequestSeen {
  readonly id: string
  readonly scope: Scope
  readonly unit: string
  readonly place: string
  readonly action: string
  readonly tasks: readonly string[]
  readonly reason: string
  readonly wave: string | null
  /** When it was first asked for; null: it is only known from its hold. */
  readonly at: number | null
  readonly state: RequestState
  /** From 1; null: it does not wait. */
  readonly position: number | null
  readonly wait: Wait | null
  /** Why it is as it is, for people. */
  readonly detail: string
}

interface RequestDeps extends ResolveDeps {
  readonly variables: Variables
  readonly paths: Paths
  readonly registry: Registry
  readonly memory: RequestMemory
  readonly newId: NewId
  readonly meter: Meter
}

const TRIES = 10
const POLL_MS = 250

export class Requests {
  readonly #deps: RequestDeps

  constructor(deps: RequestDeps) {
    this.#deps = deps
  }

  /** Stores it, or merges it into the one that is open for this unit. It survives its caller and every replica. `satisfied`: the
   *  unit was started after `since`, or has nothing to be restarted for. May be repeated. `allowed` rejects when the caller may not. */
  async put(input: RequestInput, signal: AbortSignal, allowed: Allowed = ANYBODY): Promise<RequestAnswer> {
    const { allocation, component, task } = input
    const meant = await resolveAllocation(this.#deps, { allocation, component, task }, allowed, signal)
    const semaphore = this.#deps.registry.ensure(meant.scope)
    semaphore.seeLook(meant.look)
    const held = await semaphore.heldNow(meant.allocation.id, signal)
    const asked = this.#asked(input, meant, held)
    if (isSatisfied(asked, meant.allocation, meant.group)) return { kind: 'satisfied' }
    const entry = await this.#store(asked, meant, held, signal)
    semaphore.seeRequest(entry)
    return { kind: 'stored', request: waitingIn(semaphore.queueNow())(entry), warnings: warningsOf(entry.record, meant.group) }
  }

  /** As it is now; with `waitMs`, as soon as it is not as it was any more. */
  async get(id: string, waitMs: number, signal: AbortSignal): Promise<RequestSeen> {
    const { clock } = this.#deps
    const endsAt = clock.now() + waitMs
    const first = this.#find(id) ?? (await this.#findStored(id, signal))
    if (first === null)
      throw new Problem('unknown_request', `there is no request ${id}; it is over, or never was. See \`lockkeeper status\``)
    let seen = first
    while (isOpen(seen) && clock.now() < endsAt && JSON.stringify(seen) === JSON.stringify(first)) {
      await clock.sleep(Math.min(POLL_MS, endsAt - clock.now()), signal)
      seen = this.#find(id) ?? seen
    }
    return seen
  }

  /** All that are open at or below a level, and those that ended lately at this replica. */
  async list(level: Level, wave: string | undefined, signal: AbortSignal): Promise<RequestSeen[]> {
    await this.#catchUp(signal)
    const held = this.#deps.registry.all().flatMap(({ state }) => (state?.holds ?? []).filter(({ managed }) => managed))
    const known = this.#deps.memory.all().map(({ record }) => record.key)
    const open = new Map(this.#deps.registry.all().flatMap(openIn))
    const all = [...new Set([...known, ...held.map(({ key }) => key)])].map((id) => open.get(id) ?? this.#ended(id))
    return all
      .filter((seen) => seen !== null)
      .filter(({ scope, wave: label }) => contains(level, scope) && (wave === undefined || label === wave))
  }

  /** Withdraws it. One that is acting already goes on to its end: then it is told as such. */
  async cancel(id: string, variables: Variables, signal: AbortSignal): Promise<RequestSeen> {
    const seen = await this.get(id, 0, signal)
    const { registry, paths, memory } = this.#deps
    const semaphore = registry.at(paths.semaphore(seen.scope))
    const path = paths.managedRequest(seen.scope, seen.unit)
    const { variable } = await variables.get(path, undefined, signal)
    const record = variable === null ? null : readRequest(variable.items)
    if (variable === null || record?.via !== null || record.key !== id) return seen
    const removed = await variables.remove(path, variable.modifyIndex, signal)
    if (removed.kind === 'conflict' && removed.current !== null)
      throw new Problem('conflict', `request ${id} was changed at the same moment; look at it again`)
    semaphore?.seeRequestGone(path, removed.kind === 'removed' ? removed.index : variable.modifyIndex)
    if (seen.state !== 'waiting') return seen
    memory.end(id, 'cancelled', 'it was withdrawn')
    return { ...seen, state: 'cancelled', position: null, wait: null, detail: 'it was withdrawn' }
  }

  #asked(input: RequestInput, { allocation }: Meant, held: Hold | null): Wanted {
    const { action = 'restart', task, since, priority = 0, deadline = null, wave = null, watched = false } = input
    return {
      action,
      tasks: task === undefined ? [] : [task],
      signal: action === 'signal' ? (input.signal ?? null) : null,
      since: since ?? null,
      baseline: since === undefined && action !== 'replace' ? baselineNow(allocation, held) : {},
      reason: input.reason,
      priority,
      deadline,
      wave,
      watched,
    }
  }

  /** Check-and-set, again on what the loser is given back. A lost answer is found by the id at the next read. What adds nothing is
   *  written all the same when an act for the request as it stands may have begun before this ask (protocol M6). */
  async #store(
    asked: Wanted,
    { scope, allocation, place }: Meant,
    held: Hold | null,
    signal: AbortSignal,
  ): Promise<ManagedEntry> {
    const { variables, paths, newId, clock, meter } = this.#deps
    const path = paths.managedRequest(scope, allocation.id)
    const fresh: ManagedRecord = { ...asked, scope, unit: allocation.id, place, key: newId(), via: null, at: clock.wall() }
    let { variable } = await variables.get(path, undefined, signal)
    for (let tries = 0; tries < TRIES; tries++) {
      const there = variable === null ? null : entryOf(variable, clock.now())
      const open = there !== null && isManaged(there) ? there : null
      const record = open === null ? fresh : merge(open.record, asked)
      if (open !== null && record === open.record && !mayBeTooEarly(asked, open, held)) {
        if (record.key !== fresh.key) meter.count('requests_merged')
        return open
      }
      const put = await variables.put(path, requestItems(record), variable?.modifyIndex ?? 0, signal)
      if (put.kind === 'written')
        return { path, createIndex: put.createIndex, modifyIndex: put.index, record, knownAt: clock.now() }
      variable = put.current
    }
    throw new Problem('conflict', `the request for ${allocation.id} changes too fast; ask again`)
  }

  /** As far as this replica knows it. */
  #find(id: string): RequestSeen | null {
    for (const semaphore of this.#deps.registry.all()) {
      const entry = managedIn(semaphore).find(({ record }) => record.key === id)
      const hold = semaphore.state?.holds.find((held) => held.managed && held.key === id)
      if (hold !== undefined) return ofHold(hold, semaphore, entry?.record ?? null)
      if (entry !== undefined) return waitingIn(semaphore.queueNow())(entry)
    }
    return this.#ended(id)
  }

  #ended(id: string): RequestSeen | null {
    const known = this.#deps.memory.get(id)
    if (known === null || known.end === null) return null
    return { ...seenOf(known.record), state: known.end.state, position: null, wait: null, detail: known.end.reason }
  }

  async #findStored(id: string, signal: AbortSignal): Promise<RequestSeen | null> {
    await this.#catchUp(signal)
    return this.#find(id)
  }

  /** Reads what other replicas have written and the lists have not shown here yet. */
  async #catchUp(signal: AbortSignal): Promise<void> {
    const { variables, paths, registry, clock } = this.#deps
    await registry.refresh(signal)
    const list = await variables.list(paths.requests, undefined, signal)
    const known = new Set(
      registry
        .all()
        .flatMap(({ chores }) => Array.from(chores.queue.known.entries.values(), (one) => `${one.path} ${one.modifyIndex}`)),
    )
    for (const { path, modifyIndex } of list.variables) {
      if (!path.includes('/~m') || known.has(`${path} ${modifyIndex}`)) continue
      const { variable } = await variables.get(path, undefined, signal)
      const entry = variable === null ? null : entryOf(variable, clock.now())
      if (entry === null || !isManaged(entry)) continue
      const { scope, unit } = entry.record
      if (paths.managedRequest(scope, unit) === path) registry.ensure(scope).seeRequest(entry)
    }
  }
}

/** Whether the act of `held`, which was read before `open`, may do away with it and not be what was asked for. The very change that
 *  is asked for was before `open` was written. An older one may be later: the clock of its node was set back. */
function mayBeTooEarly(asked: Wanted, open: ManagedEntry, held: Hold | null): boolean {
  if (held?.managed !== true || (asked.since !== null && asked.since === open.record.since)) return false
  return held.phase === 'acting' || held.request === open.modifyIndex
}

function managedIn({ chores }: Semaphore): ManagedEntry[] {
  return [...chores.queue.known.entries.values()].filter(isManaged)
}

/** All that are held or wait in one semaphore, by their ids; its queue is worked out once. */
function openIn(semaphore: Semaphore): [string, RequestSeen][] {
  const entries = managedIn(semaphore)
  const records = new Map(entries.map(({ record }) => [record.key, record]))
  const holds = (semaphore.state?.holds ?? []).filter(({ managed }) => managed)
  const held = new Map(holds.map((hold) => [hold.key, ofHold(hold, semaphore, records.get(hold.key) ?? null)]))
  const waiting = entries.filter(({ record }) => !held.has(record.key))
  if (waiting.length === 0) return [...held]
  const seen = waitingIn(semaphore.queueNow())
  return [...held, ...waiting.map((entry): [string, RequestSeen] => [entry.record.key, seen(entry)])]
}

function waitingIn({ ordered, waits }: QueueSeen): (entry: ManagedEntry) => RequestSeen {
  const positions = new Map(ordered.map(({ id }, at) => [id, at + 1]))
  return ({ path, record }) => {
    const wait = waits.get(path) ?? { kind: 'full', detail: 'it is next and is being granted' }
    return { ...seenOf(record), state: 'waiting', position: positions.get(path) ?? null, wait, detail: wait.detail }
  }
}

function seenOf({ key, scope, unit, place, action, tasks, reason, wave, at }: ManagedRecord) {
  return { id: key, scope, unit, place, action, tasks, reason, wave, at }
}

function ofHold(hold: Hold, { scope }: Semaphore, record: ManagedRecord | null): RequestSeen {
  const { key, unit, place, action, tasks, reason, phase, grantedAt } = hold
  const detail = phase === 'acting' ? `${hold.actor} acts` : 'the health gate watches the unit'
  const known = { wave: record?.wave ?? null, at: record?.at ?? grantedAt }
  return { id: key, scope, unit, place, action, tasks, reason, ...known, state: phase, position: null, wait: null, detail }
}
