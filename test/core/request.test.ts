import { describe, expect, it } from 'vitest'
import { hasStartedSince, isSatisfied, merge, type Wanted } from '../../src/core/request.ts'
import { allocationOf, groupSpec, NOW, taskOf } from '../support/builders.ts'

const wanted = (baseline: Wanted['baseline'], over: Partial<Wanted> = {}): Wanted => ({
  action: 'restart',
  tasks: [],
  signal: null,
  since: null,
  baseline,
  reason: 'new certificate',
  priority: 0,
  deadline: null,
  wave: null,
  watched: false,
  ...over,
})
const running = (restarts: number, startedAt: number) => allocationOf(0, { tasks: { app: taskOf({ restarts, startedAt }) } })

describe('a baseline', () => {
  it('has moved with another start, also an earlier one where the clock was set back, and not with half of it', () => {
    const before = { restarts: 1, startedAt: NOW }
    expect(hasStartedSince(before, taskOf({ restarts: 2, startedAt: NOW + 1 }))).toBe(true)
    expect(hasStartedSince(before, taskOf({ restarts: 2, startedAt: NOW - 60_000 }))).toBe(true)
    expect(hasStartedSince(before, taskOf({ restarts: 2, startedAt: NOW }))).toBe(false)
    expect(hasStartedSince(before, taskOf({ restarts: 2, startedAt: null }))).toBe(false)
    expect(hasStartedSince(before, taskOf({ restarts: 1, startedAt: NOW + 1 }))).toBe(false)
    expect(hasStartedSince(before, undefined)).toBe(false)
  })

  it('of who asks again counts from the start that is known by then: the one before it is not what is asked for', () => {
    const open = wanted({ app: { restarts: 0, startedAt: null } })
    const again = wanted({ app: { restarts: 0, startedAt: NOW } })
    expect(isSatisfied(open, running(0, NOW), groupSpec())).toBe(true)
    const merged = merge(open, again)
    expect(merged.baseline).toEqual(again.baseline)
    expect(isSatisfied(merged, running(0, NOW), groupSpec())).toBe(false)
    expect(isSatisfied(merged, running(1, NOW + 1), groupSpec())).toBe(true)
    expect(merge(merged, again)).toBe(merged)
  })
})
