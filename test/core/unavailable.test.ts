import { describe, expect, it } from 'vitest'
import { absenceOf, jitterMs, type UnavailablePolicy } from '../../src/core/unavailable.ts'

const MINUTE = 60_000
const policy = (more: Partial<UnavailablePolicy>) =>
  absenceOf({ onUnavailable: 'wait', waitMs: 10 * MINUTE, lastResort: 'skip', windowMs: 5 * MINUTE, index: 3, ...more })

describe('C3.3 jitter', () => {
  const moments = (indexes: number) => Array.from({ length: indexes }, (_, index) => jitterMs(index, 5 * MINUTE))

  it('is the same for the same index, and another one for each other index', () => {
    expect(moments(10)).toEqual(moments(10))
    expect(new Set(moments(1_000)).size).toBe(1_000)
  })

  it.each([2, 3, 5, 10, 100])('spreads %i allocations over the window, none near another', (indexes) => {
    const sorted = moments(indexes).toSorted((a, b) => a - b)
    const gaps = [...sorted.slice(1), 5 * MINUTE].map((at, i) => at - (sorted[i] as number))
    expect(Math.min(...gaps)).toBeGreaterThan((5 * MINUTE) / indexes / 3)
    expect(Math.max(...gaps)).toBeLessThan(((5 * MINUTE) / indexes) * 2)
  })
})

it.each([
  ['wait', {}, { waitMs: 10 * MINUTE, jitterMs: 0, lastResort: 'skip' }],
  ['wait, then proceed', { lastResort: 'proceed' }, { waitMs: 10 * MINUTE, jitterMs: 0, lastResort: 'proceed' }],
  [
    'wait, then jitter',
    { lastResort: 'jitter' },
    { waitMs: 10 * MINUTE, jitterMs: jitterMs(3, 5 * MINUTE), lastResort: 'jitter' },
  ],
  ['jitter', { onUnavailable: 'jitter' }, { waitMs: 0, jitterMs: jitterMs(3, 5 * MINUTE), lastResort: 'jitter' }],
  ['proceed', { onUnavailable: 'proceed' }, { waitMs: 0, jitterMs: 0, lastResort: 'proceed' }],
  ['skip', { onUnavailable: 'skip', lastResort: 'proceed' }, { waitMs: 0, jitterMs: 0, lastResort: 'skip' }],
] satisfies [string, Partial<UnavailablePolicy>, object][])('%s', (_, more, absence) => {
  expect(policy(more)).toEqual(absence)
})
