import { describe, expect, it } from 'vitest'
import type { Allocation } from '../../src/core/cluster.ts'
import { REPLACEMENT_MS } from '../../src/core/gate.ts'
import type { Outcome } from '../../src/core/state.ts'
import { allocationOf, checkOf, NOW, SECOND, taskOf } from '../support/builders.ts'
import { clockOf, watchedOf, before, restarted, watch, type Watch } from '../support/gate-watch.ts'

describe('a unit that is replaced', () => {
  const replacement = (over: Partial<Allocation> = {}) =>
    allocationOf(0, { id: 'alloc-9', tasks: { app: taskOf({ startedAt: NOW + 30 * SECOND }) }, ...over })
  const stopped = before({ desired: 'stop', client: 'complete' })

  it.each(['restart', 'replace', 'signal'] as const)(
    'is followed to its replacement, which needs a health of its own: %s',
    (action) => {
      const seen = (second: number) => {
        if (second < 5) return { allocation: stopped }
        return { allocation: second < 30 ? replacement({ client: 'pending' }) : replacement() }
      }
      const { second, kind } = watch({ seen, watched: watchedOf({ action }) })
      expect([second, kind]).toEqual([41, 'healthy'])
    },
  )

  it('C2.6 and cannot be placed is owed its replacement: the hold stays, and fails at healthy_deadline', () => {
    const watched = watchedOf({ action: 'replace' })
    expect(watch({ seen: () => ({ allocation: stopped }), watched, until: 299 }).kind).toBe('watch')
    const owed = 'Nomad cannot place a replacement: dimension "memory" exhausted on 3 nodes'
    const { second, kind, reason } = watch({ seen: () => ({ allocation: stopped }), watched, owed })
    expect([second, kind]).toEqual([300, 'failed'])
    expect(reason).toContain(owed)
  })

  it('C2.6 and waits for its volume keeps the hold until healthy_deadline, and the reason names what is pending', () => {
    const pending = replacement({ client: 'pending', tasks: {} })
    const { second, kind, reason } = watch({ seen: () => ({ allocation: pending }), watched: watchedOf({ action: 'replace' }) })
    expect([second, kind]).toEqual([300, 'failed'])
    expect(reason).toContain('web.api[0] (alloc-9) is pending')
  })
})

describe('a unit that is gone', () => {
  it.each<[string, Allocation | null]>([
    ['Nomad does not know any more', null],
    ['was stopped', before({ desired: 'stop', client: 'complete' })],
    ['was stopped and failed at it', before({ desired: 'stop', client: 'failed' })],
    ['was stopped before it started', before({ desired: 'stop', client: 'pending' })],
    ['was lost with its node', before({ desired: 'stop', client: 'lost' })],
    ['has finished', before({ client: 'complete' })],
  ])('because it %s ends its hold, after the time in which Nomad names a replacement', (_what, allocation) => {
    const { second, kind, reasons } = watch({ seen: () => ({ allocation, checks: [] }) })
    expect([second, kind]).toEqual([REPLACEMENT_MS / SECOND, 'gone'])
    expect(reasons[0]).toBe('the allocation has ended; Nomad may name a replacement')
  })

  it('needs a second look: one alone says nothing, however late it is', () => {
    const late = watch({ seen: () => ({ allocation: null, checks: [] }), from: 200, until: 200 })
    expect(late.kind).toBe('watch')
    expect(watch({ seen: () => ({ allocation: null, checks: [] }), from: 211, memory: late.memory })).toMatchObject({
      kind: 'gone',
    })
  })

  it('is not gone when Nomad names the replacement in time, and is not counted from a look before that', () => {
    const replacement = allocationOf(0, { id: 'alloc-9', tasks: { app: taskOf({ startedAt: NOW }) } })
    const seen = (second: number) => ({ allocation: second < 8 || second === 12 ? before({ client: 'lost' }) : replacement })
    const { second, kind } = watch({ seen, from: 1 })
    expect([second, kind]).toEqual([23, 'healthy'])
  })

  it('and of which Nomad tells nothing meanwhile, is looked for anew', () => {
    const seen = (second: number) => ({ allocation: second === 9 ? ('unknown' as const) : null, checks: [] })
    expect(watch({ seen })).toMatchObject({ second: 20, kind: 'gone' })
  })

  it('because it failed for good and is not replaced has failed', () => {
    const { second, kind, reason } = watch({ seen: () => ({ allocation: restarted(0, 1, { client: 'failed' }) }) })
    expect([second, kind]).toEqual([10, 'failed'])
    expect(reason).toBe('the allocation failed for good and has no replacement')
  })
})

