import { describe, expect, it } from 'vitest'
import { admit, inOrder, overBudget, type Candidate, type Look, type Plan } from '../../src/core/admission.ts'
import { groupView, NO_GROUP } from '../../src/core/budget.ts'
import type { Allocation } from '../../src/core/cluster.ts'
import type { Policy } from '../../src/core/policy.ts'
import { forceRelease, grant, release, resume, settle } from '../../src/core/semaphore.ts'
import { MAX_HOLDS, type State } from '../../src/core/state.ts'
import {
  allocationOf,
  allocationsOf,
  candidateOf,
  failureOf,
  groupSpec,
  heldBy,
  jobOf,
  MINUTE,
  newHold,
  NOW,
  placeName,
  policyOf,
  stateOf,
  taskOf,
  unitId,
} from '../support/builders.ts'

const CRASHED = { tasks: { app: taskOf({ state: 'dead' as const }) } }
const MISSING = { desired: 'stop' as const, client: 'complete' as const }

function groupOf(count: number, over: Readonly<Record<number, Partial<Allocation>>> = {}) {
  const group = groupSpec({ count })
  return groupView(jobOf(), group, allocationsOf(count, over), [])
}

function lookAt(count: number, over: Readonly<Record<number, Partial<Allocation>>> = {}, more: Partial<Look> = {}): Look {
  return { locked: null, deploying: false, group: groupOf(count, over), ...more }
}

function plan(state: State, asking: readonly Candidate[], look: Look, policy: Policy, now = NOW): Plan {
  return admit(state, inOrder(asking, state, look.group), look, policy, now)
}

const asking = (...units: readonly number[]) => units.map((n) => candidateOf(n))
const granted = ({ grants }: Plan) => grants.map(({ candidate, slot }) => [candidate.unit, slot])
const waiting = ({ waits }: Plan) => Object.fromEntries([...waits].map(([id, { kind }]) => [id, kind]))

/** The state after the plan was written. */
function after(state: State, { grants }: Plan, now = NOW): State {
  return grants.reduce((next, { candidate: { unit, place }, slot, wasUp }) => {
    const id = `${unit} ${next.grants + 1}`
    return grant(next, newHold(0, { id, unit, place, slot, wasUp }), now)
  }, state)
}

describe('the order of the queue', () => {
  it('C1.13 is the order of asking, when nothing else tells them apart', () => {
    const all = asking(3, 1, 2, 0)
    expect(inOrder(all, stateOf(), groupOf(4)).map(({ id }) => id)).toEqual(['ask-0', 'ask-1', 'ask-2', 'ask-3'])
  })

  it('C1.13 puts a former holder who asks again behind those who waited before it', () => {
    const again = candidateOf(0, { createIndex: 2_000 })
    expect(inOrder([again, ...asking(1, 2)], stateOf(), groupOf(3)).map(({ unit }) => unit)).toEqual([
      unitId(1),
      unitId(2),
      unitId(0),
    ])
  })

  it('is: those that are down, then priority, then the earliest deadline, then who asked first', () => {
    const all = [
      candidateOf(0),
      candidateOf(1, { deadline: NOW + 2 * MINUTE }),
      candidateOf(2, { deadline: NOW + MINUTE }),
      candidateOf(3, { priority: 5 }),
      candidateOf(4, { priority: 5, deadline: NOW + 9 * MINUTE }),
      candidateOf(5, { priority: -1 }),
    ]
    const order = inOrder(all, stateOf(), groupOf(6, { 5: CRASHED }))
    expect(order.map(({ unit }) => unit)).toEqual([5, 4, 3, 2, 1, 0].map(unitId))
  })

  it('has those whose request is not stored yet at the end, as they came', () => {
    const unstored = [candidateOf(0, { createIndex: Infinity }), candidateOf(2, { createIndex: Infinity })]
    expect(inOrder([...unstored, candidateOf(1)], stateOf(), groupOf(3)).map(({ unit }) => unit)).toEqual([1, 0, 2].map(unitId))
  })

  it('has a unit with an open failure first, whatever the servers see of it', () => {
    const state = stateOf({ failures: [failureOf(1)] })
    expect(inOrder(asking(0, 1), state, groupOf(2)).map(({ unit }) => unit)).toEqual([unitId(1), unitId(0)])
  })

  it('does not change the list that it is made of, and takes a group that cannot be read for up', () => {
    const all = asking(1, 0)
    expect(inOrder(all, stateOf(), null).map(({ unit }) => unit)).toEqual([0, 1].map(unitId))
    expect(all.map(({ unit }) => unit)).toEqual([1, 0].map(unitId))
  })
})

