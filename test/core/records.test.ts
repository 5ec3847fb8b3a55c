import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { Scope } from '../../src/core/scope.ts'
import { grant } from '../../src/core/semaphore.ts'
import { emptyState, MAX_HOLDS } from '../../src/core/state.ts'
import {
  levelOf,
  lockItems,
  proofOf,
  readLock,
  readRequest,
  readSemaphore,
  requestItems,
  scopeOf,
  semaphoreItems,
  type Items,
  type OperatorLock,
  type RequestRecord,
} from '../../src/keeper/records.ts'
import { heldBy, MINUTE, newHold, NOW, SCOPE, stateOf, unitId } from '../support/builders.ts'

/** Through Nomad and back: items are texts, nothing else. */
function throughNomad(items: Items | null): Items {
  if (items === null) throw new Error('it is too large to store')
  for (const value of Object.values(items)) expect(typeof value).toBe('string')
  return JSON.parse(JSON.stringify(items)) as Items
}

describe('the items of a semaphore', () => {
  it('give back the state that was written', () => {
    for (const state of [emptyState(SCOPE, 9), heldBy(0, 1), emptyState({ shared: 'docker' })]) {
      expect(readSemaphore(throughNomad(semaphoreItems(state)))).toEqual(state)
    }
  })

  it('C6.1 carry the full scope, however its path looks', () => {
    const scopes: Scope[] = [
      SCOPE,
      { ...SCOPE, job: 'app/dispatch-1699-ab', component: '日本語' },
      { shared: 'x'.repeat(200) },
      { nodes: 'rack 1' },
    ]
    for (const scope of scopes) {
      const items = throughNomad(semaphoreItems(emptyState(scope)))
      expect(scopeOf(items, () => true)).toEqual(scope)
      expect(scopeOf(items, () => false)).toBeNull()
    }
  })

  it('have a sentence for people', () => {
    expect(semaphoreItems(emptyState(SCOPE))?.['summary']).toBe('default/web/api: nothing is held, newest token 0')
    const halted = { ...heldBy(0, 1), halted: { since: NOW, reason: '1 failed, and max_errors is 0' } }
    expect(semaphoreItems(halted)?.['summary']).toBe(
      `default/web/api: ${unitId(0)} (acting), ${unitId(1)} (acting), newest token 2, halted: 1 failed, and max_errors is 0`,
    )
  })

  it('C6.2 are all together below what Nomad takes, or there are none', () => {
    for (const letter of ['x', '日', '🔥', '\u0001']) {
      let state = emptyState({
        namespace: 'n'.repeat(128),
        job: letter.repeat(200),
        group: letter.repeat(200),
        component: letter.repeat(200),
      })
      let held = 0
      for (; held < MAX_HOLDS; held++) {
        const next = grant(state, newHold(held, { unit: `${held}${letter.repeat(190)}`, reason: letter.repeat(500) }), NOW)
        const items = semaphoreItems(next)
        if (items === null) break
        const size = Object.entries(items).reduce(
          (sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value),
          0,
        )
        expect(size).toBeLessThanOrEqual(65_536)
        state = next
      }
      expect(held).toBeGreaterThan(10)
    }
  })

  it('that are not there, or are rubbish, are unreadable and never an empty state', () => {
    expect(readSemaphore({})).toEqual({ unreadable: 'it has no item called state' })
    expect(readSemaphore({ note: 'x' })).toHaveProperty('unreadable')
    expect(readSemaphore({ state: '' })).toHaveProperty('unreadable')
    expect(readSemaphore({ state: '{"version":2}' })).toHaveProperty('unreadable')
  })
})

describe('the scope in the items', () => {
  it.each<Items>([{}, { scope: '' }, { scope: 'default/web' }, { scope: 'null' }, { scope: '7' }, { scope: '"x"' }])(
    'is none when they tell none: %j',
    (items) => {
      expect(scopeOf(items, () => true)).toBeNull()
    },
  )

  it('is none when what they tell is no scope at all', () => {
    const belongs = (scope: Scope) => (scope as { namespace: { length: number } }).namespace.length > 0
    expect(scopeOf({ scope: '{"x":1}' }, belongs)).toBeNull()
  })
})

