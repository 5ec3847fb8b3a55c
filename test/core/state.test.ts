import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { adopt, forceRelease, grant, recover, release, resume, settle, takeBack } from '../../src/core/semaphore.ts'
import {
  cut,
  decodeState,
  emptyState,
  encodeState,
  MAX_FAILURES,
  MAX_HOLDS,
  MAX_STATE_BYTES,
  type State,
} from '../../src/core/state.ts'
import { failureOf, heldBy, leaseOf, newHold, NOW, policyOf, SCOPE, stateOf, unitId } from '../support/builders.ts'

const bytes = (text: string) => new TextEncoder().encode(text).length

function encoded(state: State): string {
  const text = encodeState(state)
  if (text === null) throw new Error('it is too large to store')
  return text
}

function decoded(text: string): State {
  const state = decodeState(text)
  if ('unreadable' in state) throw new Error(state.unreadable)
  return state
}

/** A state in which everything is there at least once. */
function rich(): State {
  const policy = policyOf({ maxErrors: 0 })
  let state = heldBy(0, 1, 2)
  state = release(state, 'hold-0', leaseOf('lease-0').path, 'done', policy, NOW)
  const judgement = { id: 'hold-0', leasePath: leaseOf('lease-0').path, verdict: 'failed', reason: 'no', jobVersion: 3 } as const
  state = settle(state, judgement, policy, NOW)
  return release(state, 'hold-1', leaseOf('lease-1').path, 'lease_lost', policy, NOW)
}

describe('a stored state', () => {
  it('is read as it was written', () => {
    for (const state of [emptyState(SCOPE), emptyState({ shared: 'docker' }, 77), heldBy(0), rich()]) {
      expect(decoded(encoded(state))).toEqual(state)
    }
  })

  it('that is new starts with the tokens above what it is given', () => {
    expect(grant(emptyState(SCOPE, 900), newHold(0), NOW).holds[0]?.token).toBe(901)
  })

  it.each<[string, string, string]>([
    ['nothing', '', 'it is not JSON'],
    ['a text', 'locked by bob', 'it is not JSON'],
    ['half of a state', encodeState(rich())?.slice(0, 100) ?? '', 'it is not JSON'],
    ['null', 'null', 'it is not an object'],
    ['a list', '[]', 'it is not an object'],
    ['a number', '1', 'it is not an object'],
    ['no version', '{}', 'its version is null, this replica reads 1'],
    ['a newer version', JSON.stringify({ ...rich(), version: 2 }), 'its version is 2, this replica reads 1'],
    ['the version as a text', JSON.stringify({ ...rich(), version: '1' }), 'its version is "1", this replica reads 1'],
  ])('that is %s is unreadable', (_what, text, why) => {
    expect(decodeState(text)).toEqual({ unreadable: why })
  })

  it.each(['scope', 'grants', 'holds', 'failures', 'halted', 'lastGrantAt', 'transitions'])(
    'without a field, or with another sort of it, is unreadable, and the field is named: %s',
    (field) => {
      const { [field]: _, ...without } = rich() as unknown as Record<string, unknown>
      expect(decodeState(JSON.stringify(without))).toEqual({ unreadable: `its field ${field} is wrong` })
      expect(decodeState(JSON.stringify({ ...rich(), [field]: 'x' }))).toEqual({ unreadable: `its field ${field} is wrong` })
    },
  )

  it.each<[string, unknown]>([
    ['id', 7],
    ['key', null],
    ['token', '7'],
    ['slot', null],
    ['unit', undefined],
    ['place', 1],
    ['tasks', 1],
    ['managed', null],
    ['action', null],
    ['reason', null],
    ['actor', {}],
    ['lease', 'lockkeeper/leases/x'],
    ['lease', { path: 'lockkeeper/leases/x', index: 5 }],
    ['request', 'x'],
    ['adopted', undefined],
    ['phase', 'done'],
    ['outcome', 5],
    ['grantedAt', '2026-01-01T00:00:00Z'],
    ['phaseSince', null],
    ['wasUp', 'yes'],
    ['baseline', null],
    ['baseline', []],
    ['baseline', { app: null }],
    ['baseline', { app: { restarts: 0 } }],
    ['baseline', { app: { restarts: '0', startedAt: null } }],
  ])('with a hold whose %s is %j is unreadable', (field, value) => {
    const state = rich()
    const holds = state.holds.map((hold, i) => (i === 1 ? { ...hold, [field]: value } : hold))
    expect(decodeState(JSON.stringify({ ...state, holds }))).toEqual({ unreadable: 'its field holds is wrong' })
  })

  it('with a failure, a halt or a transition that is wrong is unreadable', () => {
    const state = rich()
    const wrong = { failures: [{ ...failureOf(0), slot: null }], halted: { since: NOW }, transitions: [{ seq: 'x' }] }
    for (const [field, value] of Object.entries(wrong)) {
      expect(decodeState(JSON.stringify({ ...state, [field]: value }))).toEqual({ unreadable: `its field ${field} is wrong` })
    }
  })

  it('never makes the reader fail, whatever somebody put there', () => {
    const rubbish = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.json(),
      fc.json().map((text) => `{"version":1,"scope":${text}}`),
    )
    fc.assert(fc.property(rubbish, (text) => 'unreadable' in decodeState(text)))
  })

  it('keeps what a newer replica wrote into it through every change', () => {
    const marked = (value: unknown): unknown =>
      Array.isArray(value) ? value.map(marked) : typeof value === 'object' && value !== null ? { ...value, x_new: 'kept' } : value
    const state = rich()
    const newer = decoded(
      JSON.stringify({
        ...state,
        holds: marked(state.holds),
        failures: marked(state.failures),
        halted: marked(state.halted),
        transitions: marked(state.transitions),
        x_new: 'kept',
      }),
    )
    const policy = policyOf({ maxErrors: 5 })
    const judgement = {
      id: 'hold-1',
      leasePath: leaseOf('lease-1').path,
      verdict: 'healthy',
      reason: 'ok',
      jobVersion: 3,
    } as const
    const changes: [string, (s: State) => State][] = [
      ['grant', (s) => grant(s, newHold(7), NOW)],
      ['adopt', (s) => adopt(s, 'hold-2', 'key-2', leaseOf('again'), NOW)],
      ['release', (s) => release(s, 'hold-2', leaseOf('again').path, 'done', policy, NOW)],
      ['settle', (s) => settle(s, judgement, policyOf(), NOW)],
      ['take back', (s) => takeBack(s, 'hold-7', leaseOf('lease-7').path, 'locked', NOW)],
    ]
    let now = newer
    for (const [what, change] of changes) {
      const next = decoded(encoded(change(now)))
      expect(next, what).not.toEqual(now)
      expect(next, what).toMatchObject({ x_new: 'kept', failures: [{ x_new: 'kept' }], halted: { x_new: 'kept' } })
      expect(
        next.holds.find(({ id }) => id === 'hold-2'),
        what,
      ).toMatchObject({ x_new: 'kept' })
      expect(next.transitions[0], what).toMatchObject({ x_new: 'kept' })
      now = next
    }
    expect(recover(now, unitId(0), 1, 'well', policy, NOW)).toMatchObject({ x_new: 'kept', failures: [], halted: null })
    expect(resume(now, 'go', NOW)).toMatchObject({ x_new: 'kept' })
    expect(forceRelease(now, 'hold-2', 'stuck', NOW)).toMatchObject({ x_new: 'kept', holds: [] })
  })
})

