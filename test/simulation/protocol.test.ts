// What happens without each rule of the protocol, as a test of its own: the shortest trace to a broken promise, which the rule must stop.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { settle } from '../../src/core/semaphore.ts'
import type { JobSpec } from '../../src/devnomad/devnomad.ts'
import type { Keeper } from '../../src/keeper/keeper.ts'
import { endLostLeases } from '../../src/keeper/observer.ts'
import { lock, readSemaphores, releaseByForce, unlock } from '../../src/keeper/operate.ts'
import { acquire } from '../../src/shim/acquire.ts'
import type { Hold as ShimHold } from '../../src/shim/hold.ts'
import type { Service } from '../../src/shim/service.ts'
import { policyOf } from '../support/builders.ts'
import { jobOfDev, problemOf, World, type Granted } from '../support/world.ts'

const here = () => new AbortController().signal
const shared = { shared: 'docker' }
const group = { namespace: 'default', job: 'web', group: 'api' }
const ask = (unit: string, key = `key of ${unit}`) => ({ ...shared, unit, key, reason: 'upgrade' })
const isStateWrite = (method: string, path: string) => method === 'PUT' && path.includes('/semaphores/')
const isLockList = (method: string, path: string) => method === 'GET' && path.includes('prefix=lockkeeper%2Flocks')

let world: World
let keeper: Keeper
let allocations: string[] = []
beforeEach(() => void (world = new World()))
afterEach(() => world.close())

const lockAll = () => lock(world.variables, keeper.paths, { level: {}, reason: 'freeze', by: 'ann', until: null }, here())
const unlockAll = () => unlock(world.variables, keeper.paths, {}, here())
const kinds = async (scope: object) => (await world.state(scope)).transitions.map(({ kind }) => kind)
const released = ({ hold, lease }: Granted, outcome: 'done' | 'abandoned' = 'done') =>
  world.soon(keeper.release(hold.id, lease, outcome, here()))
const unit = (n: number, key = `key of ${n}`) => ({ allocation: allocations[n] as string, key, reason: 'rotated' })
const givenJob = async (options: Parameters<World['withJob']>[0]) => {
  await world.withJob(options)
  keeper = await world.replica()
  allocations = await world.allocations()
}

