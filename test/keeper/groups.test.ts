import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { resumeSemaphore, releaseByForce } from '../../src/keeper/operate.ts'
import type { Keeper } from '../../src/keeper/keeper.ts'
import { problemOf, World, type Granted } from '../support/world.ts'

const here = () => new AbortController().signal
const group = { namespace: 'default', job: 'web', group: 'api' }

let world: World
let keeper: Keeper
let allocations: string[]
const given = async (options: Parameters<World['withJob']>[0]) => {
  await world.withJob(options)
  keeper = await world.replica()
  allocations = await world.allocations()
}
beforeEach(() => void (world = new World()))
afterEach(() => world.close())

const ask = (n: number, key = `key of ${n}`) => ({ allocation: allocations[n] as string, key, reason: 'rotated' })
const restarted = async ({ hold }: Granted) => await world.restart(hold.unit)
const released = async ({ hold, lease }: Granted, outcome: 'done' | 'abandoned' | 'failed' = 'done') =>
  await world.soon(keeper.release(hold.id, lease, outcome, here()))
const kinds = async () => (await world.state(group)).transitions.map(({ kind }) => kind)
const holds = async () => (await world.state(group)).holds

describe('one allocation after another', () => {
  it('C1.1 slow start: never both down', async () => {
    await given({ allocations: 2, minHealthyTime: 10, healthyDeadline: 900 })
    world.nomad.setTask({ job: 'web', group: 'api' }, { healthy_after: '600s' })
    const first = await world.granted(keeper, ask(0))
    await restarted(first)
    await released(first)
    const restartedAt = world.clock.now()
    const second = keeper.acquire(ask(1), 900_000, here())
    await world.clock.advance(60_000)
    expect((await world.waits(keeper, { ...ask(1), key: 'somebody else' })).wait.kind).toBe('full')
    const answer = await world.soon(second, 900_000)
    expect(answer.kind).toBe('granted')
    expect(world.clock.now() - restartedAt).toBeGreaterThanOrEqual(609_000)
    expect(world.clock.now() - restartedAt).toBeLessThan(620_000)
  })

  it('C2.2 a running task with a failing check holds its slot until it is a failure', async () => {
    await given({ allocations: 2 })
    const first = await world.granted(keeper, ask(0))
    world.nomad.setTask(first.hold.unit, { healthy: false })
    await restarted(first)
    await released(first)
    await world.clock.advance(50_000)
    expect((await holds())[0]?.phase).toBe('observing')
    expect((await world.waits(keeper, ask(1))).wait.kind).toBe('full')
    await world.clock.advance(15_000)
    expect((await world.state(group)).failures[0]?.reason).toContain('check up says failure')
    expect((await world.waits(keeper, ask(1))).wait.kind).toBe('halted')
  })

  it('a bad value halts after the first, and the request with the good value gets in without an operator', async () => {
    await given({ allocations: 3 })
    const first = await world.granted(keeper, ask(0))
    world.nomad.setTask(first.hold.unit, { healthy: false })
    await restarted(first)
    await released(first)
    await world.until(async () => (await world.state(group)).halted !== null)
    const second = keeper.acquire(ask(1), 300_000, here())
    await world.clock.advance(2_000)
    world.nomad.setTask(first.hold.unit, { healthy: true })
    const mended = await world.granted(keeper, ask(0, 'good value'))
    await restarted(mended)
    await released(mended)
    expect((await world.soon(second)).kind).toBe('granted')
    expect((await world.state(group)).halted).toBeNull()
    expect(await kinds()).toEqual(expect.arrayContaining(['failed', 'halted', 'healthy', 'halt_lifted']))
  })

  it('an operator who resumes lets the next one go although the first is still broken', async () => {
    await given({ allocations: 3, meta: { lockkeeper_max_unavailable: '2' } })
    const first = await world.granted(keeper, ask(0))
    world.nomad.setTask(first.hold.unit, { healthy: false })
    await restarted(first)
    await released(first)
    await world.until(async () => (await world.state(group)).halted !== null)
    await world.soon(resumeSemaphore(world.variables, keeper.paths, group, 'known', () => world.clock.wall(), here()))
    await world.granted(keeper, ask(1))
  })

  it('C1.9 a crashed allocation uses the budget up, and its own request goes first', async () => {
    await given({ allocations: 3 })
    const broken = allocations[2] as string
    world.nomad.setTask(broken, { exit_after: '0s', exit_code: 1 })
    world.nomad.crash(broken)
    await world.clock.advance(3_000)
    const healthy = keeper.acquire(ask(0), 120_000, here())
    await world.clock.advance(2_000)
    const waiting = await world.waits(keeper, ask(1))
    expect(waiting.wait).toMatchObject({ kind: 'full', detail: expect.stringContaining('web.api[2]') })
    world.nomad.setTask(broken, { exit_after: null })
    const first = await world.granted(keeper, ask(2))
    expect(first.hold.wasUp).toBe(false)
    expect((await world.soon(healthy)).kind).toBe('granted')
  })

  it('C1.15 nobody is granted while a deployment is under way; who was replaced by it need not wait any more', async () => {
    await given({ allocations: 3 })
    const before = allocations
    const job = { allocations: 3, meta: { version: '2' } }
    const { jobOfDev } = await import('../support/world.ts')
    world.nomad.registerJob(jobOfDev(job))
    await world.until(async () => await world.cluster.deploying('default', 'web'))
    const waiting = problemOf(keeper.acquire({ allocation: before[2] as string, key: 'k', reason: 'rotated' }, 600_000, here()))
    await world.clock.advance(1_000)
    expect((await world.soon(waiting, 300_000)).kind).toBe('allocation_finished')
    await world.until(async () => !(await world.cluster.deploying('default', 'web')))
    allocations = await world.allocations()
    await world.granted(keeper, ask(0))
  })
})

