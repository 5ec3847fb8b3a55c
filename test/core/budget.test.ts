import { describe, expect, it } from 'vitest'
import type { Allocation, GroupSpec, Node } from '../../src/core/cluster.ts'
import { groupView, placeOf, whyDown } from '../../src/core/budget.ts'
import { allocationOf, allocationsOf, groupSpec, jobOf, nodeOf, taskOf, taskSpec } from '../support/builders.ts'

function view(allocations: readonly Allocation[], group: GroupSpec = groupSpec()) {
  return groupView(jobOf({ groups: [group] }), group, allocations, [])
}

/** A system job: every allocation has the same name, one on each node. */
function systemView(allocations: readonly Partial<Allocation>[], nodes: readonly Node[]) {
  const group = groupSpec({ count: 1 })
  const all = allocations.map((over, n) => allocationOf(n, { name: 'web.api[0]', ...over }))
  return groupView(jobOf({ type: 'system' }), group, all, nodes)
}

describe('an allocation', () => {
  it('that runs with all its tasks is up', () => {
    expect(whyDown(allocationOf(0), groupSpec())).toBeNull()
  })

  it.each<[string, Partial<Allocation>, string]>([
    ['is draining', { migrating: true }, 'web.api[1] (alloc-1) is draining'],
    ['is still pending', { client: 'pending' }, 'is pending'],
    ['has failed', { client: 'failed' }, 'is failed'],
    ['is on a node that does not answer', { client: 'unknown' }, 'is unknown'],
    ['is lost with its node', { client: 'lost' }, 'is lost'],
    ['has a task between two starts', { tasks: { app: taskOf({ state: 'pending' }) } }, 'task app is pending'],
    ['has a task that is dead', { tasks: { app: taskOf({ state: 'dead' }) } }, 'task app is dead'],
    ['has a task that has failed', { tasks: { app: taskOf({ failed: true }) } }, 'task app has failed'],
    ['has a task of which nothing is known', { tasks: {} }, 'task app is not known'],
  ])('that %s is down, and it is told which and why', (_what, over, why) => {
    const down = whyDown(allocationOf(1, over), groupSpec())
    expect(down).toContain('web.api[1]')
    expect(down).toContain(why)
  })

  it('with a one-shot task that is dead by design is up', () => {
    const group = groupSpec({
      tasks: [taskSpec('migrate', 'once'), taskSpec('app')],
    })
    const tasks = { migrate: taskOf({ state: 'dead' }), app: taskOf() }
    expect(whyDown(allocationOf(0, { tasks }), group)).toBeNull()
    expect(whyDown(allocationOf(0, { tasks: { app: taskOf() } }), group)).toBeNull()
  })

  it('is down when a sidecar or any of several main tasks is', () => {
    const group = groupSpec({
      tasks: [taskSpec('app'), taskSpec('worker'), taskSpec('proxy', 'sidecar')],
    })
    const up = { app: taskOf(), worker: taskOf(), proxy: taskOf() }
    expect(whyDown(allocationOf(0, { tasks: up }), group)).toBeNull()
    for (const task of ['app', 'worker', 'proxy'] as const) {
      const tasks = { ...up, [task]: taskOf({ state: 'dead' }) }
      expect(whyDown(allocationOf(0, { tasks }), group)).toContain(`task ${task} is dead`)
    }
  })
})

