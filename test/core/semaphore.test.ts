import { describe, expect, it } from 'vitest'
import {
  adopt,
  forceRelease,
  grant,
  recover,
  release,
  resume,
  settle,
  takeBack,
  type Judgement,
} from '../../src/core/semaphore.ts'
import { MAX_FAILURES, MAX_TEXT, MAX_TRANSITIONS, type Outcome, type State } from '../../src/core/state.ts'
import { failureOf, heldBy, leaseOf, newHold, NOW, placeName, policyOf, stateOf, unitId } from '../support/builders.ts'

const LATER = NOW + 5_000
const NONE = policyOf({ healthCheck: 'none' })
const LEASE = leaseOf('lease-0').path

const kinds = ({ transitions }: State) => transitions.map(({ kind }) => kind)
const observed = (state: State, n = 0, outcome: Outcome = 'done') =>
  release(state, `hold-${n}`, `lockkeeper/leases/lease-${n}`, outcome, policyOf(), LATER)
const judgement = (n: number, verdict: Judgement['verdict'], over: Partial<Judgement> = {}): Judgement => ({
  id: `hold-${n}`,
  leasePath: `lockkeeper/leases/lease-${n}`,
  verdict,
  reason: `it is ${verdict}`,
  jobVersion: 7,
  ...over,
})

/** Observed, then not healthy. */
function failed(state: State, n: number, policy = policyOf()): State {
  return settle(observed(state, n), judgement(n, 'failed'), policy, LATER)
}

describe('a grant', () => {
  it('adds a hold that acts, with the next token', () => {
    const state = grant(stateOf({ grants: 41 }), newHold(0), NOW)
    expect(state.grants).toBe(42)
    expect(state.lastGrantAt).toBe(NOW)
    expect(state.holds).toEqual([
      { ...newHold(0), token: 42, adopted: 0, phase: 'acting', outcome: null, grantedAt: NOW, phaseSince: NOW },
    ])
    expect(state.transitions).toEqual([
      { seq: 1, at: NOW, kind: 'granted', unit: unitId(0), token: 42, reason: 'the certificate was renewed' },
    ])
  })

  it('that was committed already, its answer lost, is found by its id and changes nothing', () => {
    const once = grant(stateOf(), newHold(0), NOW)
    expect(grant(once, newHold(0), LATER)).toBe(once)
    expect(grant(observed(once), newHold(0), LATER)).toEqual(observed(once))
  })

  it('has a token above all before it, also after holds were taken back, forced out or failed', () => {
    let state = heldBy(0)
    state = takeBack(state, 'hold-0', LEASE, 'locked', NOW)
    state = grant(state, newHold(1), NOW)
    state = forceRelease(state, 'hold-1', 'stuck', NOW)
    state = failed(grant(state, newHold(2), NOW), 2)
    state = grant(state, newHold(3), NOW)
    expect(state.holds.map(({ token }) => token)).toEqual([4])
    expect(state.grants).toBe(4)
  })

  it('keeps texts from outside short', () => {
    const long = 'x'.repeat(5_000)
    const [hold] = grant(stateOf(), newHold(0, { reason: long, actor: long }), NOW).holds
    expect([hold?.reason.length, hold?.actor.length]).toEqual([MAX_TEXT, MAX_TEXT])
  })
})

describe('taking a grant back', () => {
  it('removes the hold before anybody was told, and no token is issued twice', () => {
    const state = takeBack(heldBy(0), 'hold-0', LEASE, 'default is locked', LATER)
    expect(state.holds).toEqual([])
    expect(state.grants).toBe(1)
    expect(state.transitions.at(-1)).toMatchObject({ kind: 'taken_back', unit: unitId(0), token: 1, reason: 'default is locked' })
  })

  it.each<[string, State]>([
    ['was adopted by the other replica', adopt(heldBy(0), 'hold-0', 'key-0', leaseOf('other'), NOW)],
    ['is observed', observed(heldBy(0))],
    ['is over', stateOf({ grants: 1 })],
    ['is held under another lease', grant(stateOf(), newHold(0, { lease: leaseOf('other') }), NOW)],
    ['is of somebody else', heldBy(1)],
  ])('changes nothing when the hold %s', (_what, state) => {
    expect(takeBack(state, 'hold-0', LEASE, 'locked', LATER)).toBe(state)
  })

  it('is refused also when an adopted hold still names the lease of the first handler', () => {
    const state = heldBy(0)
    const adopted = { ...state, holds: state.holds.map((hold) => ({ ...hold, adopted: 1 })) }
    expect(takeBack(adopted, 'hold-0', LEASE, 'locked', LATER)).toBe(adopted)
  })
})