describe('actors that give up or die', () => {
  it('C3.5 C4.5 an abandoned hold of a unit that is as it was is over within a second', async () => {
    await given({ allocations: 2 })
    const first = await world.granted(keeper, ask(0))
    const second = keeper.acquire(ask(1), 60_000, here())
    await world.clock.advance(1_000)
    await released(first, 'abandoned')
    const at = world.clock.now()
    expect((await world.soon(second)).kind).toBe('granted')
    expect(world.clock.now() - at).toBeLessThanOrEqual(1_100)
  })

  it('E3 an actor that says abandoned after it broke its unit frees no slot', async () => {
    await given({ allocations: 2 })
    const first = await world.granted(keeper, ask(0))
    world.nomad.setTask(first.hold.unit, { healthy: false })
    await restarted(first)
    await world.clock.advance(1_100)
    await released(first, 'abandoned')
    const second = await world.waits(keeper, ask(1), 30_000)
    expect(second.wait.kind).toBe('full')
    expect((await holds())[0]?.phase).toBe('observing')
  })

  it('C4.2 a lost lease with a broken allocation frees no slot, in an hour neither', async () => {
    await given({ allocations: 3 })
    const first = await world.granted(keeper, ask(0))
    world.nomad.setTask(first.hold.unit, { healthy: false })
    await restarted(first)
    const waiting = [1, 2].map((n) => keeper.acquire(ask(n), 3_600_000, here()))
    await world.clock.advance(45_000)
    expect((await holds())[0]).toMatchObject({ phase: 'observing', outcome: 'lease_lost' })
    await world.clock.advance(3_540_000)
    expect(await kinds()).toEqual(['granted', 'lease_lost', 'failed', 'halted'])
    const answers = await world.soon(Promise.all(waiting))
    expect(answers.map(({ kind }) => kind)).toEqual(['waiting', 'waiting'])
  })

  it('a holder that died after its restart: the next one goes when that allocation is seen healthy', async () => {
    await given({ allocations: 2 })
    const first = await world.granted(keeper, ask(0))
    await restarted(first)
    const second = await world.soon(keeper.acquire(ask(1), 120_000, here()))
    expect(second.kind).toBe('granted')
    expect(await kinds()).toEqual(['granted', 'lease_lost', 'healthy', 'granted'])
  })

  it('a holder that died before it acted: the slot is free some seconds after its lease has fallen', async () => {
    await given({ allocations: 2 })
    await world.granted(keeper, ask(0))
    const at = world.clock.now()
    expect((await world.soon(keeper.acquire(ask(1), 120_000, here()))).kind).toBe('granted')
    expect(world.clock.now() - at).toBeGreaterThan(33_000)
    expect(await kinds()).toEqual(['granted', 'lease_lost', 'unchanged', 'granted'])
  })

  it('E6 while the client agent of the node is silent the hold stays', async () => {
    await given({ allocations: 2 })
    const first = await world.granted(keeper, ask(0))
    const node = (await world.soon(world.cluster.allocation(first.hold.unit)))?.nodeName as string
    world.nomad.node(node).silence()
    const second = await world.waits(keeper, ask(1), 55_000)
    expect(second.wait.kind).toBe('full')
    world.nomad.node(node).speak()
    expect((await world.soon(keeper.acquire(ask(1), 60_000, here()))).kind).toBe('granted')
  })

  it('C4.3 the hold of an allocation that is gone with its job is over within 30 s', async () => {
    await given({ allocations: 2 })
    const first = await world.granted(keeper, ask(0))
    await released(first)
    await world.soon(world.nomad.handle({ method: 'DELETE', path: '/v1/job/web?purge=true' }))
    await world.clock.advance(30_000)
    expect(await kinds()).toEqual(['granted', 'released', 'gone'])
  })

  it('a stopped allocation is followed to its replacement', async () => {
    await given({ allocations: 2 })
    const first = await world.granted(keeper, { ...ask(0), action: 'replace' })
    await world.soon(world.nomad.handle({ method: 'PUT', path: `/v1/allocation/${first.hold.unit}/stop` }))
    await released(first)
    await world.until(async () => (await holds()).length === 0)
    expect(await kinds()).toEqual(['granted', 'released', 'healthy'])
  })

  it('a forced release by an operator frees the slot', async () => {
    await given({ allocations: 2 })
    const first = await world.granted(keeper, ask(0))
    await world.soon(releaseByForce(world.variables, keeper.paths, first.hold.id, 'it hangs', () => world.clock.wall(), here()))
    await world.granted(keeper, ask(1))
    expect((await problemOf(world.soon(keeper.renew(first.hold.id, first.lease, here())))).kind).toBe('unknown_hold')
  })

  it('past its acting deadline an actor that renews and renews is told that it lost its lease', async () => {
    await given({ allocations: 2 })
    const first = await world.granted(keeper, ask(0))
    for (let n = 0; n < 11; n++) {
      await world.soon(keeper.renew(first.hold.id, first.lease, here()))
      await world.clock.advance(5_000)
    }
    await world.clock.advance(6_000)
    expect((await problemOf(world.soon(keeper.renew(first.hold.id, first.lease, here())))).kind).toBe('lease_lost')
    expect((await holds())[0]?.phase).toBe('observing')
  })
})