describe('a group', () => {
  it('of which everything runs has nobody down', () => {
    const { units, down } = view(allocationsOf(3))
    expect(units.map(({ id, place, up }) => [id, place, up])).toEqual([
      ['alloc-0', 'web.api[0]', true],
      ['alloc-1', 'web.api[1]', true],
      ['alloc-2', 'web.api[2]', true],
    ])
    expect(down.size).toBe(0)
  })

  it('has the crashed and the draining ones down, each with why', () => {
    const { units, down } = view(
      allocationsOf(3, { 0: { migrating: true }, 2: { tasks: { app: taskOf({ state: 'pending' }) } } }),
    )
    expect([...down]).toEqual([
      ['web.api[0]', 'web.api[0] (alloc-0) is draining'],
      ['web.api[2]', 'web.api[2] (alloc-2): task app is pending'],
    ])
    expect(units.map(({ up }) => up)).toEqual([false, true, false])
  })

  it('misses those that are not there at all, at the places where Nomad would put them', () => {
    const { down } = view([allocationOf(1)])
    expect([...down.keys()]).toEqual(['web.api[0]', 'web.api[2]'])
    expect(down.get('web.api[2]')).toBe('web.api[2] is missing: 1 of 3 allocations are there')
  })

  it('that is empty is all missing, and one that should be empty misses nobody', () => {
    expect(view([]).down.size).toBe(3)
    expect(view([], groupSpec({ count: 0 })).down.size).toBe(0)
  })

  it('does not miss anybody while it is scaled down, nor when the numbers have gaps', () => {
    expect(view(allocationsOf(5)).down.size).toBe(0)
    expect(view([allocationOf(0), allocationOf(2), allocationOf(7)]).down.size).toBe(0)
    expect([...view([allocationOf(0), allocationOf(7)]).down.keys()]).toEqual(['web.api[1]'])
  })

  it.each<[string, Partial<Allocation>]>([
    ['was stopped', { desired: 'stop' }],
    ['was stopped and still runs', { desired: 'stop', client: 'running' }],
    ['was evicted', { desired: 'evict', client: 'complete' }],
    ['has finished', { client: 'complete' }],
    ['was lost', { desired: 'stop', client: 'lost' }],
    ['failed and was replaced elsewhere', { client: 'failed', next: 'alloc-9' }],
  ])('counts one that %s as missing, not as one of its units', (_what, over) => {
    const { units, down } = view(allocationsOf(3, { 1: over }))
    expect(units.map(({ id }) => id)).toEqual(['alloc-0', 'alloc-2'])
    expect([...down.keys()]).toEqual(['web.api[1]'])
  })

  it('C1.9 names the one that crashed for good and was not replaced', () => {
    const { units, down } = view(allocationsOf(3, { 1: { client: 'failed' } }))
    expect(units.map(({ up }) => up)).toEqual([true, false, true])
    expect([...down]).toEqual([['web.api[1]', 'web.api[1] (alloc-1) is failed']])
  })

  it('has a place up when the replacement of a lost allocation runs there', () => {
    const old = allocationOf(1, { client: 'unknown', next: 'alloc-9' })
    const replacement = allocationOf(1, { id: 'alloc-9', node: 'node-9' })
    for (const all of [
      [old, replacement],
      [replacement, old],
    ]) {
      const { units, down } = view([allocationOf(0), ...all, allocationOf(2)])
      expect(down.size).toBe(0)
      expect(units).toHaveLength(4)
    }
  })

  it('has the place of a lost allocation down once, not twice, while its replacement starts', () => {
    const old = allocationOf(1, { client: 'unknown', next: 'alloc-9' })
    const replacement = allocationOf(1, { id: 'alloc-9', client: 'pending' })
    expect([...view([allocationOf(0), old, replacement, allocationOf(2)]).down.keys()]).toEqual(['web.api[1]'])
  })

  it('is not concerned with the allocations of other groups', () => {
    const other = allocationsOf(3).map((one) => ({ ...one, group: 'db' }))
    expect(view([...allocationsOf(3), ...other]).units).toHaveLength(3)
    expect(view(other).down.size).toBe(3)
  })
})

describe('a system job', () => {
  it('has one place on each node, though all its allocations have the same name', () => {
    const { units, down } = systemView([{}, { tasks: { app: taskOf({ state: 'dead' }) } }], [nodeOf(0), nodeOf(1)])
    expect(units.map(({ place }) => place)).toEqual(['web.api[0]@node-0', 'web.api[0]@node-1'])
    expect([...down.keys()]).toEqual(['web.api[0]@node-1'])
    expect(placeOf(jobOf({ type: 'system' }), allocationOf(0))).toBe('web.api[0]@node-0')
    expect(placeOf(jobOf(), allocationOf(0))).toBe('web.api[0]')
  })

  it.each<[string, Partial<Node>]>([
    ['is down', { status: 'down' }],
    ['is disconnected', { status: 'disconnected' }],
    ['is not eligible', { eligible: false }],
  ])('does not count an allocation on a node that %s', (_what, node) => {
    const crashed = { tasks: { app: taskOf({ state: 'pending' }) } }
    const { units, down } = systemView([{}, crashed], [nodeOf(0), nodeOf(1, node)])
    expect(units.map(({ id }) => id)).toEqual(['alloc-0'])
    expect(down.size).toBe(0)
  })

  it('misses nobody against a count: it has none', () => {
    expect(systemView([], [nodeOf(0), nodeOf(1)]).down.size).toBe(0)
  })

  it('C8.4 counts the one that crashed for good on a node that is up, and no more when that node goes down', () => {
    const crashed = { client: 'failed' as const, tasks: { app: taskOf({ state: 'dead', failed: true }) } }
    const up = systemView([{}, crashed], [nodeOf(0), nodeOf(1)])
    expect([...up.down]).toEqual([['web.api[0]@node-1', 'web.api[0] (alloc-1) is failed']])
    expect(systemView([{}, crashed], [nodeOf(0), nodeOf(1, { status: 'down' })]).down.size).toBe(0)
  })

  it('of which the crashed one was started anew on the same node has that place up', () => {
    const again = { id: 'alloc-9', node: 'node-1' }
    const { down } = systemView([{}, { client: 'failed' }, again], [nodeOf(0), nodeOf(1)])
    expect(down.size).toBe(0)
  })
})