describe('a request', () => {
  it('is granted at once when the slot is free and everybody is up', () => {
    const { grants, waits, next } = plan(stateOf(), asking(0), lookAt(3), policyOf())
    expect(grants).toEqual([{ candidate: candidateOf(0), slot: 0, wasUp: true }])
    expect(waits.size).toBe(0)
    expect(next.size).toBe(0)
  })

  it('C1.1 of two that ask at the same moment, the second waits with kind full', () => {
    const decided = plan(stateOf(), asking(0, 1), lookAt(2), policyOf())
    expect(granted(decided)).toEqual([[unitId(0), 0]])
    expect(decided.waits.get('ask-1')).toEqual({ kind: 'full', detail: '1 of 1 slots are taken: it is next' })
    const later = plan(after(stateOf(), decided), asking(1), lookAt(2), policyOf())
    expect(later.waits.get('ask-1')).toEqual({ kind: 'full', detail: '1 of 1 slots are taken: web.api[0] is held (acting)' })
  })

  /** Everything that could be against it at once; then one reason after another is taken away. */
  it('is told the first of all the reasons why it waits: locked, halted, deployment, too_soon, full', () => {
    const halted = { since: NOW, reason: '1 failed, and max_errors is 0' }
    const policy = policyOf({ stagger: 5_000 })
    const kindOf = (state: State, more: Partial<Look>, now = NOW) =>
      plan(state, asking(1), lookAt(3, {}, more), policy, now).waits.get('ask-1')
    const state = { ...heldBy(0), halted, lastGrantAt: NOW }
    const locked = 'default is locked by ops: freeze'
    expect(kindOf(state, { locked, deploying: true })).toEqual({ kind: 'locked', detail: locked })
    expect(kindOf(state, { deploying: true })).toEqual({ kind: 'halted', detail: halted.reason })
    expect(kindOf({ ...state, halted: null }, { deploying: true })?.kind).toBe('deployment')
    expect(kindOf({ ...state, halted: null }, {})).toEqual({ kind: 'too_soon', detail: 'stagger' })
    expect(kindOf({ ...state, halted: null }, {}, NOW + 5_000)?.kind).toBe('full')
    expect(kindOf({ ...state, halted: null, holds: [] }, {}, NOW + 5_000)).toBeUndefined()
  })

  it('C1.15 waits for a deployment only when the policy says so', () => {
    const look = lookAt(3, {}, { deploying: true })
    expect(waiting(plan(stateOf(), asking(0), look, policyOf()))).toEqual({ 'ask-0': 'deployment' })
    expect(granted(plan(stateOf(), asking(0), look, policyOf({ waitForDeployment: false })))).toHaveLength(1)
  })

  it('waits while the group cannot be read: unknown is not healthy', () => {
    const decided = plan(stateOf(), asking(0), lookAt(3, {}, { group: null }), policyOf())
    expect(decided.waits.get('ask-0')).toMatchObject({ kind: 'full', detail: expect.stringContaining('cannot be read') })
    const ungated = plan(stateOf(), asking(0), lookAt(3, {}, { group: null }), policyOf({ maxParallel: 0 }))
    expect(waiting(ungated)).toEqual({ 'ask-0': 'full' })
  })

  it('of a unit that is held already waits for the end of its own hold, even with slots free', () => {
    const decided = plan(heldBy(0), asking(0), lookAt(3), policyOf({ maxParallel: 2 }))
    expect(decided.waits.get('ask-0')).toMatchObject({ kind: 'full', detail: expect.stringContaining('held already') })
    const twice = [candidateOf(0), candidateOf(0, { id: 'ask-0-again', createIndex: 2_000 })]
    expect(granted(plan(stateOf(), twice, lookAt(3), policyOf({ maxParallel: 2 })))).toEqual([[unitId(0), 0]])
  })

  it('of an allocation beyond the count, while the group is scaled down, is granted like any other', () => {
    const stranger = candidateOf(8, { unit: 'alloc-new', place: placeName(8) })
    const group = groupView(jobOf(), groupSpec(), [...allocationsOf(3), allocationOf(8, { id: 'alloc-new' })], [])
    expect(granted(plan(stateOf(), [stranger], { locked: null, deploying: false, group }, policyOf()))).toHaveLength(1)
  })
})

