import { describe, expect, it } from 'vitest'
import type { Allocation, CheckResult } from '../../src/core/cluster.ts'
import { checkOf, groupSpec, MINUTE, NOW, policyOf, SECOND, taskOf, taskSpec } from '../support/builders.ts'
import { clockOf, watchedOf, before, restarted, watch } from '../support/gate-watch.ts'

describe('evidence', () => {
  it('is newer than the act: a unit whose restart is not to be seen yet looks healthy, and is not', () => {
    const seen = (second: number) => ({ allocation: second < 20 ? before() : restarted(0) })
    const { second, kind, reasons } = watch({ seen })
    expect(reasons[19]).toBe('its restart is not to be seen yet')
    expect([second, kind]).toEqual([30, 'healthy'])
  })

  it('of a restart that never comes is never found: the hold fails at healthy_deadline and says so (C2.10)', () => {
    const { second, kind, reason } = watch({ seen: () => ({ allocation: before() }) })
    expect([second, kind]).toEqual([300, 'failed'])
    expect(reason).toContain('its restart is not to be seen yet')
  })

  it.each<[string, Partial<Allocation['tasks'][string]>]>([
    ['only the number of restarts', { restarts: 1 }],
    ['only the time of the start', { startedAt: NOW }],
  ])('of a restart is not that %s has moved', (_what, over) => {
    const seen = () => ({ allocation: before({ tasks: { app: taskOf(over) } }) })
    expect(watch({ seen, until: 100 })).toMatchObject({ kind: 'watch', reason: 'its restart is not to be seen yet' })
  })

  it('of a restart is seen also when the clock of its node was set back meanwhile', () => {
    const twoHoursBack = -120 * 60
    const seen = (second: number) => ({ allocation: restarted(twoHoursBack), checks: [checkOf(clockOf(twoHoursBack + second))] })
    expect(watch({ seen })).toMatchObject({ kind: 'healthy' })
    expect(watch({ seen, watched: watchedOf({ outcome: 'lease_lost' }) })).toMatchObject({ kind: 'healthy' })
  })

  it('of the restart of one task is not that of another', () => {
    const group = groupSpec({
      tasks: [taskSpec('app'), taskSpec('db')],
    })
    const was = { restarts: 0, startedAt: NOW - 60 * MINUTE }
    const watched = watchedOf({ tasks: ['db'], baseline: { app: was, db: was } })
    const moved = taskOf({ restarts: 1, startedAt: NOW })
    const other = () => ({ allocation: before({ tasks: { app: moved, db: taskOf() } }) })
    expect(watch({ seen: other, watched, group, until: 60 }).kind).toBe('watch')
    const own = () => ({ allocation: before({ tasks: { app: taskOf(), db: moved } }) })
    expect(watch({ seen: own, watched, group })).toMatchObject({ second: 11, kind: 'healthy' })
  })

  it('of a task that had never started is its first start', () => {
    const watched = watchedOf({ wasUp: false, baseline: { app: { restarts: 3, startedAt: null } } })
    expect(watch({ seen: () => ({ allocation: restarted(0, 4) }), watched })).toMatchObject({ second: 11, kind: 'healthy' })
  })

  it('is the answer of the agent itself: the servers show an old healthy task for as long as it is silent', () => {
    const seen = (second: number) => ({ allocation: restarted(), ...(second < 50 ? { checks: 'unknown' as const } : {}) })
    expect(watch({ seen, policy: policyOf({ healthCheck: 'task_states' }) })).toMatchObject({ second: 60, kind: 'healthy' })
  })

  it('is no check result of the old process: whole seconds, strictly later than the start', () => {
    // Started at 0.4 s; a result of the same second may be from before it.
    const started = restarted(0.4)
    const resultOf = (timestamp: number) =>
      watch({ seen: () => ({ allocation: started, checks: [checkOf(timestamp)] }), until: 60 })
    expect(resultOf(clockOf(-3))).toMatchObject({ kind: 'watch', reason: 'the result of check up is older than the act' })
    expect(resultOf(clockOf(0))).toMatchObject({ kind: 'watch', reason: 'the result of check up is older than the act' })
    expect(resultOf(clockOf(1)).kind).toBe('healthy')
  })

  it('needs a result of every healthiness check, all new; readiness checks say nothing about health', () => {
    const group = groupSpec({ healthinessChecks: 2 })
    const second = (over: Partial<CheckResult>) => checkOf(clockOf(5), { id: 'check-db', check: 'db', ...over })
    const first = checkOf(clockOf(5))
    const reasonOf = (...checks: CheckResult[]) =>
      watch({ seen: () => ({ allocation: restarted(), checks }), group, until: 8 }).reason
    expect(reasonOf(first)).toBe('1 of 2 checks have a result')
    expect(reasonOf(first, second({ status: 'failure' }))).toBe('check db says failure')
    expect(reasonOf(first, second({ timestamp: clockOf(-1) }))).toBe('the result of check db is older than the act')
    expect(reasonOf(first, second({ mode: 'readiness' }))).toBe('1 of 2 checks have a result')
    expect(reasonOf(first, second({}), second({ mode: 'readiness', status: 'failure', check: 'ready' }))).toBe(
      'healthy for 8 of 10 s',
    )
  })

  it('is the time of a one-shot task neither: it starts when it likes', () => {
    const group = groupSpec({
      tasks: [taskSpec('app'), taskSpec('report', 'once')],
    })
    const tasks = {
      app: taskOf({ restarts: 1, startedAt: NOW }),
      report: taskOf({ state: 'dead', startedAt: NOW + 500 * SECOND }),
    }
    expect(watch({ seen: () => ({ allocation: before({ tasks }), checks: [checkOf(clockOf(2))] }), group })).toMatchObject({
      second: 10,
      kind: 'healthy',
    })
  })
})

describe.each(['signal', 'reload'] as const)('a hold after a %s', (action) => {
  const watched = watchedOf({ action, tasks: ['app'] })

  it('C1.3 does not wait for a new start, but for check results newer than those of the first look after it', () => {
    // The check runs every 30 s: the newest result at the release is 12 s old.
    const seen = (second: number) => ({
      allocation: before(),
      checks: [checkOf(clockOf(-12 + 30 * Math.floor((second + 12) / 30)))],
    })
    const { second, kind, reasons } = watch({ seen, watched })
    expect(reasons[17]).toBe('the result of check up is older than the act')
    expect([second, kind]).toEqual([28, 'healthy'])
  })

  it('C1.3 counts from a new result, although the first look had no answer from the agent', () => {
    const seen = (second: number) => ({
      allocation: before(),
      checks: second < 3 ? ('unknown' as const) : [checkOf(clockOf(second < 20 ? -5 : second))],
    })
    const { second, kind, reasons } = watch({ seen, watched })
    expect(reasons[3]).toBe('the result of check up is older than the act')
    expect([second, kind]).toEqual([30, 'healthy'])
  })

  it('begins the count again when the task restarts all the same', () => {
    const seen = (second: number) => ({ allocation: second < 6 ? before() : restarted(6), checks: [checkOf(clockOf(second))] })
    expect(watch({ seen, watched })).toMatchObject({ second: 17, kind: 'healthy' })
  })

  it('fails at healthy_deadline when the signal killed it', () => {
    const seen = () => ({ allocation: before({ tasks: { app: taskOf({ state: 'dead' }) } }) })
    expect(watch({ seen, watched })).toMatchObject({ second: 300, kind: 'failed' })
  })
})
