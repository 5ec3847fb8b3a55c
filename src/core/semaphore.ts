// The semaphore: every change of its state, as a pure function of the state. A change that does not apply any more gives
// back the very same state, so that any of them may be repeated on what is stored by now (design §4, protocol).
import type { Policy } from './policy.ts'
import {
  cut,
  MAX_FAILURES,
  MAX_TRANSITIONS,
  type Baseline,
  type Failure,
  type Hold,
  type Outcome,
  type State,
  type TransitionKind,
} from './state.ts'

export interface NewHold {
  readonly id: string
  readonly key: string
  readonly slot: number
  readonly unit: string
  readonly place: string
  readonly tasks: readonly string[]
  readonly managed: boolean
  readonly action: Hold['action']
  readonly reason: string
  readonly actor: string
  readonly lease: Hold['lease']
  readonly request: number | null
  readonly wasUp: boolean
  readonly baseline: Baseline
}

/** Adds a hold in `acting` with the next token. A hold with this id is there already: nothing changes (protocol S2). */
export function grant(state: State, hold: NewHold, now: number): State {
  if (state.holds.some(({ id }) => id === hold.id)) return state
  const token = state.grants + 1
  const added: Hold = {
    ...hold,
    reason: cut(hold.reason),
    actor: cut(hold.actor),
    token,
    adopted: 0,
    phase: 'acting',
    outcome: null,
    grantedAt: now,
    phaseSince: now,
  }
  const next = { ...state, grants: token, holds: [...state.holds, added], lastGrantAt: now }
  return note(next, 'granted', added, hold.reason, now)
}

/** Takes a grant back before anybody was told: only by the handler that committed it, while it is `acting`, not adopted, under
 *  the same lease (protocol G3). A managed one that was taken over, too: whoever does so has seen that nothing was done (protocol
 *  M3). `grants` stays. */
export function takeBack(state: State, id: string, leasePath: string, why: string, now: number): State {
  const hold = state.holds.find((held) => held.id === id)
  if (hold === undefined || hold.phase !== 'acting' || hold.lease.path !== leasePath) return state
  return hold.adopted > 0 && !hold.managed ? state : note(without(state, id), 'taken_back', hold, why, now)
}

/** Hands a hold to the repeated ask of the same process, under a new lease (protocol G2). */
export function adopt(state: State, id: string, key: string, lease: Hold['lease'], now: number): State {
  const hold = state.holds.find((held) => held.id === id)
  if (hold === undefined || hold.phase !== 'acting' || hold.key !== key || hold.lease.path === lease.path) return state
  return note(
    replace(state, { ...hold, lease, adopted: hold.adopted + 1 }),
    'adopted',
    hold,
    'asked again by the same process',
    now,
  )
}

/** Another replica goes on where the one that was lost has stopped: a grant anew, with a new token (protocol M3). */
export function takeOver(state: State, id: string, lostPath: string, by: Pick<Hold, 'lease' | 'actor'>, now: number): State {
  const hold = state.holds.find((held) => held.id === id)
  if (hold === undefined || hold.phase !== 'acting' || !hold.managed || hold.lease.path !== lostPath) return state
  const token = state.grants + 1
  const taken = { ...hold, ...by, actor: cut(by.actor), token, adopted: hold.adopted + 1 }
  return note({ ...replace(state, taken), grants: token }, 'taken_over', taken, `from ${hold.actor}, whose lease is lost`, now)
}

/** A replica has acted on the request as it stood then: what came into it later is not done by this act (protocol M6). */
export function acted(
  state: State,
  id: string,
  leasePath: string,
  done: Pick<Hold, 'request' | 'tasks' | 'action'>,
  policy: Policy,
  now: number,
): State {
  const hold = state.holds.find((held) => held.id === id)
  if (hold === undefined || hold.phase !== 'acting' || hold.lease.path !== leasePath) return state
  return release(replace(state, { ...hold, ...done }), id, leasePath, 'done', policy, now)
}

/** The actor has ended its part. With `health_check = none` released is over; else the health gate decides. A managed hold is
 *  observed even so: its request goes first (protocol M5). */