describe('the slots', () => {
  it.each([1, 2, 3, 5])('C1.4 are never more than max_parallel: %d', (maxParallel) => {
    const decided = plan(stateOf(), asking(0, 1, 2, 3, 4, 5, 6), lookAt(7), policyOf({ maxParallel }))
    expect(decided.grants.map(({ slot }) => slot)).toEqual(Array.from({ length: maxParallel }, (_, slot) => slot))
    expect(Object.values(waiting(decided))).toEqual(Array.from({ length: 7 - maxParallel }, () => 'full'))
  })

  it('C1.8 are stable: a new hold gets the number that became free, and no two share one', () => {
    const policy = policyOf({ maxParallel: 3 })
    const held = heldBy(0, 1, 2)
    const lost = release(held, 'hold-1', 'lockkeeper/leases/lease-1', 'lease_lost', policy, NOW)
    expect(waiting(plan(lost, asking(3), lookAt(4), policy))).toEqual({ 'ask-3': 'full' })
    const judged = {
      id: 'hold-1',
      leasePath: 'lockkeeper/leases/lease-1',
      verdict: 'healthy',
      reason: '',
      jobVersion: 0,
    } as const
    const freed = settle(lost, judged, policy, NOW)
    const decided = plan(freed, asking(3), lookAt(4), policy)
    expect(granted(decided)).toEqual([[unitId(3), 1]])
    const next = after(freed, decided)
    expect(next.holds.map(({ slot }) => slot)).toEqual([0, 2, 1])
    expect(next.holds.at(-1)?.token).toBe(4)
  })

  it('may be fewer than what is held, after the policy was lowered: nobody is granted until it fits again', () => {
    expect(waiting(plan(heldBy(0, 1, 2), asking(3), lookAt(4), policyOf({ maxParallel: 2 })))).toEqual({ 'ask-3': 'full' })
    expect(granted(plan(heldBy(0), asking(3), lookAt(4), policyOf({ maxParallel: 2 })))).toEqual([[unitId(3), 1]])
  })

  it('are without limit when max_parallel is 0, and so is what may be down; locks and deployments count all the same', () => {
    const policy = policyOf({ maxParallel: 0, maxUnavailable: 0 })
    const look = lookAt(5, { 3: CRASHED, 4: MISSING })
    expect(granted(plan(heldBy(0), asking(1, 2, 3), look, policy))).toHaveLength(3)
    expect(waiting(plan(stateOf(), asking(1), { ...look, locked: 'all is locked' }, policy))).toEqual({ 'ask-1': 'locked' })
    expect(waiting(plan(stateOf(), asking(1), { ...look, deploying: true }, policy))).toEqual({ 'ask-1': 'deployment' })
  })

  it.each([0, 100])('are never more than a state can hold, whatever max_parallel says: %d', (maxParallel) => {
    const all = Array.from({ length: 70 }, (_, n) => candidateOf(n))
    const decided = plan(stateOf(), all, lookAt(70), policyOf({ maxParallel }))
    expect(decided.grants).toHaveLength(MAX_HOLDS)
  })

  it('of a shared semaphore know no group: whoever asks first has it', () => {
    const look = { locked: null, deploying: false, group: NO_GROUP }
    const units = ['b', 'a'].map((unit, n) => candidateOf(n, { unit, place: unit }))
    const decided = plan(stateOf(), units, look, policyOf({ healthCheck: 'none' }))
    expect(granted(decided)).toEqual([['b', 0]])
    expect(waiting(decided)).toEqual({ 'ask-1': 'full' })
  })
})