describe('handing out a grant', () => {
  beforeEach(async () => {
    keeper = await world.replica()
  })

  it('G1 the release of a process that died does not free the slot under its successor', async () => {
    const dead = await world.granted(keeper, ask('a', 'dead'))
    const successor = keeper.acquire(ask('a', 'successor'), 60_000, here())
    await world.clock.advance(1_000)
    await released(dead)
    const second = (await world.soon(successor)) as Granted
    expect(second.hold.id).not.toBe(dead.hold.id)
    await problemOf(released(dead))
    expect((await world.state(shared)).holds.map(({ id }) => id)).toEqual([second.hold.id])
  })

  it('G2 a grant that its replica takes back is not handed out by another one that has the same asker', async () => {
    const other = await world.replica()
    world.before(isLockList, lockAll)
    const asked = [keeper, other].map((one) =>
      one.acquire(ask('a', 'same'), 8_000, here()).then(
        ({ kind }) => kind,
        () => 'refused',
      ),
    )
    await world.clock.advance(20_000)
    expect(await world.soon(Promise.all(asked))).not.toContain('granted')
  })

  it('G2 a hold is left to its lease while an operator lock stands, however often its process asks', async () => {
    const { hold } = await world.granted(keeper, ask('a', 'same'))
    await world.soon(lockAll())
    await world.clock.advance(2_000)
    for (let n = 0; n < 5; n++) {
      const again = keeper.acquire(ask('a', 'same'), 1_000, here())
      await world.clock.advance(2_000)
      expect((await again).kind).toBe('waiting')
    }
    expect((await world.state(shared)).holds).toMatchObject([{ id: hold.id, adopted: 0 }])
  })

  it('G3 an undo that arrives late does not remove a hold that somebody was told', async () => {
    const other = await world.replica()
    world.before(isLockList, async () => {
      await lockAll()
      world.nomad.faults.next((request) => isStateWrite(request.method, request.path), { kind: 'delay', ms: 3_000 })
    })
    const gone = new AbortController()
    const first = keeper.acquire(ask('a', 'same'), 5_000, gone.signal).catch(() => undefined)
    await world.clock.advance(500)
    gone.abort()
    await world.soon(unlockAll())
    const told = await world.granted(other, ask('a', 'same'), 2_400)
    await world.clock.advance(10_000)
    await world.soon(first)
    expect((await world.state(shared)).holds.map(({ id }) => id)).toEqual([told.hold.id])
    await world.soon(other.renew(told.hold.id, told.lease, here()))
  })

  /** The shim asks a service of which the first answer is so long under way. */
  async function acquiredLate(ms: number, meanwhile: () => Promise<unknown>): Promise<ShimHold> {
    let lateMs = ms
    const service: Service = {
      async ask(_, key, waitMs, signal) {
        const answer = (await keeper.acquire(ask('a', key), waitMs + 30_000, signal)) as Granted
        if (lateMs > 0) await meanwhile()
        await world.clock.sleep(lateMs)
        lateMs = 0
        const { hold, lease } = answer
        const times = { ttlMs: 15_000, renewEveryMs: 5_000 }
        return { kind: 'granted', grant: { hold: hold.id, lease, token: hold.token, slot: hold.slot, scope: '', ...times } }
      },
      renew: async (hold, lease, _, signal) => void (await keeper.renew(hold, lease, signal)),
      release: async (hold, lease, outcome, signal) => void (await keeper.release(hold, lease, outcome, signal)),
    }
    const shim = { service, clock: world.clock, random: () => 0.5, tell: () => undefined, newId: world.newId }
    const patience = { since: world.clock.now(), ms: 600_000 }
    return await world.soon(acquire(shim, { ...shared, unit: 'a', reason: 'upgrade' }, patience, here()), 600_000)
  }

  it.each([
    ['that was minutes under way', 120_000, 'lease_lost'],
    ['whose hold has ended meanwhile', 1_000, 'forced_release'],
  ] as const)('G4 an answer %s is not acted upon', async (_, ms, ended) => {
    const endIt = async () => {
      const id = (await readSemaphores(world.variables, keeper.paths, {}, 0, here())).flatMap(({ state }) =>
        'unreadable' in state ? [] : state.holds.map((held) => held.id),
      )[0] as string
      await releaseByForce(world.variables, keeper.paths, id, 'it hangs', () => world.clock.wall(), here())
    }
    const hold = await acquiredLate(ms, ended === 'forced_release' ? endIt : async () => undefined)
    const state = await world.state(shared)
    expect(state.holds.map(({ id, token }) => [id, token])).toEqual([[hold.id, hold.token]])
    expect(state.transitions.map(({ kind }) => kind)).toEqual(['granted', ended, 'granted'])
    expect(hold.valid()).toBe(true)
    await world.soon(hold.release('done'))
  })

  it('G5 no slot waits for an asker that has gone', async () => {
    const gone = new AbortController()
    world.before(isStateWrite, async () => gone.abort())
    const asked = keeper.acquire(ask('a'), 60_000, gone.signal).catch(() => undefined)
    await world.clock.advance(2_000)
    await world.soon(asked)
    expect((await world.state(shared)).holds).toEqual([])
    await world.granted(keeper, ask('b'), 1_000)
  })

  it('G7 an operator lock is seen after each commit that lets somebody act: a grant', async () => {
    world.before(isLockList, lockAll)
    expect((await world.waits(keeper, ask('a'), 2_000)).wait.kind).toBe('locked')
    expect((await world.state(shared)).holds).toEqual([])
  })

  it('G7 … an adoption', async () => {
    await world.granted(keeper, ask('a'))
    world.before(isLockList, lockAll)
    expect((await problemOf(world.soon(keeper.acquire(ask('a'), 2_000, here())))).kind).toBe('locked')
  })

  it('G7 … and an empty list without the sentinel is no right to go', async () => {
    const { variable } = await world.soon(world.variables.get(keeper.paths.sentinel))
    world.before(isLockList, async () => await world.variables.remove(keeper.paths.sentinel, variable?.modifyIndex ?? 0))
    await world.waits(keeper, ask('a'), 2_000)
    expect((await world.state(shared)).holds).toEqual([])
  })

  it('G8 a lease whose acquire had no answer is not made again at its path', async () => {
    world.nomad.record(1_000)
    world.nomad.faults.next(({ path }) => path.includes('lock-acquire') && !path.includes('/replicas/'), { kind: 'drop-answer' })
    const { hold, lease } = await world.granted(keeper, ask('a'))
    const paths = world.nomad.calls.map(({ path }) => path).filter((path) => path.includes('lock-acquire'))
    expect(new Set(paths).size).toBe(paths.length)
    for (let n = 0; n < 12; n++) {
      await world.clock.advance(5_000)
      await world.soon(keeper.renew(hold.id, lease, here()))
    }
    expect((await world.state(shared)).holds[0]?.phase).toBe('acting')
  })
})