describe('several replicas', () => {
  it('C2.7 all replicas die while a hold is observed: the next one settles it, and the queue keeps its order', async () => {
    await given({ allocations: 3, minHealthyTime: 10 })
    const other = await world.replica()
    const first = await world.granted(keeper, ask(0))
    const waiters = [keeper.acquire(ask(1), 600_000, here()), other.acquire(ask(2), 600_000, here())]
    const ended = Promise.allSettled(waiters)
    await world.clock.advance(1_000)
    await restarted(first)
    await released(first)
    await world.clock.advance(6_000)
    await world.kill(keeper)
    await world.kill(other)
    await world.clock.advance(3_000)
    await ended
    const fresh = await world.replica()
    const readyAt = world.clock.now()
    const order: number[] = []
    const again = [2, 1].map(async (n) => {
      const answer = await fresh.acquire(ask(n), 600_000, here())
      order.push(n)
      if (answer.kind === 'granted') await fresh.release(answer.hold.id, answer.lease, 'abandoned', here())
    })
    await world.until(async () => order.length > 0)
    expect(world.clock.now() - readyAt).toBeLessThan(13_500)
    await world.soon(Promise.all(again))
    expect(order).toEqual([1, 2])
  })

  it('two replicas never hold more than one slot, and grant in the order of asking', async () => {
    await given({ allocations: 5, healthyAfter: '1s' })
    const other = await world.replica()
    const order: number[] = []
    let most = 0
    const all = [0, 1, 2, 3, 4].map(async (n) => {
      const at = n % 2 === 0 ? keeper : other
      await world.clock.sleep(n * 300)
      const answer = await at.acquire(ask(n), 600_000, here())
      if (answer.kind !== 'granted') throw new Error(JSON.stringify(answer))
      order.push(n)
      most = Math.max(most, (await world.variables.get(at.paths.semaphore(group))).variable === null ? 0 : order.length)
      await world.nomad.handle({ method: 'PUT', path: `/v1/client/allocation/${answer.hold.unit}/restart`, body: '{}' })
      await at.release(answer.hold.id, answer.lease, 'done', here())
    })
    await world.soon(Promise.all(all), 600_000)
    expect(order).toEqual([0, 1, 2, 3, 4])
    await world.until(async () => (await holds()).length === 0)
    expect((await kinds()).filter((kind) => kind === 'granted')).toHaveLength(5)
    expect(most).toBe(5)
  })

  it('C3.6 a waiter that dies without a word is gone from the queue, and the next is granted at once', async () => {
    await given({ allocations: 3 })
    const first = await world.granted(keeper, ask(0))
    const dying = new AbortController()
    keeper.acquire(ask(1), 600_000, dying.signal).catch(() => undefined)
    await world.clock.advance(500)
    const third = keeper.acquire(ask(2), 600_000, here())
    await world.clock.advance(500)
    dying.abort()
    for (let n = 0; n < 10; n++) {
      await world.soon(keeper.renew(first.hold.id, first.lease, here()))
      await world.clock.advance(5_000)
    }
    await released(first, 'abandoned')
    const at = world.clock.now()
    expect((await world.soon(third)).kind).toBe('granted')
    expect(world.clock.now() - at).toBeLessThanOrEqual(1_100)
  })
})