describe('what is down', () => {
  const policy = policyOf({ maxParallel: 3, maxUnavailable: 4 })
  const look = lookAt(10, { 0: CRASHED, 1: CRASHED })
  const healthy = asking(2, 3, 4, 5, 6, 7, 8, 9)

  it('C1.5 is a limit of its own: with two crashed of ten, two are held at a time, not three, and never none', () => {
    let state = stateOf()
    for (const expected of [2, 0]) {
      const decided = plan(state, healthy, look, policy)
      expect(decided.grants).toHaveLength(expected)
      state = after(state, decided)
    }
    // The first is over: one more goes.
    const freed = forceRelease(state, `${unitId(2)} 1`, 'over', NOW)
    expect(granted(plan(freed, healthy, look, policy))).toEqual([[unitId(2), 0]])
  })

  it('C1.5 with max_unavailable 2 lets none go, and each waits with kind full and the names of the two', () => {
    const decided = plan(stateOf(), healthy, look, { ...policy, maxUnavailable: 2 })
    expect(decided.grants).toEqual([])
    expect(decided.waits.size).toBe(8)
    for (const { kind, detail } of decided.waits.values()) {
      expect(kind).toBe('full')
      expect(detail).toBe(
        '2 of at most 2 are down: web.api[0] (alloc-0): task app is dead; web.api[1] (alloc-1): task app is dead',
      )
    }
  })

  it.each([4, 2, 1])('C1.5 a crashed one that asks is granted in either case: max_unavailable %d', (maxUnavailable) => {
    const decided = plan(stateOf(), [...healthy, candidateOf(1)], look, { ...policy, maxUnavailable })
    expect(decided.grants[0]).toMatchObject({ candidate: { unit: unitId(1) }, wasUp: false })
  })

  it('C1.5 a crashed one needs a slot all the same', () => {
    expect(waiting(plan(heldBy(2, 3, 4), asking(1), lookAt(10, { 1: CRASHED }), policyOf({ maxParallel: 3 })))).toEqual({
      'ask-1': 'full',
    })
  })

  it.each<[string, number, Partial<Allocation>, string]>([
    ['(a) is draining, of two', 2, { migrating: true }, 'web.api[1] (alloc-1) is draining'],
    ['(b) has crashed, of five', 5, CRASHED, 'web.api[1] (alloc-1): task app is dead'],
    ['(b) has crashed for good, of five', 5, { client: 'failed' }, 'web.api[1] (alloc-1) is failed'],
    ['is missing, of five', 5, MISSING, 'web.api[1] is missing: 4 of 5 allocations are there'],
  ])('C1.9 a healthy one waits, full, and is told which other one %s; and goes when that is over', (_what, count, over, why) => {
    const decided = plan(stateOf(), asking(0), lookAt(count, { 1: over }), policyOf())
    expect(decided.waits.get('ask-0')).toEqual({ kind: 'full', detail: `1 of at most 1 are down: ${why}` })
    expect(granted(plan(stateOf(), asking(0), lookAt(count), policyOf()))).toHaveLength(1)
  })

  it('C1.12 the broken one goes first, though a healthy one asked before, and the healthy one after it', () => {
    const crashed = lookAt(3, { 1: CRASHED })
    expect(plan(stateOf(), asking(0), crashed, policyOf()).waits.get('ask-0')).toMatchObject({
      kind: 'full',
      detail: expect.stringContaining('web.api[1]'),
    })
    const both = plan(stateOf(), asking(0, 1), crashed, policyOf())
    expect(granted(both)).toEqual([[unitId(1), 0]])
    expect(granted(plan(stateOf(), asking(0), lookAt(3), policyOf()))).toEqual([[unitId(0), 0]])
  })

  it('C1.12 while another holds the slot, the broken one stands before the healthy one', () => {
    const crashed = lookAt(3, { 1: CRASHED })
    expect(inOrder(asking(0, 1), stateOf(), crashed.group).map(({ unit }) => unit)).toEqual([unitId(1), unitId(0)])
    expect(waiting(plan(heldBy(2), asking(0, 1), crashed, policyOf()))).toEqual({ 'ask-0': 'full', 'ask-1': 'full' })
  })

  it('counts a unit once that is held and down at the same time', () => {
    const two = policyOf({ maxParallel: 2 })
    expect(granted(plan(heldBy(0), asking(1), lookAt(3, { 0: CRASHED }), two))).toEqual([[unitId(1), 1]])
  })

  it('counts a unit once that is held while its replacement is not there yet', () => {
    const two = policyOf({ maxParallel: 2 })
    expect(granted(plan(heldBy(0), asking(1), lookAt(3, { 0: MISSING }), two))).toEqual([[unitId(1), 1]])
  })

  it('counts a unit once that failed and is missing, so that an allowed failure does not stop the others', () => {
    const state = stateOf({ failures: [failureOf(0)] })
    const policyWithErrors = policyOf({ maxParallel: 2, maxErrors: 1 })
    expect(granted(plan(state, asking(1), lookAt(3, { 0: MISSING }), policyWithErrors))).toHaveLength(1)
    expect(granted(plan(state, asking(1, 2), lookAt(3, { 0: MISSING }), policyWithErrors))).toHaveLength(1)
  })

  it('names the first few and says how many more there are', () => {
    const broken = lookAt(6, { 1: CRASHED, 2: CRASHED, 3: CRASHED, 4: CRASHED, 5: CRASHED })
    const detail = plan(stateOf(), asking(0), broken, policyOf()).waits.get('ask-0')?.detail
    expect(detail).toMatch(/^5 of at most 1 are down: web\.api\[1\].*web\.api\[3\].*; and 2 more$/)
  })
})