describe('the size of a state', () => {
  /** Everything as long as it can be: names of 200 characters, texts that were cut, two tasks. */
  function full(holds: number, failures: number, letter: string): State {
    const name = (n: number) => `${n}`.padStart(200, letter)
    let state = stateOf({
      failures: Array.from({ length: failures }, (_, n) =>
        failureOf(n, { unit: name(n), place: name(n), reason: cut(name(n).repeat(3)) }),
      ),
    })
    for (let n = 0; n < holds; n++) {
      state = grant(state, newHold(n, { unit: name(n), place: name(n), reason: name(n).repeat(3), actor: name(n) }), NOW)
    }
    return state
  }

  it.each(['x', 'ä', '€', '🔥', '"', '\n', '\u0001', '\ud800'])(
    'C6.2 is below what Nomad takes, or it is not stored at all: names of 200 times %j',
    (letter) => {
      for (const holds of [1, 10, 20, 30, 40, 50, MAX_HOLDS]) {
        const text = encodeState(full(holds, holds, letter))
        if (text !== null) expect(bytes(text)).toBeLessThanOrEqual(MAX_STATE_BYTES)
      }
      expect(bytes(encoded(full(5, 5, letter)))).toBeLessThan(65_536)
    },
  )

  it('C6.2 of 64 holds and 64 failures with ordinary names fits', () => {
    let state = stateOf({ failures: Array.from({ length: MAX_FAILURES }, (_, n) => failureOf(n)) })
    for (let n = 0; n < MAX_HOLDS; n++) state = grant(state, newHold(n), NOW)
    expect(bytes(encoded(state))).toBeLessThanOrEqual(MAX_STATE_BYTES)
  })

  it('C6.2 of 64 holds and 64 failures with 200-character names is too large, and says so instead of being written', () => {
    expect(encodeState(full(MAX_HOLDS, MAX_FAILURES, 'x'))).toBeNull()
  })

  it('is paid for by the oldest transitions first; the newest stays, and the numbers count on', () => {
    let state = stateOf()
    while (state.holds.length < MAX_HOLDS) {
      const n = state.holds.length
      const next = grant(state, newHold(n, { unit: `${n}`.padStart(200, 'x'), reason: 'r'.repeat(200) }), NOW)
      if (encodeState(next) === null) break
      state = next
    }
    const stored = decoded(encoded(state))
    expect(stored.transitions.length).toBeLessThan(20)
    expect(stored.transitions.at(-1)).toEqual(state.transitions.at(-1))
    expect(stored.holds).toEqual(state.holds)
    const freed = forceRelease(stored, 'hold-0', 'enough', NOW)
    expect(freed.transitions.at(-1)?.seq).toBe((state.transitions.at(-1)?.seq ?? 0) + 1)
  })

  it('is counted in bytes exactly as Nomad counts them', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), fc.integer({ min: 0, max: 300 }), (text, more) => {
        // Two states that differ by `more` letters in an unknown field: where the limit lies must not depend on the letters.
        const state = { ...stateOf(), x_note: text } as State
        const room = MAX_STATE_BYTES - bytes(JSON.stringify({ ...state, x_fill: '' }))
        const fill = (length: number) => encodeState({ ...state, x_fill: 'f'.repeat(length) } as State)
        expect(fill(room)).not.toBeNull()
        expect(fill(room + 1 + more)).toBeNull()
      }),
      { numRuns: 50 },
    )
  })
})

describe('a text from outside', () => {
  it.each([
    ['short', 10, 'short'],
    ['exactly ten', 11, 'exactly ten'],
    ['one too long', 11, 'one too lo…'],
    ['🔥🔥🔥🔥', 4, '🔥🔥🔥🔥'],
    ['🔥🔥🔥🔥', 3, '🔥🔥…'],
    ['', 5, ''],
  ])('"%s" cut at %d characters is "%s"', (text, length, expected) => {
    expect(cut(text, length)).toBe(expected)
  })
})
