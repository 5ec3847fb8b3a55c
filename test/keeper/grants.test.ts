import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { lock, readLocks, unlock } from '../../src/keeper/operate.ts'
import type { Keeper } from '../../src/keeper/keeper.ts'
import { problemOf, World } from '../support/world.ts'

const here = () => new AbortController().signal
const shared = { shared: 'docker' }
const ask = (unit: string, key = `key of ${unit}`) => ({ ...shared, unit, key, reason: 'upgrade' })

let world: World
let keeper: Keeper
beforeEach(async () => {
  world = new World()
  keeper = await world.replica()
})
afterEach(() => world.close())

const lockAll = () => lock(world.variables, keeper.paths, { level: {}, reason: 'freeze', by: 'ann', until: null }, here())
const isGrant = (method: string, path: string) => method === 'PUT' && path.includes('/semaphores/')
const isLockList = (method: string, path: string) => method === 'GET' && path.includes('prefix=lockkeeper%2Flocks')

describe('handing out a grant', () => {
  it('G7: an operator lock that lands between the commit of a grant and its answer takes the grant back', async () => {
    world.before(isLockList, lockAll)
    const answer = await world.waits(keeper, ask('a'), 2_000)
    expect(answer.wait.kind).toBe('locked')
    expect(answer.wait.detail).toContain('ann')
    const state = await world.state(shared)
    expect(state.holds).toEqual([])
    expect(state.transitions.map(({ kind }) => kind)).toEqual(['granted', 'taken_back'])
  })

  it('after the lock is removed the same waiter is granted, with a higher token', async () => {
    world.before(isLockList, lockAll)
    const waiting = keeper.acquire(ask('a'), 60_000, here())
    await world.clock.advance(2_000)
    const before = (await world.state(shared)).grants
    await world.soon(unlock(world.variables, keeper.paths, {}, here()))
    const answer = await world.soon(waiting)
    expect(answer.kind === 'granted' && answer.hold.token).toBe(before + 1)
  })

  it('S2: a grant whose commit was answered by silence is found by its hold id and handed out once', async () => {
    world.nomad.faults.next((r) => isGrant(r.method, r.path), { kind: 'drop-answer' })
    const { hold } = await world.granted(keeper, ask('a'))
    const state = await world.state(shared)
    expect(state.holds.map(({ id, token }) => ({ id, token }))).toEqual([{ id: hold.id, token: hold.token }])
    expect(state.grants).toBe(hold.token)
  })

  it('S2: a grant that never reached Nomad is made anew', async () => {
    world.nomad.faults.next((r) => isGrant(r.method, r.path), { kind: 'drop' })
    const { hold } = await world.granted(keeper, ask('a'))
    expect((await world.state(shared)).holds.map(({ id }) => id)).toEqual([hold.id])
  })

  it('G8: an acquire whose answer was lost is never repeated at the same path', async () => {
    world.nomad.record(1_000)
    world.nomad.faults.next((r) => r.path.includes('lock-acquire') && r.path.includes('/leases/0'), { kind: 'drop-answer' })
    const { hold } = await world.granted(keeper, ask('a'))
    const acquired = world.nomad.calls.filter(({ path }) => path.includes('lock-acquire')).map(({ path }) => path)
    expect(new Set(acquired).size).toBe(acquired.length)
    expect(acquired.some((path) => path.includes(hold.lease.path))).toBe(true)
  })

  it('G5: a grant is taken back when its asker has gone', async () => {
    const gone = new AbortController()
    world.before(isLockList, async () => gone.abort())
    await world.soon(keeper.acquire(ask('a'), 60_000, gone.signal).catch(() => undefined))
    await world.clock.advance(500)
    expect((await world.state(shared)).transitions.map(({ kind }) => kind)).toEqual(['granted', 'taken_back'])
    await world.granted(keeper, ask('b'))
  })

  it('C4.10 G2: the same process that asks again gets the same hold, token and slot under a new lease, also at another replica', async () => {
    const other = await world.replica()
    const first = await world.granted(keeper, ask('a'))
    const again = await world.granted(other, ask('a'))
    const third = await world.granted(keeper, ask('a'))
    expect([again.hold.id, again.hold.token, again.hold.slot]).toEqual([first.hold.id, first.hold.token, first.hold.slot])
    expect(third.hold.id).toBe(first.hold.id)
    expect(new Set([first.lease, again.lease, third.lease]).size).toBe(3)
    expect((await world.state(shared)).holds).toHaveLength(1)
    expect((await problemOf(world.soon(keeper.renew(first.hold.id, first.lease, here())))).kind).toBe('not_holder')
    await world.soon(other.renew(first.hold.id, third.lease, here()))
  })

  it('G2: who asks again while the level is locked is told so and gets no lease', async () => {
    const first = await world.granted(keeper, ask('a'))
    await world.soon(lockAll())
    expect((await problemOf(world.soon(keeper.acquire(ask('a'), 1_000, here())))).kind).toBe('locked')
    expect((await world.state(shared)).holds.map(({ id }) => id)).toEqual([first.hold.id])
  })

  it('G1: another process of the same unit waits until the old hold is over', async () => {
    const first = await world.granted(keeper, ask('a', 'old process'))
    const waiting = await world.waits(keeper, ask('a', 'new process'))
    expect(waiting.wait.kind).toBe('full')
    await world.soon(keeper.release(first.hold.id, first.lease, 'done', here()))
    const second = await world.granted(keeper, ask('a', 'new process'))
    expect(second.hold.token).toBe(first.hold.token + 1)
  })
})

