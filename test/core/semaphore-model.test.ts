// One semaphore, driven at random by everything that can happen to it, and what must hold at every step. The checks are written
// from the promises (design §2 and §4.2), not from the code: sets of names, counted anew each time.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { admit, inOrder, overBudget, type Candidate, type Look } from '../../src/core/admission.ts'
import { groupView } from '../../src/core/budget.ts'
import type { Allocation } from '../../src/core/cluster.ts'
import type { Policy } from '../../src/core/policy.ts'
import { adopt, forceRelease, grant, recover, release, resume, settle, takeBack } from '../../src/core/semaphore.ts'
import { decodeState, encodeState, type Outcome, type State } from '../../src/core/state.ts'
import {
  allocationOf,
  groupSpec,
  jobOf,
  leaseOf,
  newHold,
  NOW,
  placeName,
  policyOf,
  SCOPE,
  stateOf,
  taskOf,
} from '../support/builders.ts'

const COUNT = 6
const KINDS = [
  'ask',
  'ask',
  'ask',
  'leave',
  'plan',
  'plan',
  'plan',
  'release',
  'release',
  'release by a stranger',
  'lose the lease',
  'healthy',
  'healthy',
  'failed',
  'unchanged',
  'late evidence',
  'recover',
  'take back',
  'adopt',
  'adopt by a stranger',
  'resume',
  'force',
  'crash',
  'vanish',
  'mend',
  'lock',
  'deploy',
  'policy',
  'time',
] as const
const OUTCOMES: readonly Outcome[] = ['done', 'abandoned', 'failed', 'overdue']

interface Step {
  readonly kind: (typeof KINDS)[number]
  /** Which unit, hold or failure: modulo how many there are. */
  readonly n: number
  readonly flag: boolean
  readonly policy: Policy
}

const policies: fc.Arbitrary<Policy> = fc
  .record({
    maxParallel: fc.nat({ max: 4 }),
    maxUnavailable: fc.integer({ min: 1, max: 5 }),
    maxErrors: fc.nat({ max: 2 }),
    stagger: fc.constantFrom(0, 0, 5_000),
    healthCheck: fc.constantFrom('checks' as const, 'checks' as const, 'none' as const),
    waitForDeployment: fc.boolean(),
  })
  .map((over) => policyOf(over))
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({ kind: fc.constantFrom(...KINDS), n: fc.nat({ max: 11 }), flag: fc.boolean(), policy: policies }),
  { maxLength: 80 },
)

class Run {
  state: State = stateOf()
  policy: Policy
  now = NOW
  readonly crashed = new Set<number>()
  readonly vanished = new Set<number>()
  readonly queue = new Map<string, Candidate>()
  locked = false
  deploying = false
  readonly tokens: number[] = []
  granted = 0
  readonly #ids = { next: 0 }

  constructor(policy: Policy) {
    this.policy = policy
  }