describe('G6', () => {
  it('a unit that crashed between the look and the commit uses the budget up', async () => {
    await givenJob({ allocations: 3 })
    const other = allocations[1] as string
    world.before(isStateWrite, async () => {
      world.nomad.setTask(other, { exit_after: '0s', exit_code: 1 })
      world.nomad.crash(other)
      await world.clock.sleep(3_000)
    })
    expect((await world.waits(keeper, unit(0), 6_000)).wait.kind).toBe('full')
    expect(await kinds(group)).toContain('taken_back')
    expect((await world.state(group)).holds).toEqual([])
  })
})

describe('ending a hold', () => {
  it('E1 a late duplicate of an old release does not free the new hold of the same unit', async () => {
    keeper = await world.replica()
    const first = await world.granted(keeper, ask('a', 'one'))
    await released(first)
    const second = await world.granted(keeper, ask('a', 'two'))
    await problemOf(released(first))
    await problemOf(world.soon(keeper.release(second.hold.id, first.lease, 'done', here())))
    expect((await world.state(shared)).holds.map(({ id }) => id)).toEqual([second.hold.id])
  })

  it('E2 a list that is older than a lease does not say that it is lost', async () => {
    keeper = await world.replica()
    const { hold } = await world.granted(keeper, ask('a'))
    const semaphore = keeper.registry.ensure(shared)
    const seen = (index: number) =>
      world.soon(endLostLeases(semaphore, { index, at: world.clock.now(), entries: new Map() }, { count: () => undefined }))
    await seen(hold.lease.index - 1)
    expect((await world.state(shared)).holds).toHaveLength(1)
    await seen(hold.lease.index)
    expect((await world.state(shared)).holds).toHaveLength(0)
  })

  it('E3 an actor that began to act before it gave up frees nothing', async () => {
    await givenJob({ allocations: 2 })
    const first = await world.granted(keeper, unit(0))
    world.nomad.setTask(first.hold.unit, { healthy: false })
    await world.restart(first.hold.unit)
    await world.clock.advance(1_100)
    await released(first, 'abandoned')
    await world.waits(keeper, unit(1), 20_000)
    expect((await world.state(group)).holds[0]?.phase).toBe('observing')
  })

  it('E4 a unit that still looks healthy, because its act is not to be seen yet, is not', async () => {
    await givenJob({ allocations: 2, minHealthyTime: 0, healthyAfter: '5s' })
    const first = await world.granted(keeper, unit(0))
    let healthyAt = Infinity
    world.nomad.observe(({ alloc, event, at }) => {
      if (alloc === first.hold.unit && event === 'healthy') healthyAt = at
    })
    await released(first)
    await world.clock.advance(8_000)
    await world.restart(first.hold.unit)
    await world.granted(keeper, unit(1))
    expect(world.clock.now()).toBeGreaterThan(healthyAt)
  })

  it('E5 what was seen of one hold does not end another one', async () => {
    await givenJob({ allocations: 2 })
    const first = await world.granted(keeper, unit(0))
    await world.restart(first.hold.unit)
    await released(first)
    const observed = await world.state(group)
    const evidence = { id: first.hold.id, leasePath: 'another', verdict: 'healthy', reason: '', jobVersion: 0 } as const
    expect(settle(observed, evidence, policyOf(), 0)).toBe(observed)
    // Its judgement is under way while an operator ends the hold and the unit is held anew.
    world.nomad.faults.next(({ method, path }) => isStateWrite(method, path), { kind: 'delay', ms: 4_000 })
    await world.clock.advance(5_000)
    const wall = () => world.clock.wall()
    await world.soon(
      releaseByForce(world.variables, keeper.paths, first.hold.id, 'it hangs', wall, here()).catch(() => undefined),
    )
    const second = await world.granted(keeper, unit(0, 'again'))
    await world.clock.advance(4_000)
    expect((await world.state(group)).holds.map(({ id, phase }) => [id, phase])).toEqual([[second.hold.id, 'acting']])
  })

  it('E6 while the agent of its node says nothing, an old healthy view ends nothing', async () => {
    await givenJob({ allocations: 2 })
    const first = await world.granted(keeper, unit(0))
    const node = (await world.soon(world.cluster.allocation(first.hold.unit)))?.nodeName as string
    world.nomad.node(node).silence()
    await world.waits(keeper, unit(1), 55_000)
    expect((await world.state(group)).holds[0]?.phase).toBe('observing')
    world.nomad.node(node).speak()
    await world.granted(keeper, unit(1))
  })

  it('E7 the result of a check from before the restart proves nothing', async () => {
    const job = JSON.parse(JSON.stringify(jobOfDev({ allocations: 2, minHealthyTime: 0 }))) as {
      TaskGroups: { Services: { Checks: { Interval: number }[] }[] }[]
    }
    const check = job.TaskGroups[0]?.Services[0]?.Checks[0] as { Interval: number }
    check.Interval = 30e9
    world.nomad.registerJob(job as unknown as JobSpec)
    keeper = await world.replica()
    await world.until(async () => (await world.allocations()).length === 2)
    await world.until(async () => !(await world.cluster.deploying('default', 'web')), 200_000)
    allocations = await world.allocations()
    const first = await world.granted(keeper, unit(0))
    world.nomad.setTask(first.hold.unit, { healthy: false })
    await world.restart(first.hold.unit)
    await released(first)
    await world.clock.advance(40_000)
    expect((await world.state(group)).holds[0]?.phase).toBe('observing')
  })
})