describe('adopting a hold', () => {
  it('hands it to the repeated ask of the same process under a new lease: same token, same slot', () => {
    const state = adopt(heldBy(0), 'hold-0', 'key-0', leaseOf('again'), LATER)
    expect(state.holds).toEqual([{ ...heldBy(0).holds[0], lease: leaseOf('again'), adopted: 1 }])
    expect(state.grants).toBe(1)
    expect(kinds(state)).toEqual(['granted', 'adopted'])
  })

  it('counts each time, and twice with the same lease is once', () => {
    const once = adopt(heldBy(0), 'hold-0', 'key-0', leaseOf('again'), LATER)
    expect(adopt(once, 'hold-0', 'key-0', leaseOf('again'), LATER)).toBe(once)
    const twice = adopt(once, 'hold-0', 'key-0', leaseOf('third'), LATER)
    expect(twice.holds[0]).toMatchObject({ adopted: 2, lease: leaseOf('third') })
  })

  it.each<[string, State, string]>([
    ['another process of the same unit asks', heldBy(0), 'key-of-a-new-process'],
    ['it is observed already', observed(heldBy(0)), 'key-0'],
    ['it is over', stateOf({ grants: 1 }), 'key-0'],
  ])('is refused when %s', (_what, state, key) => {
    expect(adopt(state, 'hold-0', key, leaseOf('again'), LATER)).toBe(state)
  })

  it('makes the old lease worthless: its release frees nothing', () => {
    const state = adopt(heldBy(0), 'hold-0', 'key-0', leaseOf('again'), LATER)
    expect(release(state, 'hold-0', LEASE, 'done', policyOf(), LATER)).toBe(state)
    expect(release(state, 'hold-0', LEASE, 'lease_lost', policyOf(), LATER)).toBe(state)
  })
})

describe('a release', () => {
  it.each<[Outcome, string]>([
    ['done', 'released'],
    ['abandoned', 'released'],
    ['failed', 'released'],
    ['lease_lost', 'lease_lost'],
    ['overdue', 'overdue'],
  ])('%s frees nothing: the hold is observed from then on, and the event says %s', (outcome, kind) => {
    const state = observed(heldBy(0, 1), 0, outcome)
    expect(state.holds).toEqual([
      { ...heldBy(0, 1).holds[0], phase: 'observing', outcome, phaseSince: LATER },
      heldBy(0, 1).holds[1],
    ])
    expect(state.transitions.at(-1)).toMatchObject({ kind, token: 1, unit: unitId(0) })
  })

  it('C2.4 begins healthy_deadline: until then the hold acts, however long its shim drains', () => {
    expect(heldBy(0).holds[0]).toMatchObject({ phase: 'acting' })
    expect(observed(heldBy(0)).holds[0]).toMatchObject({ phase: 'observing', phaseSince: LATER })
  })

  it('twice is once: the first outcome stays', () => {
    const once = observed(heldBy(0))
    expect(observed(once, 0, 'abandoned')).toBe(once)
    expect(observed(once, 0, 'lease_lost')).toBe(once)
  })

  it('by a wrong lease, or of a hold that is over, changes nothing', () => {
    const state = heldBy(0, 1)
    expect(release(state, 'hold-0', 'lockkeeper/leases/lease-1', 'done', policyOf(), LATER)).toBe(state)
    expect(release(state, 'hold-9', LEASE, 'done', policyOf(), LATER)).toBe(state)
  })

  it('that arrives late does not free the new hold of the same unit', () => {
    const over = settle(observed(heldBy(0)), judgement(0, 'healthy'), policyOf(), LATER)
    const again = grant(over, newHold(0, { id: 'hold-0-again', lease: leaseOf('again') }), LATER)
    expect(release(again, 'hold-0', LEASE, 'done', policyOf(), LATER)).toBe(again)
    expect(release(again, 'hold-0-again', LEASE, 'done', policyOf(), LATER)).toBe(again)
  })

  it.each<Outcome>(['done', 'abandoned', 'failed', 'lease_lost'])('with health_check none is over at once: %s', (outcome) => {
    const state = release(heldBy(0, 1), 'hold-0', LEASE, outcome, NONE, LATER)
    expect(state.holds.map(({ id }) => id)).toEqual(['hold-1'])
    expect(state.failures).toEqual([])
    expect(kinds(state).at(-1)).toBe(outcome === 'lease_lost' ? 'lease_lost' : 'released')
    expect(release(state, 'hold-0', LEASE, outcome, NONE, LATER)).toBe(state)
  })
})

