import { describe, expect, it } from 'vitest'
import { LAG_MS, type Allocation } from '../../src/core/cluster.ts'
import { checkOf, groupSpec, NOW, policyOf, SECOND, taskOf, taskSpec } from '../support/builders.ts'
import { clockOf, watchedOf, before, restarted, watch } from '../support/gate-watch.ts'

describe('a hold after a restart', () => {
  it('ends when the task has been healthy for min_healthy_time, not before', () => {
    const { second, kind, reason } = watch({ seen: () => ({ allocation: restarted() }), from: 1 })
    expect([second, kind, reason]).toEqual([11, 'healthy', 'healthy for 10 s'])
  })

  it('tells while it waits how long it has been healthy, and of how long', () => {
    const { reasons } = watch({ seen: () => ({ allocation: restarted() }), from: 1 })
    expect(reasons.slice(0, 2)).toEqual(['healthy for 0 of 10 s', 'healthy for 1 of 10 s'])
  })

  it('counts from the end of the look that saw it healthy first: a slow answer may be younger than its question', () => {
    const { second, kind } = watch({ seen: () => ({ allocation: restarted() }), every: 8, lasting: 7 })
    expect([second, kind]).toEqual([32, 'healthy'])
  })

  it('is over also when the unit had not started yet as it was granted', () => {
    const watched = watchedOf({ wasUp: false, baseline: {} })
    expect(watch({ seen: () => ({ allocation: restarted() }), watched, from: 1 })).toMatchObject({ second: 11, kind: 'healthy' })
    const started = () => ({ allocation: restarted(0, 0) })
    expect(watch({ seen: started, watched, from: 1, until: 200 }).kind).toBe('watch')
  })

  it('is not over while an overdue actor may still act, although a crash has moved the baseline', () => {
    const watched = watchedOf({ outcome: 'overdue' })
    expect(watch({ seen: () => ({ allocation: restarted() }), watched, from: 1 })).toMatchObject({ second: 61, kind: 'healthy' })
  })

  it('C2.1 counts only unbroken health: removed 105 s after the restart, with looks every second', () => {
    const passes = (second: number) => (second >= 60 && second < 70) || second >= 75
    const status = (second: number) => (passes(second) ? 'success' : 'failure')
    const seen = (second: number) => ({ allocation: restarted(), checks: [checkOf(clockOf(second), { status: status(second) })] })
    const policy = policyOf({ minHealthyTime: 30 * SECOND })
    const { second, kind, reasons } = watch({ seen, policy })
    expect([second, kind]).toEqual([105, 'healthy'])
    expect(reasons[59]).toBe('check up says failure')
    expect(reasons[69]).toBe('healthy for 9 of 30 s')
    expect(reasons[72]).toBe('check up says failure')
  })

  it('C2.2 neither "running" nor last week\'s health is health: while its check says failure it is watched on', () => {
    const seen = (second: number) => ({ allocation: restarted(), checks: [checkOf(clockOf(second), { status: 'failure' })] })
    expect(watch({ seen, until: 299 }).kind).toBe('watch')
    expect(watch({ seen })).toMatchObject({
      second: 300,
      kind: 'failed',
      reason: 'not healthy within 300 s: check up says failure',
    })
  })

  it('C2.2 a check that is pending, or has no result yet, is not passing', () => {
    const pending = watch({
      seen: (s) => ({ allocation: restarted(), checks: [checkOf(clockOf(s), { status: 'pending' })] }),
      until: 60,
    })
    expect(pending).toMatchObject({ kind: 'watch', reason: 'check up says pending' })
    const none = watch({ seen: () => ({ allocation: restarted(), checks: [] }), until: 60 })
    expect(none).toMatchObject({ kind: 'watch', reason: '0 of 1 checks have a result' })
  })

  it('C2.3 no answer is not health: it starts the count again, and at healthy_deadline the checks could not be read', () => {
    const silentAt5 = watch({
      seen: (s) => ({ allocation: restarted(), ...(s === 5 ? { checks: 'unknown' as const } : {}) }),
      from: 1,
    })
    expect([silentAt5.second, silentAt5.kind]).toEqual([16, 'healthy'])
    const { second, kind, reason } = watch({ seen: () => ({ allocation: restarted(), checks: 'unknown' }) })
    expect([second, kind]).toEqual([300, 'failed'])
    expect(reason).toContain('its checks could not be read')
  })

  it('C2.3 an allocation of which Nomad tells nothing starts the count again', () => {
    const { second, kind } = watch({ seen: (s) => ({ allocation: s === 5 ? 'unknown' : restarted() }), from: 1 })
    expect([second, kind]).toEqual([16, 'healthy'])
    expect(watch({ seen: () => ({ allocation: 'unknown' }) })).toMatchObject({ second: 300, kind: 'failed' })
  })

  it('C2.5 of a group with health_check task_states ends after it ran for min_healthy_time without another start', () => {
    const policy = policyOf({ healthCheck: 'task_states' })
    const failing = (second: number) => [checkOf(clockOf(second), { status: 'failure' as const })]
    const once = watch({ seen: (s) => ({ allocation: restarted(), checks: failing(s) }), policy })
    expect([once.second, once.kind]).toEqual([10, 'healthy'])
    const twice = watch({ seen: (s) => ({ allocation: s < 6 ? restarted() : restarted(6, 2), checks: failing(s) }), policy })
    expect([twice.second, twice.kind]).toEqual([16, 'healthy'])
  })

  it('of a group without checks needs none, yet the agent must have answered', () => {
    const group = groupSpec({ healthinessChecks: 0 })
    expect(watch({ seen: () => ({ allocation: restarted(), checks: [] }), group })).toMatchObject({ second: 10, kind: 'healthy' })
    const silent = watch({ seen: () => ({ allocation: restarted(), checks: 'unknown' }), group, until: 60 })
    expect(silent).toMatchObject({ kind: 'watch', reason: expect.stringContaining('does not answer') })
  })

  it('C2.7 that a new replica goes on watching ends after min_healthy_time as the new one sees it, never before', () => {
    const seen = () => ({ allocation: restarted() })
    const first = watch({ seen, until: 4 })
    expect(first.kind).toBe('watch')
    // Killed after 4 s of health; the new replica is ready at second 7 and remembers nothing.
    const { second, kind } = watch({ seen, from: 7 })
    expect([second, kind]).toEqual([17, 'healthy'])
  })

  it('C2.8 of a task that exits 4 s after every start begins the count each time, and fails at healthy_deadline', () => {
    const seen = (second: number) => {
      const nth = Math.floor(second / 5)
      const running = second % 5 < 4
      const task = taskOf({ restarts: nth + 1, startedAt: NOW + nth * 5 * SECOND, state: running ? 'running' : 'pending' })
      return { allocation: before({ tasks: { app: task } }) }
    }
    expect(watch({ seen })).toMatchObject({ second: 300, kind: 'failed' })
  })

  it('C2.8 begins the count at each start also when nobody saw the task down in between', () => {
    const seen = (second: number) => ({ allocation: restarted(Math.floor(second / 5) * 5, 1 + Math.floor(second / 5)) })
    const { second, kind, reasons } = watch({ seen })
    expect([second, kind]).toEqual([300, 'failed'])
    expect(Math.max(...reasons.map((reason) => Number(/^healthy for (\d+)/.exec(reason)?.[1] ?? 0)))).toBeLessThan(5)
  })

  it.each<[string, Partial<Allocation>, string]>([
    ['is between two starts', { tasks: { app: taskOf({ state: 'pending' }) } }, 'task app is pending'],
    ['has failed', { tasks: { app: taskOf({ restarts: 1, startedAt: NOW, failed: true }) } }, 'task app has failed'],
    ['is drained away', { migrating: true }, 'is draining'],
    ['is on a node that is away', { client: 'unknown' }, 'is unknown'],
    ['is being stopped', { desired: 'stop' }, 'Nomad is stopping the allocation'],
  ])('waits while the unit %s, and fails at healthy_deadline with that as the reason', (_what, over, why) => {
    const { second, kind, reason } = watch({ seen: () => ({ allocation: restarted(0, 1, over) }) })
    expect([second, kind]).toEqual([300, 'failed'])
    expect(reason).toContain(why)
  })

  it('waits while the group is not in the job any more', () => {
    expect(watch({ seen: () => ({ allocation: restarted() }), group: null, until: 60 }).reason).toBe(
      'its group is no longer in the job',
    )
  })

  it('that was healthy long enough when somebody looked again past the deadline is healthy', () => {
    const seen = () => ({ allocation: restarted() })
    const early = watch({ seen, until: 295, from: 286 })
    expect(early.kind).toBe('watch')
    expect(watch({ seen, from: 301, memory: early.memory })).toMatchObject({ second: 301, kind: 'healthy' })
  })

  it('has its deadline counted from the release', () => {
    const down = () => ({ allocation: restarted(0, 1, { client: 'pending' }) })
    const watched = watchedOf({ since: NOW + 100 * SECOND })
    expect(watch({ seen: down, watched, from: 100 })).toMatchObject({ second: 400, kind: 'failed' })
  })

  it('is never healthy sooner than the servers can have seen anything, whatever min_healthy_time says', () => {
    const policy = policyOf({ minHealthyTime: 0 })
    expect(watch({ seen: () => ({ allocation: restarted() }), policy, from: 1 })).toMatchObject({ second: 1 + LAG_MS / SECOND })
  })

  it('of several tasks needs all of them healthy, and a start of any of them begins the count', () => {
    const group = groupSpec({
      tasks: [taskSpec('app'), taskSpec('proxy', 'sidecar')],
    })
    const tasks = (second: number) => ({
      app: taskOf({ restarts: 1, startedAt: NOW }),
      proxy: second < 4 ? taskOf({ state: 'pending' }) : taskOf({ restarts: 1, startedAt: NOW + 4 * SECOND }),
    })
    const watched = watchedOf({ baseline: { app: { restarts: 0, startedAt: 1 }, proxy: { restarts: 0, startedAt: 1 } } })
    const { second, kind } = watch({
      seen: (s) => ({ allocation: before({ tasks: tasks(s) }), checks: [checkOf(clockOf(s))] }),
      watched,
      group,
    })
    expect([second, kind]).toEqual([15, 'healthy'])
  })
})
