// Who goes next: the order of the queue, and for each who waits, why. The reasons are asked in a fixed order (design §4.2).
import { NO_GROUP, type GroupView } from './budget.ts'
import { formatDuration } from './duration.ts'
import type { WaitKind } from './errors.ts'
import { minIntervalOf, type Policy } from './policy.ts'
import { MAX_HOLDS, type State } from './state.ts'

export interface Wait {
  readonly kind: WaitKind
  readonly detail: string
}

/** One open request in the queue. */
export interface Candidate {
  readonly id: string
  readonly unit: string
  readonly place: string
  /** Higher goes first. */
  readonly priority: number
  /** When the credential that it waits for ends; null: no deadline. Milliseconds since the epoch. */
  readonly deadline: number | null
  /** CreateIndex of its request variable: first come, first served. Infinity: not stored yet. */
  readonly createIndex: number
  /** Whether this replica can hand it a grant right now. One that cannot keeps its place: nobody overtakes it. */
  readonly ready: boolean
  /** Asked for by the service itself, from a watched file. */
  readonly watched: boolean
}

/** What is known when it is decided. `group` null: it could not be read, and unknown is not healthy. */
export interface Look {
  /** The sentence about the operator lock that shuts the scope; null: none. */
  readonly locked: string | null
  readonly deploying: boolean
  readonly group: GroupView | null
}

export interface Plan {
  readonly grants: readonly { readonly candidate: Candidate; readonly slot: number; readonly wasUp: boolean }[]
  readonly waits: ReadonlyMap<string, Wait>
  /** Those of `waits` that could go at once if they were ready. */
  readonly next: ReadonlySet<string>
}

/** Already-unavailable units first, then priority, then the earliest deadline, then first come. */
export function inOrder(candidates: readonly Candidate[], state: State, group: GroupView | null): Candidate[] {
  const seenUp = upTest(group)
  const ranked = candidates.map((candidate) => ({
    candidate,
    up: Number(failureOf(state, candidate) === undefined && seenUp(candidate)),
    deadline: candidate.deadline ?? Infinity,
  }))
  ranked.sort(
    (a, b) =>
      a.up - b.up ||
      b.candidate.priority - a.candidate.priority ||
      order(a.deadline, b.deadline) ||
      order(a.candidate.createIndex, b.candidate.createIndex),
  )
  return ranked.map(({ candidate }) => candidate)
}

/** Decides the whole queue at once. `ordered` is from `inOrder`. A candidate that could go but is not ready takes its share of
 *  the budget all the same, so that nobody behind it goes first. */
export function admit(state: State, ordered: readonly Candidate[], look: Look, policy: Policy, now: number): Plan {
  const isUp = upTest(look.group)
  const startedLately = startTest(look.group, policy, now)
  const slots = state.holds.map(({ slot }) => slot)
  let taken = takenBy(unavailable(state, look.group))
  let { lastGrantAt } = state
  // No slot gets free again: who comes after that waits for the same reason, and with 1,000 of them that must be cheap.
  let noSlot: Wait | null = null
  const held = new Map(state.holds.map((hold) => [hold.unit, hold.id]))
  const grants: Plan['grants'][number][] = []
  const waits = new Map<string, Wait>()
  const next = new Set<string>()
  for (const candidate of ordered) {
    const failure = failureOf(state, candidate)
    // One that has failed and is not healthy yet is unavailable itself: it costs nothing more, whatever the servers see.
    const wasUp = failure === undefined && isUp(candidate)
    const wait =
      ownHold(candidate, held) ??
      shut(state, failure !== undefined, look, policy) ??
      tooSoon(lastGrantAt, policy, now) ??
      (failure === undefined ? startedLately(candidate) : null) ??
      (noSlot ??= withoutSlot(slots.length, taken, policy)) ??
      full(candidate, wasUp, taken, look, policy)
    if (wait !== null) {
      waits.set(candidate.id, wait)
      continue
    }
    const slot = freeSlot(slots, failure?.slot)
    slots.push(slot)
    taken = takenBy(new Map([...taken.places, [candidate.place, 'it is next']]))
    lastGrantAt = now
    held.set(candidate.unit, candidate.id)
    if (candidate.ready) {
      grants.push({ candidate, slot, wasUp })
    } else {
      waits.set(candidate.id, { kind: 'full', detail: 'it is next and is being granted' })
      next.add(candidate.id)
    }
  }
  return { grants, waits, next }
}

/** Whether the budget, looked at again after a grant was committed, still has room for what is held (protocol G6). */
export function overBudget(state: State, holdId: string, group: GroupView, policy: Policy): string | null {
  const hold = state.holds.find(({ id }) => id === holdId)
  if (hold === undefined || !hold.wasUp || policy.maxParallel === 0) return null
  const places = unavailable(state, group)
  return places.size <= policy.maxUnavailable
    ? null
    : `${places.size} of at most ${policy.maxUnavailable} are down: ${names(places)}`
}

