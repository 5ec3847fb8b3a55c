import { describe, expect, it } from 'vitest'
import { LAG_MS, type Allocation, type CheckResult, type GroupSpec } from '../../src/core/cluster.ts'
import { look, REPLACEMENT_MS, type GateMemory, type Sight, type Verdict, type Watched } from '../../src/core/gate.ts'
import type { Policy } from '../../src/core/policy.ts'
import type { Outcome } from '../../src/core/state.ts'
import { allocationOf, checkOf, groupSpec, MINUTE, NOW, policyOf, SECOND, taskOf, taskSpec, unitId } from '../support/builders.ts'

/** Second 0 of every story here is the release. */
const clockOf = (second: number) => NOW / SECOND + second

/** A hold that was released, all well, at second 0. */
function watchedOf(over: Partial<Watched> = {}): Watched {
  return {
    unit: unitId(0),
    tasks: [],
    action: 'restart',
    outcome: 'done',
    wasUp: true,
    baseline: { app: { restarts: 0, startedAt: NOW - 60 * MINUTE } },
    since: NOW,
    failedVersion: null,
    ...over,
  }
}

/** The unit as it was before. */
const before = (over: Partial<Allocation> = {}) => allocationOf(0, over)

/** The unit after its `nth` restart, started at `second`. */
function restarted(second = 0, nth = 1, over: Partial<Allocation> = {}): Allocation {
  return allocationOf(0, { tasks: { app: taskOf({ restarts: nth, startedAt: NOW + second * SECOND }) }, ...over })
}

interface Seen {
  readonly allocation: Sight['allocation']
  /** Default: a passing result from this very second. */
  readonly checks?: readonly CheckResult[] | 'unknown'
}

interface Watch {
  readonly seen: (second: number) => Seen
  readonly watched?: Watched
  readonly policy?: Policy
  readonly group?: GroupSpec | null
  readonly from?: number
  readonly until?: number
  readonly every?: number
  /** Seconds from the beginning of each look until all of it is in. */
  readonly lasting?: number
  readonly memory?: GateMemory | null
  readonly owed?: string
}

interface Ended {
  readonly second: number
  readonly kind: Verdict['kind']
  readonly reason: string
  /** Why it was watched on, look by look. */
  readonly reasons: readonly string[]
  readonly memory: GateMemory | null
}

/** Looks every second (or as often as is said) until there is a verdict. */
function watch({ seen, watched = watchedOf(), policy = policyOf(), group = groupSpec(), ...given }: Watch): Ended {
  const { from = 0, until = 1_000, every = 1, lasting = 0 } = given
  let memory = given.memory ?? null
  const reasons: string[] = []
  for (let n = 0; ; n++) {
    const second = from + n * every
    if (second > until) return { second: until, kind: 'watch', reason: reasons.at(-1) ?? '', reasons, memory }
    const { allocation, checks = [checkOf(Math.floor(clockOf(second)))] } = seen(second)
    const at = 7_000 + second * SECOND
    const { owed = null } = given
    const sight = { at, seenAt: at + lasting * SECOND, wall: NOW + second * SECOND, allocation, checks, group, owed }
    const step = look(memory, watched, sight, policy)
    memory = step.memory
    if (step.verdict.kind !== 'watch') return { second, ...step.verdict, reasons, memory }
    reasons.push(step.verdict.reason)
  }
}

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