describe('state', () => {
  beforeEach(async () => {
    keeper = await world.replica()
  })

  it('S1 tokens go on rising when the state was deleted, and when a grant was taken back', async () => {
    const first = await world.granted(keeper, ask('a'))
    await released(first)
    const path = keeper.paths.semaphore(shared)
    const { variable } = await world.soon(world.variables.get(path))
    await world.soon(world.variables.remove(path, variable?.modifyIndex ?? 0))
    const second = await world.granted(keeper, ask('b'))
    expect(second.hold.token).toBeGreaterThan(first.hold.token)
    await released(second)
    world.before(isLockList, lockAll)
    await world.waits(keeper, ask('c'), 2_000)
    await world.soon(unlockAll())
    const third = await world.granted(keeper, ask('c'))
    expect(third.hold.token).toBeGreaterThan(second.hold.token + 1)
  })

  it.each(['drop', 'drop-answer'] as const)('S2 a grant whose commit met a %s is made once and told once', async (kind) => {
    world.nomad.faults.next(({ method, path }) => isStateWrite(method, path), { kind })
    const { hold } = await world.granted(keeper, ask('a'))
    const state = await world.state(shared)
    expect(state.holds.map(({ id }) => id)).toEqual([hold.id])
    expect(state.grants).toBe(hold.token)
    expect(state.transitions.map(({ kind: what }) => what)).toEqual(['granted'])
  })

  it('S3 who locks is told of the grants that may still reach their askers', async () => {
    const first = await world.granted(keeper, ask('a'))
    expect((await world.soon(lockAll())).map(({ hold }) => hold.id)).toEqual([first.hold.id])
  })

  it('S4 neither a second lock nor a late unlock touches the lock of somebody else', async () => {
    await world.soon(lockAll())
    expect((await problemOf(world.soon(lockAll()))).kind).toBe('conflict')
    const isUnlock = (method: string, path: string) => method === 'DELETE' && path.includes('/locks')
    world.before(isUnlock, async () => {
      await unlockAll()
      await lockAll()
    })
    expect((await problemOf(world.soon(unlockAll()))).kind).toBe('conflict')
    expect((await world.waits(keeper, ask('a'))).wait.kind).toBe('locked')
  })
})