/** Held, failed, down or missing: each place once, with why. */
function unavailable(state: State, group: GroupView | null): ReadonlyMap<string, string> {
  const places = new Map((group ?? NO_GROUP).down)
  for (const failure of state.failures) places.set(failure.place, `${failure.place} failed: ${failure.reason}`)
  for (const hold of state.holds) places.set(hold.place, `${hold.place} is held (${hold.phase})`)
  return places
}

function upTest(group: GroupView | null) {
  const downUnits = new Set((group ?? NO_GROUP).units.filter(({ up }) => !up).map(({ id }) => id))
  return (candidate: { readonly unit: string }) => !downUnits.has(candidate.unit)
}

function failureOf(state: State, candidate: Candidate) {
  return state.failures.find(({ unit, place }) => unit === candidate.unit || place === candidate.place)
}

function ownHold(candidate: Candidate, held: ReadonlyMap<string, string>): Wait | null {
  const id = held.get(candidate.unit)
  return id === undefined ? null : { kind: 'full', detail: `${candidate.unit} is held already; it goes again when that is over` }
}

function shut(state: State, ownFailure: boolean, look: Look, policy: Policy): Wait | null {
  if (look.locked !== null) return { kind: 'locked', detail: look.locked }
  // The unit that failed may try again: that is how the good value gets in.
  if (state.halted !== null && !ownFailure) return { kind: 'halted', detail: state.halted.reason }
  if (look.deploying && policy.waitForDeployment) return { kind: 'deployment', detail: 'a deployment of the job is active' }
  return null
}

function tooSoon(lastGrantAt: number | null, policy: Policy, now: number): Wait | null {
  const since = lastGrantAt === null ? Infinity : now - lastGrantAt
  return since >= 0 && since < policy.stagger ? { kind: 'too_soon', detail: 'stagger' } : null
}

/** Minutes on two hosts' clocks. The unit that failed may try again at once: the good value must get in. */
function startTest(group: GroupView | null, policy: Policy, now: number) {
  let starts: ReadonlyMap<string, number | null> | null = null
  return ({ unit, watched }: Candidate): Wait | null => {
    const interval = minIntervalOf(policy, watched)
    if (interval === 0) return null
    starts ??= new Map(group?.units.map(({ id, startedAt }) => [id, startedAt]))
    const startedAt = starts.get(unit)
    // A clock that is far ahead must not shut the unit out for good.
    if (startedAt == null || Math.abs(now - startedAt) >= interval) return null
    const left = formatDuration(Math.ceil((startedAt + interval - now) / 1_000) * 1_000)
    return { kind: 'too_soon', detail: `min_interval: it was started lately and may go in ${left}` }
  }
}

/** The places that are down, and the sentence about them, made once for all who wait. */
interface Taken {
  readonly places: ReadonlyMap<string, string>
  readonly sentence: () => string
}

function takenBy(places: ReadonlyMap<string, string>): Taken {
  let text: string | null = null
  return { places, sentence: () => (text ??= names(places)) }
}

function withoutSlot(used: number, taken: Taken, policy: Policy): Wait | null {
  const slots = policy.maxParallel === 0 ? MAX_HOLDS : Math.min(policy.maxParallel, MAX_HOLDS)
  return used < slots ? null : { kind: 'full', detail: `${used} of ${slots} slots are taken: ${taken.sentence()}` }
}

function full(candidate: Candidate, isUp: boolean, taken: Taken, look: Look, policy: Policy): Wait | null {
  if (look.group === null)
    return { kind: 'full', detail: 'the allocations of the group cannot be read, and unknown is not healthy' }
  if (policy.maxParallel === 0 || !isUp) return null
  const { places } = taken
  const own = places.has(candidate.place)
  const others = places.size - Number(own)
  if (others < policy.maxUnavailable) return null
  const which = own ? names(new Map([...places].filter(([place]) => place !== candidate.place))) : taken.sentence()
  return { kind: 'full', detail: `${others} of at most ${policy.maxUnavailable} are down: ${which}` }
}

function freeSlot(taken: readonly number[], wanted: number | undefined): number {
  if (wanted !== undefined && !taken.includes(wanted)) return wanted
  let slot = 0
  while (taken.includes(slot)) slot++
  return slot
}

/** The reasons of the first few, and how many more. */
function names(places: ReadonlyMap<string, string>): string {
  const reasons = [...places.values()]
  const first = reasons.slice(0, 3).join('; ')
  return reasons.length > 3 ? `${first}; and ${reasons.length - 3} more` : first
}

function order(a: number, b: number): number {
  return a === b ? 0 : a - b
}