describe('releasing', () => {
  it('E1: a late duplicate of an old release does not free the new hold of the same unit', async () => {
    const first = await world.granted(keeper, ask('a', 'one'))
    await world.soon(keeper.release(first.hold.id, first.lease, 'done', here()))
    const second = await world.granted(keeper, ask('a', 'two'))
    expect((await problemOf(world.soon(keeper.release(first.hold.id, first.lease, 'done', here())))).kind).toBe('unknown_hold')
    expect((await problemOf(world.soon(keeper.release(second.hold.id, first.lease, 'done', here())))).kind).toBe('not_holder')
    expect((await world.state(shared)).holds.map(({ id }) => id)).toEqual([second.hold.id])
  })

  it('a release whose commit was answered by silence is done once', async () => {
    const first = await world.granted(keeper, ask('a'))
    world.nomad.faults.next((r) => isGrant(r.method, r.path), { kind: 'drop-answer' })
    expect(await world.soon(keeper.release(first.hold.id, first.lease, 'done', here()))).toEqual({ phase: 'over' })
    expect((await world.state(shared)).holds).toEqual([])
  })

  it('C4.2 a shared semaphore is free again when its holder is gone for twice its time to live, not before', async () => {
    const first = await world.granted(keeper, ask('a'))
    const waiting = keeper.acquire(ask('b'), 120_000, here())
    await world.clock.advance(29_000)
    expect((await world.state(shared)).holds.map(({ id }) => id)).toEqual([first.hold.id])
    const second = await world.soon(waiting)
    expect(second.kind).toBe('granted')
    expect((await problemOf(world.soon(keeper.renew(first.hold.id, first.lease, here())))).kind).toBe('unknown_hold')
  })

  it('lease variables that are over are removed, also those of actors that died', async () => {
    await world.granted(keeper, ask('a'))
    await world.clock.advance(150_000)
    const left = (await world.soon(world.variables.list('lockkeeper/leases/'))).variables.map(({ path }) => path)
    expect(left.filter((path) => !path.includes('/replicas/'))).toEqual([])
    expect(left).toHaveLength(1)
  })
})

describe('operator locks', () => {
  it('C5.3 locks of different levels are independent, and the answer names the one that is left', async () => {
    const one = { level: { shared: '' }, reason: 'upgrade of Nomad', by: 'A', until: null }
    const two = { level: shared, reason: 'automation', by: 'B', until: null }
    await world.soon(lock(world.variables, keeper.paths, one, here()))
    await world.soon(lock(world.variables, keeper.paths, two, here()))
    await world.soon(unlock(world.variables, keeper.paths, shared, here()))
    await world.clock.advance(1_000)
    const { wait } = await world.waits(keeper, ask('a'))
    expect(wait).toEqual({ kind: 'locked', detail: 'all shared semaphores is locked by A: upgrade of Nomad' })
  })

  it('C5.1 a lock with an end outlives every replica and ends by itself at its time', async () => {
    const until = world.clock.wall() + 7_200_000
    await world.soon(lock(world.variables, keeper.paths, { level: {}, reason: 'audit', by: 'ann', until }, here()))
    await world.clock.advance(3_600_000)
    await world.soon(keeper.stop())
    const fresh = await world.replica()
    expect((await world.soon(readLocks(world.variables, fresh.paths, here())))[0]).toMatchObject({
      reason: 'audit',
      by: 'ann',
      until,
    })
    expect((await world.waits(fresh, ask('a'))).wait.kind).toBe('locked')
    await world.clock.advance(3_600_000)
    await world.granted(fresh, ask('a'))
    expect(await world.soon(readLocks(world.variables, fresh.paths, here()))).toEqual([])
  })

  it('C5.4 any variable at the locks path that was written while no replica ran shuts everything until it is removed', async () => {
    await world.soon(keeper.stop())
    await world.soon(world.variables.put('lockkeeper/locks', { note: 'hands off' }, 0))
    const fresh = await world.replica()
    expect((await world.waits(fresh, ask('a'), 3_000)).wait).toMatchObject({
      kind: 'locked',
      detail: expect.stringContaining('note=hands off'),
    })
    const waiting = fresh.acquire(ask('a'), 60_000, here())
    await world.clock.advance(1_000)
    const { variable } = await world.soon(world.variables.get('lockkeeper/locks'))
    await world.soon(world.variables.remove('lockkeeper/locks', variable?.modifyIndex ?? 0))
    const at = world.clock.now()
    expect((await world.soon(waiting)).kind).toBe('granted')
    expect(world.clock.now() - at).toBeLessThan(5_000)
  })

  it('S3: lock answers with the hold that was granted before it; nothing is granted after it', async () => {
    const first = await world.granted(keeper, ask('a'))
    const inFlight = await world.soon(lockAll())
    expect(inFlight.map(({ hold }) => hold.id)).toEqual([first.hold.id])
    const second = keeper.acquire(ask('b'), 30_000, here())
    await world.soon(keeper.release(first.hold.id, first.lease, 'done', here()))
    const answer = await world.soon(second)
    expect(answer.kind === 'waiting' && answer.wait.kind).toBe('locked')
  })

  it('S4: a second lock on a level is refused and names the first', async () => {
    await world.soon(lockAll())
    const problem = await problemOf(world.soon(lockAll()))
    expect([problem.kind, problem.message]).toEqual(['conflict', 'everything is locked by ann: freeze; unlock it first'])
    expect((await problemOf(world.soon(unlock(world.variables, keeper.paths, { namespace: 'x' }, here())))).kind).toBe(
      'unknown_lock',
    )
  })
})