  step({ kind, n, flag, policy }: Step): void {
    const hold = this.state.holds[n % Math.max(1, this.state.holds.length)]
    const failure = this.state.failures[n % Math.max(1, this.state.failures.length)]
    const path = hold?.lease.path ?? ''
    const id = hold?.id ?? 'nobody'
    switch (kind) {
      case 'ask':
        return this.ask(n % COUNT, flag)
      case 'leave':
        return void this.queue.delete(`ask-${n % COUNT}`)
      case 'plan':
        return this.plan()
      case 'release': {
        const outcome = OUTCOMES[n % OUTCOMES.length] as Outcome
        return this.change((s) => release(s, id, path, outcome, this.policy, this.now))
      }
      case 'release by a stranger':
        return this.refused((s) => release(s, id, `${path}-old`, 'done', this.policy, this.now))
      case 'lose the lease':
        return this.change((s) => release(s, id, path, 'lease_lost', this.policy, this.now))
      case 'healthy':
      case 'failed':
      case 'unchanged': {
        const judgement = { id, leasePath: path, verdict: kind, reason: kind, jobVersion: 0 }
        return this.change((s) => settle(s, judgement, this.policy, this.now))
      }
      case 'late evidence': {
        const judgement = { id, leasePath: `${path}-old`, verdict: flag ? ('healthy' as const) : ('failed' as const) }
        return this.refused((s) => settle(s, { ...judgement, reason: 'late', jobVersion: 0 }, this.policy, this.now))
      }
      case 'recover':
        return this.change((s) => recover(s, failure?.unit ?? '', failure?.token ?? 0, 'healthy', this.policy, this.now))
      case 'take back': {
        const change = (s: State) => takeBack(s, id, flag ? path : `${path}-old`, 'locked', this.now)
        const may = hold !== undefined && flag && hold.phase === 'acting' && hold.adopted === 0
        return may ? this.change(change) : this.refused(change)
      }
      case 'adopt': {
        const lease = leaseOf(this.#newId('lease'))
        return this.change((s) => adopt(s, id, hold?.key ?? '', lease, this.now))
      }
      case 'adopt by a stranger':
        return this.refused((s) => adopt(s, id, 'another process', leaseOf(this.#newId('lease')), this.now))
      case 'resume':
        return this.change((s) => resume(s, 'go on', this.now))
      case 'force':
        return this.change((s) => forceRelease(s, id, 'stuck', this.now))
      case 'crash':
        return void this.crashed.add(n % COUNT)
      case 'vanish':
        return void this.vanished.add(n % COUNT)
      case 'mend':
        this.crashed.delete(n % COUNT)
        return void this.vanished.delete(n % COUNT)
      case 'lock':
        return void (this.locked = flag)
      case 'deploy':
        return void (this.deploying = flag)
      case 'policy':
        return void (this.policy = policy)
      case 'time':
        return void (this.now += 1_000 * (n + 1))
    }
  }

  ask(n: number, ready: boolean): void {
    const id = `ask-${n}`
    const createIndex = this.queue.get(id)?.createIndex ?? 1_000 + (this.#ids.next += 1)
    const deadline = n === 4 ? this.now : null
    this.queue.set(id, {
      id,
      unit: `alloc-${n}`,
      place: placeName(n),
      priority: n === 5 ? 1 : 0,
      deadline,
      createIndex,
      ready,
      watched: false,
    })
  }

  get look(): Look & { readonly group: NonNullable<Look['group']> } {
    const group = groupSpec({ count: COUNT })
    const allocations = Array.from({ length: COUNT }, (_, n) => allocationOf(n, this.#seen(n)))
    return {
      locked: this.locked ? 'all is locked' : null,
      deploying: this.deploying,
      group: groupView(jobOf(), group, allocations, []),
    }
  }

  /** What is granted now is granted; then everything is counted anew. */
  plan(): void {
    const { look, policy } = this
    const before = this.state
    const ordered = inOrder([...this.queue.values()], before, look.group)
    const plan = admit(before, ordered, look, policy, this.now)
    for (const { candidate, slot, wasUp } of plan.grants) {
      const { unit, place, id: asking } = candidate
      const id = this.#newId('hold')
      const hold = newHold(0, { id, unit, place, slot, wasUp, key: `key of ${asking}`, lease: leaseOf(this.#newId('lease')) })
      this.change((s) => grant(s, hold, this.now))
      this.queue.delete(asking)
      this.granted += 1
    }
    // Everybody who asks has exactly one answer.
    expect(plan.grants.length + plan.waits.size).toBe(ordered.length)
    this.#keepsTheLimits(
      plan.grants.length,
      plan.grants.some(({ wasUp }) => wasUp),
    )
    this.#loosesNobody(before, ordered, new Set(plan.grants.map(({ candidate }) => candidate.id)), new Set(plan.next))
  }

  /** Applies a change; a second time it changes nothing. */
  change(apply: (state: State) => State): void {
    const before = this.state
    const after = apply(before)
    expect(apply(after)).toBe(after)
    this.state = after
    this.#holds(before, after)
  }

  refused(apply: (state: State) => State): void {
    expect(apply(this.state)).toBe(this.state)
  }

  /** Places that are not up, whatever the reason, as a plain set. */
  unavailable(state: State): Set<string> {
    const down = [...this.crashed, ...this.vanished].map(placeName)
    return new Set([...down, ...state.failures.map(({ place }) => place), ...state.holds.map(({ place }) => place)])
  }

  #newId(what: string): string {
    return `${what}-${(this.#ids.next += 1)}`
  }

  #seen(n: number): Partial<Allocation> {
    if (this.vanished.has(n)) return { desired: 'stop', client: 'lost' }
    return this.crashed.has(n) ? { tasks: { app: taskOf({ state: 'dead' }) } } : {}
  }

  /** True of every state and every change. */
  #holds(before: State, after: State): void {
    expect(after.grants).toBeGreaterThanOrEqual(before.grants)
    expect(new Set(after.holds.map(({ slot }) => slot)).size).toBe(after.holds.length)
    expect(new Set(after.holds.map(({ unit }) => unit)).size).toBe(after.holds.length)
    for (const { token } of after.holds.filter(({ id }) => !before.holds.some((held) => held.id === id))) {
      expect(token).toBeGreaterThan(this.tokens.at(-1) ?? 0)
      expect(token).toBe(after.grants)
      this.tokens.push(token)
    }
    // Whoever was halted is halted until somebody says otherwise, or no more failures are left than are allowed.
    if (before.halted !== null && after.halted === null) {
      const resumed = after.transitions.at(-1)?.kind === 'resumed'
      expect(resumed || after.failures.length <= this.policy.maxErrors).toBe(true)
    }
    // A change is one that every replica can derive events from, and that can be stored.
    if (after !== before) expect(after.transitions.at(-1)?.seq).toBeGreaterThan(before.transitions.at(-1)?.seq ?? 0)
    expect(decodeState(encodeState(after) ?? '')).toEqual(after)
    expect(after.scope).toEqual(SCOPE)
  }

  #keepsTheLimits(grants: number, upGranted: boolean): void {
    const { maxParallel, maxUnavailable } = this.policy
    if (grants === 0 || maxParallel === 0) return
    expect(this.state.holds.length).toBeLessThanOrEqual(maxParallel)
    if (!upGranted) return
    expect(this.unavailable(this.state).size).toBeLessThanOrEqual(maxUnavailable)
    for (const { id } of this.state.holds) expect(overBudget(this.state, id, this.look.group, this.policy)).toBeNull()
  }

  /** Nobody is left waiting although there is room, and nobody goes before somebody in front of it who could. */
  #loosesNobody(before: State, ordered: readonly Candidate[], went: ReadonlySet<string>, next: ReadonlySet<string>): void {
    const { maxParallel, maxUnavailable, stagger, waitForDeployment } = this.policy
    const units = new Set(before.holds.map(({ unit }) => unit))
    const places = this.unavailable(before)
    let slots = before.holds.length
    let last = before.lastGrantAt
    for (const { id, unit, place, ready } of ordered) {
      const failed = before.failures.some((failure) => failure.place === place)
      const isDown = failed || this.crashed.has(Number(unit.slice(6))) // a missing one does not ask
      const shut = this.locked || (before.halted !== null && !failed) || (this.deploying && waitForDeployment)
      const tooSoon = last !== null && this.now - last < stagger
      const room = maxParallel === 0 || (slots < maxParallel && (isDown || new Set(places).add(place).size <= maxUnavailable))
      const goes = !units.has(unit) && !shut && !tooSoon && room
      expect({ id, went: went.has(id), next: next.has(id) }).toEqual({ id, went: goes && ready, next: goes && !ready })
      if (!goes) continue
      slots += 1
      places.add(place)
      units.add(unit)
      last = this.now
    }
  }
}

describe('one semaphore, whatever happens to it', () => {
  it('C1.4 keeps every promise at every step', () => {
    fc.assert(
      fc.property(policies, steps, (policy, all) => {
        const run = new Run(policy)
        for (const step of all) run.step(step)
        expect(new Set(run.tokens).size).toBe(run.granted)
      }),
      { numRuns: 600 },
    )
  })

  it('C1.4 grants every request that stays in the end, once what was broken is mended and what is held is healthy', () => {
    fc.assert(
      fc.property(policies, steps, (policy, all) => {
        const run = new Run(policy)
        for (const step of all) run.step(step)
        run.locked = run.deploying = false
        run.crashed.clear()
        run.vanished.clear()
        for (const { id } of run.queue.values()) run.ask(Number(id.slice(4)), true)
        run.change((s) => resume(s, 'mended', run.now))
        const judged = (state: State) =>
          state.holds.reduce((s, { id, lease: { path } }) => {
            const released = release(s, id, path, 'done', run.policy, run.now)
            const judgement = { id, leasePath: path, verdict: 'healthy' as const, reason: 'ok', jobVersion: 0 }
            return settle(released, judgement, run.policy, run.now)
          }, state)
        for (let round = 0; round <= COUNT; round++) {
          run.state = judged(run.state)
          run.now += 5_000
          run.plan()
        }
        expect([...run.queue.keys()]).toEqual([])
      }),
      { numRuns: 200 },
    )
  })

  it('gives the same state whether changes are written one by one or together, and in between read again', () => {
    fc.assert(
      fc.property(policies, steps, (policy, all) => {
        const [one, two] = [new Run(policy), new Run(policy)]
        for (const step of all) {
          one.step(step)
          two.step(step)
          const read = decodeState(encodeState(two.state) ?? '')
          if ('unreadable' in read) throw new Error(read.unreadable)
          two.state = read
        }
        expect(two.state).toEqual(one.state)
      }),
      { numRuns: 100 },
    )
  })
})