describe('an actor that did not act', () => {
  const SOON = { every: 0.35 }
  const unchangedAt = (outcome: Outcome, more: Partial<Watch> = {}) =>
    watch({ seen: () => ({ allocation: before() }), watched: watchedOf({ outcome }), ...more })

  it('C3.5 and says so (abandoned) frees its slot within a second when its unit is as it was', () => {
    const { second, kind, reason } = unchangedAt('abandoned', SOON)
    expect(kind).toBe('unchanged')
    expect(second).toBeLessThan(1)
    expect(reason).toBe('its actor did not act, the unit is as it was')
  })

  it('is not believed at the first look: the act that it started before it gave up may not be visible yet', () => {
    const seen = (second: number) => ({ allocation: second < 0.5 ? before() : restarted(0.3), checks: [checkOf(clockOf(0))] })
    expect(unchangedAt('abandoned', { ...SOON, seen, until: 5 }).kind).toBe('watch')
  })

  it('and whose check result is old, as it must be, is as it was', () => {
    const seen = () => ({ allocation: before(), checks: [checkOf(clockOf(-25))] })
    expect(unchangedAt('abandoned', { ...SOON, seen }).kind).toBe('unchanged')
  })

  it('because its lease is lost frees its slot after 5 s, not before', () => {
    expect(unchangedAt('lease_lost', { until: 4 }).kind).toBe('watch')
    expect(unchangedAt('lease_lost')).toMatchObject({ second: 5, kind: 'unchanged' })
    expect(unchangedAt('failed')).toMatchObject({ second: 5, kind: 'unchanged' })
  })

  it('because it is overdue may hold a valid lease yet: its slot is freed after a minute', () => {
    expect(unchangedAt('overdue', { until: 59 }).kind).toBe('watch')
    expect(unchangedAt('overdue')).toMatchObject({ second: 60, kind: 'unchanged' })
  })

  it.each<Outcome>(['abandoned', 'lease_lost', 'failed', 'overdue'])('%s: frees nothing while a task is stopping', (outcome) => {
    const stopping = (second: number) => ({ allocation: before({ tasks: { app: taskOf({ stopping: second < 100 }) } }) })
    expect(unchangedAt(outcome, { seen: stopping, until: 99 }).kind).toBe('watch')
    expect(unchangedAt(outcome, { seen: stopping }).kind).toBe('unchanged')
  })

  it.each<Outcome>(['abandoned', 'lease_lost', 'failed'])(
    '%s: has acted when the unit has restarted: then health counts',
    (outcome) => {
      const seen = (second: number) => ({ allocation: second < 3 ? before() : restarted(1) })
      const { second, kind } = unchangedAt(outcome, { seen, ...(outcome === 'abandoned' ? { from: 3 } : {}) })
      expect([second, kind]).toEqual([13, 'healthy'])
    },
  )

  it('but whose unit is down now is not as it was: it waits, and fails at healthy_deadline', () => {
    const down = () => ({ allocation: before({ tasks: { app: taskOf({ state: 'dead' }) } }) })
    expect(unchangedAt('abandoned', { seen: down })).toMatchObject({ second: 300, kind: 'failed' })
    const failing = (second: number) => ({
      allocation: before(),
      checks: [checkOf(clockOf(second), { status: 'failure' as const })],
    })
    expect(unchangedAt('lease_lost', { seen: failing })).toMatchObject({ second: 300, kind: 'failed' })
  })

  it('on a unit that was down when it was granted ends too: it is as down as it was', () => {
    const crashed = before({ tasks: { app: taskOf({ state: 'pending' }) } })
    const watched = watchedOf({ outcome: 'abandoned', wasUp: false })
    expect(watch({ seen: () => ({ allocation: crashed, checks: [] }), watched, ...SOON }).kind).toBe('unchanged')
  })

  it('after a lost lease is judged by a check result newer than the first look', () => {
    const seen = (second: number) => ({ allocation: before(), checks: [checkOf(clockOf(second < 20 ? -4 : 20))] })
    expect(unchangedAt('lease_lost', { seen })).toMatchObject({ second: 20, kind: 'unchanged' })
  })

  it.each<[Outcome, number]>([
    ['abandoned', 8.7],
    ['lease_lost', 13],
  ])(
    '%s: is not believed while the agent is silent, nor right when it is back: the servers see late what it did',
    (outcome, least) => {
      const seen = (second: number) => ({ allocation: before(), ...(second < 8 ? { checks: 'unknown' as const } : {}) })
      const { second, kind } = unchangedAt(outcome, { seen, every: 0.1 })
      expect(kind).toBe('unchanged')
      expect(second).toBeGreaterThanOrEqual(least)
      expect(second).toBeLessThan(least + 1)
    },
  )

  it('is not taken for quiet when the agent was away for the restart and its view arrives a second after its answers', () => {
    // The act at second 1; the agent answers again from second 20, its checks are those of the old process, the servers follow at 21.
    const seen = (second: number) => ({
      allocation: second < 21 ? before() : restarted(1),
      checks: second < 20 ? ('unknown' as const) : [checkOf(clockOf(second < 25 ? 0 : second))],
    })
    const { second, kind } = unchangedAt('lease_lost', { seen })
    expect([second, kind]).toEqual([35, 'healthy'])
  })

  it('is not taken for quiet while Nomad tells nothing', () => {
    const seen = (second: number) => ({ allocation: second < 8 ? ('unknown' as const) : before() })
    expect(unchangedAt('lease_lost', { seen })).toMatchObject({ second: 13, kind: 'unchanged' })
  })

  it.each(['signal', 'reload'] as const)(
    'leaves no trace with a %s: after a lost lease the unit must prove its health',
    (action) => {
      const watched = watchedOf({ action, outcome: 'lease_lost' })
      expect(watch({ seen: () => ({ allocation: before() }), watched })).toMatchObject({ second: 11, kind: 'healthy' })
    },
  )

  it('is not unchanged when it said that it did act', () => {
    expect(unchangedAt('done', { until: 200 }).kind).toBe('watch')
  })
})

