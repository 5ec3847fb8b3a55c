import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { JobSpec } from '../../src/devnomad/devnomad.ts'
import { lock, unlock } from '../../src/keeper/operate.ts'
import type { Keeper } from '../../src/keeper/keeper.ts'
import { groupOfDev, problemOf, World } from '../support/world.ts'

const here = () => new AbortController().signal
const group = { namespace: 'default', job: 'web', group: 'api' }

let world: World
beforeEach(() => void (world = new World()))
afterEach(() => world.close())

const kinds = async () => (await world.state(group)).transitions.map(({ kind }) => kind)

/** Asks for one allocation, restarts it in its hold and releases. */
async function restartInHold(keepers: () => readonly Keeper[], allocation: string, n: number): Promise<number> {
  for (let tries = 0; ; tries++) {
    const keeper = keepers()[(n + tries) % keepers().length] as Keeper
    const ask = { allocation, key: `key of ${allocation}`, reason: 'rotated' }
    const answer = await keeper.acquire(ask, 30_000, here()).catch(() => null)
    if (answer?.kind !== 'granted') {
      await world.clock.sleep(500)
      continue
    }
    await keeper.renew(answer.hold.id, answer.lease, here())
    await world.nomad.handle({ method: 'PUT', path: `/v1/client/allocation/${allocation}/restart`, body: '{}' })
    await release(keepers, answer.hold.id, answer.lease)
    return answer.hold.token
  }
}

async function release(keepers: () => readonly Keeper[], hold: string, lease: string): Promise<void> {
  for (let tries = 0; ; tries++) {
    const keeper = keepers()[tries % keepers().length] as Keeper
    const kind = await keeper.release(hold, lease, 'done', here()).then(
      () => 'done',
      (error: { kind?: string }) => error.kind,
    )
    if (kind === 'done' || kind === 'already_released' || kind === 'lease_lost' || kind === 'unknown_hold') return
    await world.clock.sleep(200)
  }
}