describe('the stagger', () => {
  const policy = policyOf({ maxParallel: 10, stagger: 5_000 })
  const look = lookAt(100)

  it('C1.6 keeps two grants 5 s apart: a waiter with a free slot before it waits with kind too_soon', () => {
    const first = plan(stateOf(), asking(0, 1), look, policy)
    expect(granted(first)).toHaveLength(1)
    expect(first.waits.get('ask-1')).toEqual({ kind: 'too_soon', detail: 'stagger' })
    const state = after(stateOf(), first)
    expect(waiting(plan(state, asking(1), look, policy, NOW + 4_999))).toEqual({ 'ask-1': 'too_soon' })
    expect(granted(plan(state, asking(1), look, policy, NOW + 5_000))).toHaveLength(1)
  })

  it('C1.6 lets no more than a tenth of 100 go, one each 5 s', () => {
    let state = stateOf()
    const everybody = Array.from({ length: 100 }, (_, n) => candidateOf(n))
    for (let tick = 0; tick < 60; tick++) {
      const now = NOW + tick * 1_000
      state = after(state, plan(state, everybody, look, policy, now), now)
      expect(state.holds).toHaveLength(Math.min(10, 1 + Math.floor(tick / 5)))
    }
  })

  it('does not wait for ever when the wall clock was turned back', () => {
    const state = stateOf({ lastGrantAt: NOW + 60 * MINUTE })
    expect(granted(plan(state, asking(0), look, policy))).toHaveLength(1)
  })
})