describe('an open failure', () => {
  const watched = watchedOf({ outcome: null, wasUp: false, baseline: {}, since: null, failedVersion: 3 })
  const failing = (second: number) => [checkOf(clockOf(second), { status: 'failure' as const })]
  const sick = before({ jobVersion: 3 })

  it('is over when its unit has been healthy for min_healthy_time, whoever mended it', () => {
    const seen = (second: number) => ({ allocation: sick, checks: second < 900 ? failing(second) : [checkOf(clockOf(second))] })
    expect(watch({ seen, watched })).toMatchObject({ second: 910, kind: 'healthy' })
  })

  it('has no deadline: it stays for as long as its unit is not healthy', () => {
    expect(watch({ seen: (s) => ({ allocation: sick, checks: failing(s) }), watched, until: 5_000 }).kind).toBe('watch')
  })

  it('is over at once when its unit was replaced by a newer version of the job', () => {
    const newer = allocationOf(0, { id: 'alloc-9', jobVersion: 4, client: 'pending' })
    expect(watch({ seen: () => ({ allocation: newer }), watched })).toMatchObject({ second: 0, kind: 'gone' })
    const same = allocationOf(0, { id: 'alloc-9', jobVersion: 3, client: 'pending' })
    expect(watch({ seen: () => ({ allocation: same }), watched, until: 60 }).kind).toBe('watch')
  })

  it('is over when its unit is gone for good', () => {
    expect(watch({ seen: () => ({ allocation: null, checks: [] }), watched })).toMatchObject({ second: 10, kind: 'gone' })
  })

  it('is not gone as long as Nomad owes a replacement, and has its time again after that', () => {
    const seen = () => ({ allocation: null, checks: [] })
    const { kind, memory } = watch({ seen, watched, owed: 'Nomad may name a replacement', until: 600 })
    expect(kind).toBe('watch')
    expect(watch({ seen, watched, memory, from: 601 })).toMatchObject({ second: 611, kind: 'gone' })
  })

  it('is not gone before Nomad had the time to name a replacement, however slow the look was that missed it first', () => {
    const slow = { seen: () => ({ allocation: null, checks: [] }), watched, every: 8, lasting: 7 }
    expect(watch(slow)).toMatchObject({ second: 24, kind: 'gone' })
  })

  it('does not end by old check results after another start', () => {
    const seen = (second: number) => ({
      allocation: restarted(2, 5, { jobVersion: 3 }),
      checks: [checkOf(clockOf(second < 50 ? 2 : 50))],
    })
    expect(watch({ seen, watched })).toMatchObject({ second: 60, kind: 'healthy' })
  })
})