export function release(state: State, id: string, leasePath: string, outcome: Outcome, policy: Policy, now: number): State {
  const hold = state.holds.find((held) => held.id === id)
  if (hold === undefined || hold.phase !== 'acting' || hold.lease.path !== leasePath) return state
  const kind = outcome === 'lease_lost' || outcome === 'overdue' ? outcome : 'released'
  const observed = note(replace(state, { ...hold, phase: 'observing', outcome, phaseSince: now }), kind, hold, outcome, now)
  return policy.healthCheck === 'none' && !hold.managed ? without(observed, id) : observed
}

/** What was seen of an observed hold, with what it was seen of: evidence for another lease or phase is void (protocol E5). */
export interface Judgement {
  readonly id: string
  readonly leasePath: string
  readonly verdict: 'healthy' | 'unchanged' | 'gone' | 'failed'
  readonly reason: string
  readonly jobVersion: number
}

/** Ends an observed hold. A failure stays behind as such, and halts the semaphore when there are more than `maxErrors`. */
export function settle(state: State, judgement: Judgement, policy: Policy, now: number): State {
  const hold = state.holds.find(({ id }) => id === judgement.id)
  if (hold === undefined || hold.phase !== 'observing' || hold.lease.path !== judgement.leasePath) return state
  const rest = note(without(state, hold.id), judgement.verdict, hold, judgement.reason, now)
  const others = rest.failures.filter(({ unit, place }) => unit !== hold.unit && place !== hold.place)
  // A unit that is just as it was before has not become healthy: its open failure stays.
  if (judgement.verdict === 'unchanged') return rest
  if (judgement.verdict !== 'failed') return liftHalt({ ...rest, failures: others }, policy, now)
  const failure: Failure = {
    unit: hold.unit,
    place: hold.place,
    token: hold.token,
    slot: hold.slot,
    reason: cut(judgement.reason),
    at: now,
    jobVersion: judgement.jobVersion,
  }
  const failures = [...others, failure].slice(-MAX_FAILURES)
  const failed = { ...rest, failures }
  if (failures.length <= policy.maxErrors || failed.halted !== null) return failed
  const reason = cut(`${failures.length} failed, and max_errors is ${policy.maxErrors}: ${judgement.reason}`)
  return note({ ...failed, halted: { since: now, reason } }, 'halted', hold, reason, now)
}

/** A failed unit is healthy, gone, or was replaced by a newer version: its failure is over, and perhaps the halt. */
export function recover(state: State, unit: string, token: number, reason: string, policy: Policy, now: number): State {
  const failure = state.failures.find((open) => open.unit === unit && open.token === token)
  if (failure === undefined) return state
  const failures = state.failures.filter((open) => open !== failure)
  return liftHalt(note({ ...state, failures }, 'recovered', failure, reason, now), policy, now)
}

/** An operator says that it may go on: halt and failures are gone. */
export function resume(state: State, reason: string, now: number): State {
  if (state.halted === null && state.failures.length === 0) return state
  return note({ ...state, halted: null, failures: [] }, 'resumed', null, reason, now)
}

/** An operator ends a hold by force. Its actor may still act: nobody can take that from it (protocol, last section). */
export function forceRelease(state: State, id: string, reason: string, now: number): State {
  const hold = state.holds.find((held) => held.id === id)
  return hold === undefined ? state : note(without(state, id), 'forced_release', hold, reason, now)
}

function liftHalt(state: State, policy: Policy, now: number): State {
  if (state.halted === null || state.failures.length > policy.maxErrors) return state
  return note({ ...state, halted: null }, 'halt_lifted', null, 'no more failures than allowed', now)
}

function without(state: State, id: string): State {
  return { ...state, holds: state.holds.filter((hold) => hold.id !== id) }
}

function replace(state: State, hold: Hold): State {
  return { ...state, holds: state.holds.map((held) => (held.id === hold.id ? hold : held)) }
}

function note(state: State, kind: TransitionKind, about: Hold | Failure | null, reason: string, at: number): State {
  const seq = (state.transitions.at(-1)?.seq ?? 0) + 1
  const request = about !== null && 'managed' in about && about.managed ? { request: about.key } : {}
  const entry = { seq, at, kind, unit: about?.unit ?? null, token: about?.token ?? null, reason: cut(reason), ...request }
  return { ...state, transitions: [...state.transitions, entry].slice(-MAX_TRANSITIONS) }
}