describe('a halted semaphore', () => {
  const halted = { since: NOW, reason: '1 failed, and max_errors is 0: check up says failure' }
  const state = stateOf({ halted, failures: [failureOf(0, { slot: 2 })] })

  it('lets nobody go but the unit that failed, which may try a good value on its own slot', () => {
    const decided = plan(state, asking(1, 0), lookAt(3), policyOf({ maxParallel: 3 }))
    expect(granted(decided)).toEqual([[unitId(0), 2]])
    expect(waiting(decided)).toEqual({ 'ask-1': 'halted' })
  })

  it('lets the replacement of the unit that failed go as well: it stands at the same place', () => {
    const replacement = candidateOf(0, { unit: 'alloc-9' })
    expect(granted(plan(state, [replacement], lookAt(3), policyOf()))).toEqual([['alloc-9', 2]])
  })

  it('lets the unit that failed go even when others have crashed: it is unavailable itself and costs nothing more', () => {
    const decided = plan(state, asking(0), lookAt(3, { 1: CRASHED }), policyOf())
    expect(decided.grants).toEqual([{ candidate: candidateOf(0), slot: 2, wasUp: false }])
  })

  it('does not let the unit that failed past an operator lock, a deployment, or a slot that is taken', () => {
    const own = asking(0)
    expect(waiting(plan(state, own, lookAt(3, {}, { locked: 'locked' }), policyOf()))).toEqual({ 'ask-0': 'locked' })
    expect(waiting(plan(state, own, lookAt(3, {}, { deploying: true }), policyOf()))).toEqual({ 'ask-0': 'deployment' })
    const busy = { ...heldBy(1), halted, failures: state.failures }
    expect(waiting(plan(busy, own, lookAt(3), policyOf()))).toEqual({ 'ask-0': 'full' })
  })

  it('gives the unit that failed another slot when its own is taken meanwhile', () => {
    const busy = { ...heldBy(1), failures: [failureOf(0, { slot: 0 })] }
    expect(granted(plan(busy, asking(0), lookAt(3), policyOf({ maxParallel: 2 })))).toEqual([[unitId(0), 1]])
  })

  it('goes on when an operator has resumed it', () => {
    expect(granted(plan(resume(state, 'fixed', NOW), asking(1), lookAt(3), policyOf()))).toEqual([[unitId(1), 0]])
  })
})

describe('C1.14 some failures are allowed', () => {
  const policy = policyOf({ maxParallel: 3, maxUnavailable: 4, maxErrors: 1 })
  const look = lookAt(6)
  const judge = (state: State, unit: number, verdict: 'healthy' | 'failed') => {
    const hold = state.holds.find((held) => held.unit === unitId(unit))
    if (hold === undefined) throw new Error(`${unitId(unit)} is not held`)
    const observed = release(state, hold.id, hold.lease.path, 'done', policy, NOW)
    const judgement = { id: hold.id, leasePath: hold.lease.path, verdict, reason: verdict, jobVersion: 0 }
    return settle(observed, judgement, policy, NOW)
  }

  it('C1.14 the first failure does not halt it and counts as unavailable; the second halts it; who is observed ends normally', () => {
    let state = after(stateOf(), plan(stateOf(), asking(0, 1, 2, 3, 4, 5), look, policy))
    expect(state.holds.map(({ unit }) => unit)).toEqual([0, 1, 2].map(unitId))
    state = judge(judge(judge(state, 0, 'failed'), 1, 'healthy'), 2, 'healthy')
    expect(state.halted).toBeNull()
    // Three slots are free, and one of four is down: D, E and F would fit; only D and E ask yet.
    state = after(state, plan(state, asking(3, 4), look, policy))
    expect(state.holds.map(({ unit }) => unit)).toEqual([3, 4].map(unitId))
    const down = plan(state, asking(5), look, { ...policy, maxUnavailable: 3 }).waits.get('ask-5')
    expect(down).toMatchObject({ kind: 'full', detail: expect.stringContaining('web.api[0] failed') })
    state = judge(state, 3, 'failed')
    expect(state.halted?.reason).toContain('2 failed, and max_errors is 1')
    expect(waiting(plan(state, asking(5), look, policy))).toEqual({ 'ask-5': 'halted' })
    expect(granted(plan(state, asking(5, 0), look, policy))[0]?.[0]).toBe(unitId(0))
    state = judge(state, 4, 'healthy')
    expect(state.holds).toEqual([])
    expect(state.halted).not.toBeNull()
  })
})

