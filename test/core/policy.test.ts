import { describe, expect, it } from 'vitest'
import type { GroupSpec } from '../../src/core/cluster.ts'
import { fallbackPolicy, groupPolicy, sharedPolicy, type Policy } from '../../src/core/policy.ts'
import { groupSpec, jobOf, MINUTE, SCOPE, SECOND } from '../support/builders.ts'

const UPDATE = { maxParallel: 2, minHealthyTime: 30 * SECOND, healthyDeadline: 10 * MINUTE, healthCheck: 'checks' }

interface Given {
  readonly job?: Record<string, string>
  readonly group?: Record<string, string>
  readonly update?: GroupSpec['update']
  readonly count?: number
}

function resolved({ job = {}, group = {}, update = null, count = 3 }: Given) {
  return groupPolicy(jobOf({ meta: job }), groupSpec({ meta: group, update, count }))
}

describe('the policy of a group', () => {
  it('without a word anywhere is the default, and says so of each value', () => {
    const { policy, origin, faults } = resolved({})
    expect(policy).toEqual({
      maxParallel: 1,
      maxUnavailable: 1,
      minHealthyTime: 10 * SECOND,
      healthyDeadline: 5 * MINUTE,
      healthCheck: 'checks',
      stagger: 0,
      minInterval: null,
      maxErrors: 0,
      actingDeadline: 60 * SECOND,
      waitForDeployment: true,
    })
    expect(origin).toEqual({
      maxParallel: 'default',
      maxUnavailable: 'max_parallel',
      minHealthyTime: 'default',
      healthyDeadline: 'default',
      healthCheck: 'default',
      stagger: 'default',
      minInterval: 'default',
      maxErrors: 'default',
      actingDeadline: 'default',
      waitForDeployment: 'default',
    })
    expect(faults).toEqual([])
  })

  it('with a good update block needs nothing else', () => {
    const { policy, origin } = resolved({ update: UPDATE })
    expect(policy).toMatchObject({ maxParallel: 2, maxUnavailable: 2, minHealthyTime: 30_000, healthyDeadline: 600_000 })
    expect(origin).toMatchObject({
      maxParallel: 'update',
      minHealthyTime: 'update',
      healthyDeadline: 'update',
      stagger: 'default',
    })
  })

  it.each([
    ['checks', 'checks'],
    ['task_states', 'task_states'],
    ['manual', 'task_states'],
  ])('takes health_check = "%s" of the update block as %s', (word, meant) => {
    expect(resolved({ update: { ...UPDATE, healthCheck: word } }).policy.healthCheck).toBe(meant)
  })

  it('prefers the meta of the group to that of the job, that to the update block, and that to the default, value by value', () => {
    const { policy, origin } = resolved({
      update: UPDATE,
      job: { lockkeeper_min_healthy_time: '20s', lockkeeper_max_parallel: '3', lockkeeper_stagger: '5s' },
      group: { lockkeeper_max_parallel: '4' },
    })
    expect(policy).toMatchObject({
      maxParallel: 4,
      minHealthyTime: 20_000,
      healthyDeadline: 600_000,
      stagger: 5_000,
      maxErrors: 0,
    })
    expect(origin).toMatchObject({
      maxParallel: 'group meta',
      minHealthyTime: 'job meta',
      healthyDeadline: 'update',
      stagger: 'job meta',
      maxErrors: 'default',
    })
  })

  it.each<[string, string, Partial<Policy>]>([
    ['max_parallel', '7', { maxParallel: 7, maxUnavailable: 7 }],
    ['max_parallel', ' 7 ', { maxParallel: 7, maxUnavailable: 7 }],
    ['max_parallel', '0', { maxParallel: 0 }],
    ['max_parallel', '100%', { maxParallel: 3, maxUnavailable: 3 }],
    ['max_unavailable', '2', { maxParallel: 1, maxUnavailable: 2 }],
    ['max_unavailable', '67%', { maxParallel: 1, maxUnavailable: 2 }],
    ['min_healthy_time', '1m30s', { minHealthyTime: 90_000 }],
    ['min_healthy_time', '0', { minHealthyTime: 0 }],
    ['healthy_deadline', '1h', { healthyDeadline: 3_600_000 }],
    ['health_check', 'task_states', { healthCheck: 'task_states' }],
    ['health_check', 'none', { healthCheck: 'none' }],
    ['stagger', '250ms', { stagger: 250 }],
    ['max_errors', '3', { maxErrors: 3 }],
    ['acting_deadline', '2m', { actingDeadline: 120_000 }],
    ['wait_for_deployment', 'false', { waitForDeployment: false }],
  ])('reads lockkeeper_%s = "%s"', (word, text, values) => {
    for (const place of ['job', 'group'] as const) {
      const { policy, faults } = resolved({ [place]: { [`lockkeeper_${word}`]: text } })
      expect(faults).toEqual([])
      expect(policy).toMatchObject(values)
    }
  })

  it.each([
    ['10%', 100, 10],
    ['10%', 109, 10],
    ['10%', 110, 11],
    ['10%', 5, 1],
    ['10%', 1, 1],
    ['10%', 0, 1],
    ['1%', 100, 1],
    ['34%', 3, 1],
    ['67%', 3, 2],
    ['29%', 100, 29],
    ['57%', 100, 57],
    ['100%', 7, 7],
  ])('C1.6 max_parallel "%s" of %d allocations is %d', (text, count, amount) => {
    const { policy } = resolved({ count, group: { lockkeeper_max_parallel: text } })
    expect(policy).toMatchObject({ maxParallel: amount, maxUnavailable: amount })
  })

  it.each([
    ['max_parallel', 'two'],
    ['max_parallel', '-1'],
    ['max_parallel', '1.5'],
    ['max_parallel', '0%'],
    ['max_parallel', '101%'],
    ['max_parallel', '10 %'],
    ['max_parallel', ''],
    ['max_unavailable', 'all'],
    ['min_healthy_time', '10'],
    ['min_healthy_time', '-10s'],
    ['healthy_deadline', 'never'],
    ['healthy_deadline', `${'9'.repeat(400)}h`],
    ['health_check', 'manual'],
    ['health_check', 'Checks'],
    ['stagger', '5'],
    ['max_errors', '10%'],
    ['max_errors', '-1'],
    ['acting_deadline', ''],
    ['wait_for_deployment', 'no'],
    ['wait_for_deployment', 'True'],
  ])('refuses lockkeeper_%s = "%s" and names the field, where it stands and what was expected', (word, text) => {
    for (const place of ['job', 'group'] as const) {
      const { faults } = resolved({ [place]: { [`lockkeeper_${word}`]: text } })
      expect(faults).toHaveLength(1)
      expect(faults[0]).toContain(`lockkeeper_${word} in ${place} meta: "${text}" is not `)
    }
  })

  it.each(['lockkeeper_max_paralel', 'lockkeeper_maxParallel', 'lockkeeper_canary', 'lockkeeper_', 'lockkeeper_windows'])(
    'refuses the word %s, which it does not know: it is never silently another policy',
    (word) => {
      expect(resolved({ group: { [word]: '2' } }).faults).toEqual([expect.stringContaining(`${word} in group meta`)])
      expect(resolved({ job: { [word]: '2' } }).faults).toEqual([expect.stringContaining(`${word} in job meta`)])
    },
  )

  it('leaves the meta of others alone, and what is watched is no policy', () => {
    const meta = { owner: 'team-a', max_parallel: 'many', lockkeeper: 'x', lockkeeper_watch: 'secrets/app.env' }
    expect(resolved({ job: meta, group: meta }).faults).toEqual([])
  })

  it.each<[string, Given, string]>([
    ['healthy_deadline 0', { group: { lockkeeper_healthy_deadline: '0' } }, 'healthy_deadline'],
    [
      'min_healthy_time 6m and healthy_deadline 5m',
      { group: { lockkeeper_min_healthy_time: '6m', lockkeeper_healthy_deadline: '5m' } },
      'min_healthy_time must be shorter than healthy_deadline',
    ],
    [
      'min_healthy_time as long as healthy_deadline',
      { group: { lockkeeper_min_healthy_time: '5m' } },
      'min_healthy_time must be shorter than healthy_deadline',
    ],
    [
      'a min_healthy_time of the group that is longer than the healthy_deadline of the update block',
      { update: UPDATE, group: { lockkeeper_min_healthy_time: '11m' } },
      'min_healthy_time must be shorter than healthy_deadline',
    ],
    ['acting_deadline 0', { job: { lockkeeper_acting_deadline: '0s' } }, 'acting_deadline'],
  ])('C2.9 refuses %s and names the field', (_what, given, named) => {
    const { faults } = resolved(given)
    expect(faults).toHaveLength(1)
    expect(faults[0]).toContain(named)
  })

  it('tells all faults at once', () => {
    const { faults } = resolved({
      job: { lockkeeper_stagger: 'x' },
      group: { lockkeeper_max_errors: 'y', lockkeeper_healthy_deadline: '0' },
    })
    expect(faults).toHaveLength(3)
  })

  it('lets max_unavailable follow max_parallel, whoever sets it, unless it is set itself', () => {
    expect(resolved({ update: UPDATE }).policy.maxUnavailable).toBe(2)
    const followed = resolved({ update: UPDATE, group: { lockkeeper_max_parallel: '5' } })
    expect(followed.policy.maxUnavailable).toBe(5)
    expect(followed.origin.maxUnavailable).toBe('max_parallel')
    const set = resolved({ job: { lockkeeper_max_unavailable: '4' }, group: { lockkeeper_max_parallel: '3' } })
    expect(set.policy).toMatchObject({ maxParallel: 3, maxUnavailable: 4 })
    expect(set.origin.maxUnavailable).toBe('job meta')
  })
})

describe('the policy of a shared semaphore', () => {
  it('has one slot, and released is over', () => {
    const { policy, origin, faults } = sharedPolicy()
    expect(policy).toMatchObject({ maxParallel: 1, maxUnavailable: 1, healthCheck: 'none' })
    expect(origin.healthCheck).toBe('shared')
    expect(faults).toEqual([])
  })
})

describe('the policy while a job cannot be read', () => {
  it('is the default, so that open holds still end', () => {
    expect(fallbackPolicy(SCOPE)).toEqual(resolved({}))
    expect(fallbackPolicy({ nodes: 'rack-1' })).toEqual(resolved({}))
    expect(fallbackPolicy({ shared: 'docker' })).toEqual(sharedPolicy())
  })
})