describe('the verdict of the health gate', () => {
  it.each(['healthy', 'gone', 'unchanged'] as const)('%s ends the hold, and only this one', (verdict) => {
    const state = settle(observed(heldBy(0, 1)), judgement(0, verdict), policyOf(), LATER)
    expect(state.holds.map(({ id }) => id)).toEqual(['hold-1'])
    expect(state.transitions.at(-1)).toMatchObject({ kind: verdict, unit: unitId(0), token: 1, reason: `it is ${verdict}` })
    expect(state).toMatchObject({ failures: [], halted: null })
    expect(settle(state, judgement(0, verdict), policyOf(), LATER)).toBe(state)
  })

  it.each<[string, State, Partial<Judgement>]>([
    ['for another lease', observed(heldBy(0)), { leasePath: 'lockkeeper/leases/other' }],
    ['for a hold that acts', heldBy(0), {}],
    ['for a hold that is over', stateOf({ grants: 1 }), {}],
    ['for another hold', observed(heldBy(0)), { id: 'hold-7' }],
  ])('is void when it was found %s', (_what, state, over) => {
    for (const verdict of ['healthy', 'failed', 'gone', 'unchanged'] as const) {
      expect(settle(state, judgement(0, verdict, over), policyOf(), LATER)).toBe(state)
    }
  })

  it('that it failed is remembered with the slot, the token and the version of the job, and halts the semaphore', () => {
    const state = failed(heldBy(0), 0)
    expect(state.holds).toEqual([])
    expect(state.failures).toEqual([
      { unit: unitId(0), place: placeName(0), token: 1, slot: 0, reason: 'it is failed', at: LATER, jobVersion: 7 },
    ])
    expect(state.halted).toEqual({ since: LATER, reason: '1 failed, and max_errors is 0: it is failed' })
    expect(kinds(state)).toEqual(['granted', 'released', 'failed', 'halted'])
    expect(settle(state, judgement(0, 'failed'), policyOf(), LATER)).toBe(state)
  })

  it.each([0, 1, 2, 3])('halts at one failure more than max_errors allows: %d', (maxErrors) => {
    let state = heldBy(0, 1, 2, 3)
    for (let n = 0; n <= maxErrors; n++) {
      expect(state.halted).toBeNull()
      state = failed(state, n, policyOf({ maxErrors }))
    }
    expect(state.halted).not.toBeNull()
    expect(state.failures).toHaveLength(maxErrors + 1)
  })

  it('does not halt what is halted already: the first reason and time stay', () => {
    const first = failed(heldBy(0, 1), 0)
    const second = settle(observed(first, 1), judgement(1, 'failed'), policyOf(), LATER + 1)
    expect(second.failures).toHaveLength(2)
    expect(second.halted).toEqual(first.halted)
    expect(kinds(second).filter((kind) => kind === 'halted')).toHaveLength(1)
  })

  it('on a unit that failed before replaces the old failure, also on its replacement at the same place', () => {
    for (const unit of [unitId(0), 'alloc-replacement']) {
      const again = grant(failed(heldBy(0), 0), newHold(0, { id: 'hold-again', unit }), LATER)
      const state = settle(
        release(again, 'hold-again', LEASE, 'done', policyOf(), LATER),
        judgement(0, 'failed', { id: 'hold-again' }),
        policyOf(),
        LATER,
      )
      expect(state.failures.map(({ token }) => token)).toEqual([2])
    }
  })

  it('that it is healthy ends an open failure of the same unit and lifts the halt: the good value got in', () => {
    const halted = failed(heldBy(0), 0)
    const again = observed(grant(halted, newHold(0), LATER))
    const state = settle(again, judgement(0, 'healthy'), policyOf(), LATER)
    expect(state).toMatchObject({ failures: [], halted: null, holds: [] })
    expect(kinds(state).slice(-2)).toEqual(['healthy', 'halt_lifted'])
  })

  it('that it is unchanged leaves an open failure and the halt as they are: it has not become healthy', () => {
    const halted = failed(heldBy(0), 0)
    const again = observed(grant(halted, newHold(0), LATER), 0, 'abandoned')
    const state = settle(again, judgement(0, 'unchanged'), policyOf(), LATER)
    expect(state.holds).toEqual([])
    expect(state.failures).toEqual(halted.failures)
    expect(state.halted).toEqual(halted.halted)
  })

  it('that another unit is healthy does not lift a halt', () => {
    const state = settle(observed(failed(heldBy(0, 1), 0), 1), judgement(1, 'healthy'), policyOf(), LATER)
    expect(state.halted).not.toBeNull()
    expect(state.failures).toHaveLength(1)
  })

  it(`remembers at most ${MAX_FAILURES} failures, the newest, and stays halted`, () => {
    const failures = Array.from({ length: MAX_FAILURES }, (_, n) => failureOf(100 + n, { token: n }))
    const halted = { since: NOW, reason: 'too many' }
    const state = failed({ ...heldBy(0), failures, halted }, 0)
    expect(state.failures).toHaveLength(MAX_FAILURES)
    expect(state.failures.at(-1)?.unit).toBe(unitId(0))
    expect(state.halted).toEqual(halted)
  })
})