describe('a candidate that is next but cannot be handed its grant here', () => {
  const away = candidateOf(0, { ready: false })

  it('keeps its place: nobody behind it goes first', () => {
    const decided = plan(stateOf(), [away, ...asking(1, 2)], lookAt(3), policyOf())
    expect(decided.grants).toEqual([])
    expect([...decided.next]).toEqual(['ask-0'])
    expect(decided.waits.get('ask-0')).toEqual({ kind: 'full', detail: 'it is next and is being granted' })
    expect(waiting(decided)).toEqual({ 'ask-0': 'full', 'ask-1': 'full', 'ask-2': 'full' })
  })

  it('takes one share of slots and of what may be down, and no more', () => {
    const decided = plan(stateOf(), [away, ...asking(1, 2)], lookAt(3), policyOf({ maxParallel: 3, maxUnavailable: 2 }))
    expect(granted(decided)).toEqual([[unitId(1), 1]])
    expect(waiting(decided)).toEqual({ 'ask-0': 'full', 'ask-2': 'full' })
  })

  it('holds the stagger too', () => {
    const decided = plan(stateOf(), [away, ...asking(1)], lookAt(3), policyOf({ maxParallel: 3, stagger: 5_000 }))
    expect(waiting(decided)).toEqual({ 'ask-0': 'full', 'ask-1': 'too_soon' })
  })

  it('is not next when it would have to wait anyhow', () => {
    const decided = plan(stateOf(), [away], lookAt(3, {}, { locked: 'locked' }), policyOf())
    expect(decided.next.size).toBe(0)
    expect(waiting(decided)).toEqual({ 'ask-0': 'locked' })
  })
})

describe('a look at the budget after the grant was committed', () => {
  it('finds room as long as nobody else has gone down meanwhile', () => {
    expect(overBudget(heldBy(0), 'hold-0', groupOf(3), policyOf())).toBeNull()
    expect(overBudget(heldBy(0), 'hold-0', groupOf(3, { 0: CRASHED }), policyOf())).toBeNull()
    expect(overBudget(heldBy(0), 'hold-0', groupOf(3, { 0: MISSING }), policyOf())).toBeNull()
  })

  it('finds that another one crashed between the look and the commit, and says which', () => {
    expect(overBudget(heldBy(0), 'hold-0', groupOf(3, { 2: CRASHED }), policyOf())).toBe(
      '2 of at most 1 are down: web.api[2] (alloc-2): task app is dead; web.api[0] is held (acting)',
    )
  })

  it('does not stop a unit that was down itself, nor anything that is not gated, nor a hold that is over', () => {
    const group = groupOf(3, { 0: CRASHED, 2: CRASHED })
    const down = grant(stateOf(), newHold(0, { wasUp: false }), NOW)
    expect(overBudget(down, 'hold-0', group, policyOf())).toBeNull()
    expect(overBudget(heldBy(0), 'hold-0', group, policyOf({ maxParallel: 0 }))).toBeNull()
    expect(overBudget(heldBy(0), 'hold-7', group, policyOf())).toBeNull()
  })

  it('counts open failures and other holds, each place once', () => {
    const state = { ...heldBy(0, 1), failures: [failureOf(1), failureOf(2)] }
    const group = groupOf(4, { 1: CRASHED })
    expect(overBudget(state, 'hold-0', group, policyOf({ maxParallel: 3 }))).toBeNull()
    expect(overBudget(state, 'hold-0', group, policyOf({ maxParallel: 2 }))).toContain('3 of at most 2 are down')
  })
})