describe('acceptance cases', () => {
  it('C1.10 groups do not wait for each other, and each has never more than its own', async () => {
    const groups = ['site', 'admin'].map((name) => groupOfDev({ allocations: 2 }, name))
    world.nomad.registerJob({ ID: 'web', Type: 'system', TaskGroups: groups } as unknown as JobSpec)
    await world.clock.advance(30_000)
    const keeper = await world.replica()
    const all = await world.cluster.allocations('default', 'web')
    const ask = (name: string, nth: number) => ({
      allocation: all.filter((allocation) => allocation.group === name)[nth]?.id as string,
      key: `${name} ${nth}`,
      reason: 'rotated',
    })
    await world.granted(keeper, ask('site', 0))
    await world.granted(keeper, ask('admin', 0))
    expect((await world.waits(keeper, ask('site', 1))).wait.kind).toBe('full')
    expect((await world.waits(keeper, ask('admin', 1))).wait.kind).toBe('full')
  })

  it('C2.4 a shim that drains for 45 s holds its slot all the time, and the deadline of the gate begins at its release', async () => {
    await world.withJob({ allocations: 2, healthyDeadline: 20, meta: { lockkeeper_acting_deadline: '2m' } })
    const keeper = await world.replica()
    const [first, second] = await world.allocations()
    const { hold, lease } = await world.granted(keeper, { allocation: first as string, key: 'a', reason: 'rotated' })
    for (let seconds = 0; seconds < 45; seconds += 5) {
      await world.soon(keeper.renew(hold.id, lease, here()))
      await world.clock.advance(5_000)
    }
    expect((await world.waits(keeper, { allocation: second as string, key: 'b', reason: 'rotated' })).wait.kind).toBe('full')
    await world.restart(hold.unit)
    await world.soon(keeper.release(hold.id, lease, 'done', here()))
    await world.until(async () => (await world.state(group)).holds.length === 0)
    expect(await kinds()).toEqual(['granted', 'released', 'healthy'])
  })

  it('C4.1 while the client of the node is away the hold counts, and goes when its checks pass again; there is no second restart', async () => {
    await world.withJob({ allocations: 2 })
    const keeper = await world.replica()
    const [first, second] = await world.allocations()
    const { hold } = await world.granted(keeper, { allocation: first as string, key: 'a', reason: 'rotated' })
    await world.restart(hold.unit)
    await world.clock.advance(1_000)
    const node = (await world.soon(world.cluster.allocation(hold.unit)))?.nodeName as string
    world.nomad.node(node).silence()
    const stops: string[] = []
    world.nomad.observe(({ event, alloc }) => void (event === 'stopping' && stops.push(alloc)))
    const waiting = keeper.acquire({ allocation: second as string, key: 'b', reason: 'rotated' }, 300_000, here())
    await world.clock.advance(60_000)
    expect((await world.state(group)).holds[0]).toMatchObject({ phase: 'observing', outcome: 'lease_lost' })
    world.nomad.node(node).speak()
    expect((await world.soon(waiting)).kind).toBe('granted')
    expect(stops).toEqual([])
  })

  it('C4.6 lease variables see only acquire, renew, release and delete; no lock ID and no path is used twice', async () => {
    world.sent = []
    const keeper = await world.replica()
    const hold = async (unit: string) => {
      const ask = { shared: 'many', unit, key: `key of ${unit}`, reason: 'test' }
      const answer = await keeper.acquire(ask, 600_000, here())
      if (answer.kind !== 'granted') throw new Error(JSON.stringify(answer))
      await keeper.renew(answer.hold.id, answer.lease, here())
      await keeper.release(answer.hold.id, answer.lease, 'done', here())
    }
    for (let round = 0; round < 20; round++)
      await world.soon(Promise.all(Array.from({ length: 50 }, (_, n) => hold(`${round}-${n}`))))
    await world.soon(keeper.stop())
    world.replicas.length = 0
    const ofLeases = world.sent.filter(({ path }) => path.startsWith('/v1/var/lockkeeper/leases/'))
    const acquires = ofLeases.filter(({ path }) => path.includes('lock-acquire'))
    const others = ofLeases.filter(({ method, path }) => method !== 'DELETE' && !/lock-(acquire|renew|release)/.test(path))
    expect(others).toEqual([])
    expect(acquires.length).toBeGreaterThanOrEqual(1_001)
    expect(new Set(acquires.map(({ path }) => path)).size).toBe(acquires.length)
    const ids = acquires.map(({ body }) => (JSON.parse(body) as { Lock: { ID: string } }).Lock.ID)
    expect(new Set(ids).size).toBe(ids.length)
    const sets = world.sent.filter(({ method, path }) => method === 'PUT' && path.includes('cas='))
    expect(sets.filter(({ body }) => 'Lock' in (JSON.parse(body) as object))).toEqual([])
    const left = (await world.soon(world.variables.list('lockkeeper/leases/'))).variables
    expect(left).toEqual([])
  })

  it('C4.7 a leader dies: no hold is lost, none is granted twice, and who renews after that keeps it', async () => {
    await world.withJob({ allocations: 5, maxParallel: 3 })
    const keeper = await world.replica()
    const allocations = await world.allocations()
    const asks = allocations.map((allocation) => ({ allocation, key: `key of ${allocation}`, reason: 'rotated' }))
    const granted = await Promise.all([0, 1, 2].map((n) => world.granted(keeper, asks[n] as (typeof asks)[0])))
    const waiting = keeper.acquire(asks[3] as (typeof asks)[0], 300_000, here())
    await world.clock.advance(5_000)
    world.nomad.leader.fail(3_600)
    await world.clock.advance(4_500)
    for (const { hold, lease } of granted) await world.soon(keeper.renew(hold.id, lease, here()))
    await world.clock.advance(12_000)
    const state = await world.state(group)
    expect(state.holds.map(({ id, token }) => [id, token])).toEqual(granted.map(({ hold }) => [hold.id, hold.token]))
    expect(state.holds.every(({ phase }) => phase === 'acting')).toBe(true)
    for (const { hold, lease } of granted) await world.soon(keeper.release(hold.id, lease, 'abandoned', here()))
    expect((await world.soon(waiting)).kind).toBe('granted')
    const first = granted[0] as (typeof granted)[0]
    expect((await problemOf(world.soon(keeper.renew(first.hold.id, first.lease, here())))).kind).toBe('unknown_hold')
  })

  it('C5.2 lock with work in flight, unlock without a burst', async () => {
    await world.withJob({ allocations: 6, meta: { lockkeeper_stagger: '10s' } })
    const keeper = await world.replica()
    const allocations = await world.allocations()
    const ask = (n: number) => ({ allocation: allocations[n] as string, key: `key of ${n}`, reason: 'rotated' })
    const first = await world.granted(keeper, ask(0))
    const grantedAt: number[] = []
    const order: number[] = []
    const waiters = [1, 2, 3, 4, 5].map(async (n) => {
      await world.clock.sleep(n * 400)
      for (;;) {
        const answer = await keeper.acquire(ask(n), 20_000, here())
        if (answer.kind !== 'granted') continue
        grantedAt.push(world.clock.now())
        order.push(n)
        await world.nomad.handle({ method: 'PUT', path: `/v1/client/allocation/${ask(n).allocation}/restart`, body: '{}' })
        return await keeper.release(answer.hold.id, answer.lease, 'done', here())
      }
    })
    await world.clock.advance(3_000)
    const level = { namespace: 'default', job: 'web' }
    await world.soon(lock(world.variables, keeper.paths, { level, reason: 'freeze', by: 'ann', until: null }, here()))
    await world.restart(first.hold.unit)
    await world.soon(keeper.release(first.hold.id, first.lease, 'done', here()))
    await world.clock.advance(600_000)
    expect(order).toEqual([])
    expect((await world.state(group)).holds).toEqual([])
    await world.soon(unlock(world.variables, keeper.paths, level, here()))
    await world.soon(Promise.all(waiters), 600_000)
    expect(order).toEqual([1, 2, 3, 4, 5])
    const gaps = grantedAt.slice(1).map((at, i) => at - (grantedAt[i] as number))
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(9_900)
    expect((await world.state(group)).grants - first.hold.token).toBe(5)
  })

  it('C6.3 a whole fleet asks: 200 allocations are restarted once each, never more than two at a time, although a replica is killed', async () => {
    await world.withJob({ allocations: 200, maxParallel: 2, healthyAfter: '0s', healthyDeadline: 120 })
    const doomed = await world.replica()
    await world.replica()
    const keepers = () => world.replicas
    const allocations = await world.allocations()
    const stops = new Map<string, number>()
    const down = new Set<string>()
    let most = 0
    world.nomad.observe(({ event, alloc }) => {
      if (event === 'stopping') {
        stops.set(alloc, (stops.get(alloc) ?? 0) + 1)
        down.add(alloc)
      }
      if (event === 'healthy') down.delete(alloc)
      most = Math.max(most, down.size)
    })
    const all = Promise.all(allocations.map((allocation, n) => restartInHold(keepers, allocation, n)))
    await world.clock.advance(60_000)
    await world.kill(doomed)
    const tokens = await world.soon(all, 3_600_000)
    expect(new Set(tokens).size).toBe(200)
    expect([...stops.values()].every((times) => times === 1) && stops.size).toBe(200)
    expect(most).toBeLessThanOrEqual(2)
  }, 120_000)

  it('C7.6 a job that is purged: its hold and its waiters are gone within a minute', async () => {
    await world.withJob({ allocations: 3 })
    const keeper = await world.replica()
    const [first, ...rest] = await world.allocations()
    const { hold, lease } = await world.granted(keeper, { allocation: first as string, key: 'a', reason: 'rotated' })
    await world.soon(keeper.release(hold.id, lease, 'done', here()))
    const waiters = rest.map((allocation) =>
      problemOf(keeper.acquire({ allocation, key: allocation, reason: 'r' }, 300_000, here())),
    )
    await world.clock.advance(2_000)
    await world.soon(world.nomad.handle({ method: 'DELETE', path: '/v1/job/web?purge=true' }))
    await world.clock.advance(60_000)
    expect((await world.soon(Promise.all(waiters))).map(({ kind }) => kind)).toEqual([
      'allocation_finished',
      'allocation_finished',
    ])
    expect((await world.state(group)).holds).toEqual([])
    expect((await world.soon(world.variables.list('lockkeeper/requests/'))).variables).toEqual([])
  })
})