describe('a failure', () => {
  const two = failed(failed(heldBy(0, 1), 0), 1)

  it('ends when its unit has recovered; the halt is lifted when no more are left than allowed', () => {
    const one = recover(two, unitId(0), 1, 'healthy again', policyOf(), LATER)
    expect(one.failures.map(({ unit }) => unit)).toEqual([unitId(1)])
    expect(one.halted).toEqual(two.halted)
    const none = recover(one, unitId(1), 2, 'gone', policyOf(), LATER)
    expect(none).toMatchObject({ failures: [], halted: null })
    expect(kinds(none).slice(-3)).toEqual(['recovered', 'recovered', 'halt_lifted'])
    expect(recover(two, unitId(0), 1, 'healthy again', policyOf({ maxErrors: 1 }), LATER).halted).toBeNull()
  })

  it('ends once, and never by what was seen of an older one of the same unit', () => {
    const once = recover(two, unitId(0), 1, 'healthy again', policyOf(), LATER)
    expect(recover(once, unitId(0), 1, 'healthy again', policyOf(), LATER)).toBe(once)
    expect(recover(two, unitId(0), 2, 'healthy again', policyOf(), LATER)).toBe(two)
    expect(recover(two, unitId(5), 1, 'healthy again', policyOf(), LATER)).toBe(two)
  })

  it('is forgotten, and the halt with it, when an operator says resume; twice is once', () => {
    const resumed = resume(two, 'rolled back', LATER)
    expect(resumed).toMatchObject({ failures: [], halted: null, grants: two.grants })
    expect(resumed.transitions.at(-1)).toMatchObject({ kind: 'resumed', unit: null, token: null, reason: 'rolled back' })
    expect(resume(resumed, 'rolled back', LATER)).toBe(resumed)
    expect(resume(heldBy(0), 'for nothing', LATER)).toEqual(heldBy(0))
  })

  it('that is allowed can be resumed too, although nothing is halted', () => {
    const allowed = failed(heldBy(0), 0, policyOf({ maxErrors: 1 }))
    expect(allowed.halted).toBeNull()
    expect(resume(allowed, 'seen', LATER).failures).toEqual([])
  })
})

describe('a forced release', () => {
  it.each<[string, State]>([
    ['acts', heldBy(0)],
    ['is observed', observed(heldBy(0))],
    ['was adopted', adopt(heldBy(0), 'hold-0', 'key-0', leaseOf('again'), NOW)],
  ])("ends a hold that %s, with the operator's reason, and counts no failure", (_what, state) => {
    const freed = forceRelease(state, 'hold-0', 'the host burned down', LATER)
    expect(freed).toMatchObject({ holds: [], failures: [], halted: null, grants: 1 })
    expect(freed.transitions.at(-1)).toMatchObject({ kind: 'forced_release', token: 1, reason: 'the host burned down' })
    expect(forceRelease(freed, 'hold-0', 'again', LATER)).toBe(freed)
  })
})

describe('the transitions', () => {
  it(`are the last ${MAX_TRANSITIONS}, and their numbers count on without a gap`, () => {
    let state = stateOf()
    for (let n = 0; n < 30; n++) state = forceRelease(grant(state, newHold(n), NOW + n), `hold-${n}`, 'next', NOW + n)
    expect(state.transitions).toHaveLength(MAX_TRANSITIONS)
    expect(state.transitions.map(({ seq }) => seq)).toEqual(Array.from({ length: MAX_TRANSITIONS }, (_, n) => 41 + n))
    expect(state.grants).toBe(30)
  })

  it('are one for each change, so that nothing changes by magic', () => {
    const steps: State[] = [heldBy(0)]
    const step = (next: State) => void steps.push(next)
    step(adopt(steps.at(-1) as State, 'hold-0', 'key-0', leaseOf('lease-0b'), NOW))
    step(release(steps.at(-1) as State, 'hold-0', leaseOf('lease-0b').path, 'done', policyOf({ maxErrors: 1 }), NOW))
    const failure = judgement(0, 'failed', { leasePath: leaseOf('lease-0b').path })
    step(settle(steps.at(-1) as State, failure, policyOf({ maxErrors: 1 }), NOW))
    step(recover(steps.at(-1) as State, unitId(0), 1, 'healthy', policyOf({ maxErrors: 1 }), NOW))
    expect(steps.map(({ transitions }) => transitions.length)).toEqual([1, 2, 3, 4, 5])
    expect(kinds(steps.at(-1) as State)).toEqual(['granted', 'adopted', 'released', 'failed', 'recovered'])
  })

  it('keep reasons short', () => {
    const state = forceRelease(heldBy(0), 'hold-0', 'x'.repeat(5_000), NOW)
    expect(state.transitions.at(-1)?.reason).toHaveLength(MAX_TEXT)
  })
})