describe('the items of a request', () => {
  const record: RequestRecord = {
    scope: { ...SCOPE, component: 'a/b' },
    unit: unitId(3),
    place: 'web.api[3]',
    key: 'key-3',
    via: 'replica-1',
    tasks: ['app'],
    action: 'restart',
    reason: 'the certificate was renewed',
    priority: 7,
    deadline: NOW + 5 * MINUTE,
    at: NOW,
  }

  it('give back the request that was written, and the scope', () => {
    for (const one of [record, { ...record, tasks: [], deadline: null, priority: 0, unit: '日本/語' }]) {
      const items = throughNomad(requestItems(one))
      expect(readRequest(items)).toEqual(one)
      expect(items['unit']).toBe(one.unit)
      expect(scopeOf(items, () => true)).toEqual(one.scope)
    }
  })

  it.each<[string, Items]>([
    ['nothing', {}],
    ['a text', { request: 'please restart' }],
    ['null', { request: 'null' }],
    ['a list', { request: '[]' }],
    ['a number', { request: '5' }],
    ['an object of somebody else', { request: '{"unit":"x"}' }],
    ['one without priority', { request: JSON.stringify({ ...record, priority: undefined }) }],
    ['one without its asker', { request: JSON.stringify({ ...record, key: 5 }) }],
  ])('that hold %s are no request and order nobody', (_what, items) => {
    expect(readRequest(items)).toBeNull()
  })
})

describe('the items of an operator lock', () => {
  const lock: OperatorLock = { level: { namespace: 'default', job: 'web' }, reason: 'freeze', by: 'alice', until: NOW + MINUTE }

  it('give back the lock that was put', () => {
    for (const one of [lock, { ...lock, until: null }, { ...lock, level: {} }]) {
      const items = throughNomad(lockItems(one))
      const level = levelOf(items)
      expect(level).toEqual(one.level)
      expect(readLock(level ?? {}, items)).toEqual(one)
    }
  })

  it.each<[string, Items, Partial<OperatorLock>]>([
    ['a word of their own', { why: 'fire' }, { reason: 'why=fire', by: 'unknown', until: null }],
    ['two words', { a: '1', b: '2' }, { reason: 'a=1 b=2' }],
    ['a reason and no more', { reason: 'fire' }, { reason: 'fire', by: 'unknown', until: null }],
    ['an end', { reason: 'fire', until: '2026-01-01T00:01:00Z' }, { until: NOW + MINUTE }],
    ['an end that cannot be read', { reason: 'fire', until: 'tomorrow' }, { until: null }],
    ['an end that is only a number', { reason: 'fire', until: '5' }, { until: null }],
  ])('may be written by hand with %s: it locks all the same', (_what, items, expected) => {
    expect(levelOf(items)).toBeNull()
    expect(readLock({ namespace: 'default' }, items)).toMatchObject({ level: { namespace: 'default' }, ...expected })
  })

  it('keep long texts short', () => {
    const items = lockItems({ ...lock, reason: 'x'.repeat(5_000), by: 'y'.repeat(5_000) })
    expect([items['reason']?.length, items['by']?.length]).toEqual([200, 200])
    expect(readLock({}, { note: 'z'.repeat(5_000) }).reason).toHaveLength(200)
  })
})

describe('the proof of a lock ID', () => {
  it('is its SHA-256 and does not tell it', () => {
    const id = '0b7c1f6e-7d39-4a53-9a3c-1f0f6f0b7c1f'
    expect(proofOf(id)).toBe(createHash('sha256').update(id).digest('base64url'))
    expect(JSON.stringify(semaphoreItems(grant(stateOf(), newHold(0), NOW)))).not.toContain(id)
    expect(proofOf(id)).not.toBe(proofOf(`${id} `))
  })
})
