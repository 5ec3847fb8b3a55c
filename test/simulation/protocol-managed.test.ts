// What happens without each rule of the protocol about acting for somebody (M): the shortest trace to a broken promise, which the rule
// must stop.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { State } from '../../src/core/state.ts'
import { NomadFault } from '../../src/core/nomad-fault.ts'
import { actOn } from '../../src/keeper/act.ts'
import type { Keeper } from '../../src/keeper/keeper.ts'
import type { Lease } from '../../src/keeper/lease.ts'
import { lock, unlock } from '../../src/keeper/operate.ts'
import type { Actions } from '../../src/keeper/ports.ts'
import type { RequestInput, RequestSeen } from '../../src/keeper/requests.ts'
import { jobOfDev, World } from '../support/world.ts'

const here = () => new AbortController().signal
const isStateWrite = (method: string, path: string) => method === 'PUT' && path.includes('/semaphores/')
const isLockList = (method: string, path: string) => method === 'GET' && path.includes('prefix=lockkeeper%2Flocks')
const isRestart = (method: string, path: string) => method === 'PUT' && path.includes('/restart')
const isSignal = (method: string, path: string) => method === 'PUT' && path.includes('/signal')

let world: World
let keeper: Keeper
let ids: string[]
/** Of each allocation, how often its task was told to end. */
let stops: string[]

beforeEach(async () => {
  world = await new World().withJob({ allocations: 3 })
  keeper = await world.replica()
  ids = await world.allocations()
  world.sent = []
  stops = []
  world.nomad.observe(({ alloc, event }) => {
    if (event === 'stopping') stops.push(alloc)
  })
})
afterEach(() => world.close())

const ask = (more: Partial<RequestInput> = {}, by = keeper) =>
  by.requests.put({ allocation: ids[0] as string, reason: 'new certificate', ...more }, here())
async function stored(more: Partial<RequestInput> = {}, by = keeper): Promise<RequestSeen> {
  const answer = await world.soon(ask(more, by))
  if (answer.kind !== 'stored') throw new Error('it is satisfied')
  return answer.request
}
const calls = (matches: (method: string, path: string) => boolean) =>
  (world.sent ?? []).filter(({ method, path }) => matches(method, path))
const kinds = async () => ((await world.state()) as State | null)?.transitions.map(({ kind }) => kind) ?? []
const phase = async () => ((await world.state()) as State | null)?.holds[0]?.phase
const requests = async () => (await world.soon(world.variables.list('lockkeeper/requests/'))).variables
const isOver = async () => (await requests()).length === 0 && (await phase()) === undefined
const lockAll = () => lock(world.variables, keeper.paths, { level: {}, reason: 'freeze', by: 'ann', until: null }, here())
const unlockAll = () => unlock(world.variables, keeper.paths, {}, here())
const restartNow = (unit: string) =>
  world.nomad.handle({ method: 'PUT', path: `/v1/client/allocation/${unit}/restart`, body: '{}' })

/** One allocation of two tasks, `app` and `side`. */
async function givenTwoTasks(): Promise<void> {
  const job = jobOfDev({ allocations: 1 }, 'two') as unknown as { TaskGroups: { Name: string; Tasks: object[] }[] }
  const [group] = job.TaskGroups
  group?.Tasks.push({ ...group.Tasks[0], Name: 'side' })
  world.nomad.registerJob(job as never)
  await world.until(async () => (await world.allocations('two')).length === 1, 600_000)
  await world.until(async () => !(await world.cluster.deploying('default', 'two')), 600_000)
  ids = await world.allocations('two')
}

describe('M1', () => {
  const act = { unit: 'a', action: 'restart', tasks: [], running: [], signal: null, did: new Set<string>() } as const

  it('a call is over before the lease of its replica is', async () => {
    const lease = keeper.replica.lease as Lease
    world.nomad.faults.next(({ path }) => path.includes('lock-renew'), { kind: 'drop' }, 1_000)
    const sent: { bound: number; left: number }[] = []
    const restart: Actions['restart'] = async (_, __, bound) => {
      sent.push({ bound, left: lease.remainingMs() })
      return { kind: 'done' }
    }
    const actions = { restart } as unknown as Actions
    for (let n = 0; n < 16; n++) {
      const work = actOn(actions, keeper.replica, lease, act, world.clock, here())
      await world.clock.advance(1_000)
      if (lease.remainingMs() > 4_000) await work
      else void work.catch(() => undefined)
    }
    await world.clock.advance(20_000)
    expect(sent.length).toBeGreaterThan(5)
    expect(sent.filter(({ bound, left }) => bound >= left)).toEqual([])
    const count = sent.length
    expect((await world.soon(actOn(actions, keeper.replica, lease, act, world.clock, here()))).kind).toBe('unknown')
    expect(sent).toHaveLength(count)
    world.nomad.faults.clear()
  })

  it('all tries of a call end within its bound', async () => {
    const busy = { kind: 'answer', status: 429, body: 'Your IP is issuing too many concurrent connections' } as const
    world.nomad.faults.next(({ path }) => path.includes('/restart'), busy, 1_000)
    for (let n = 0; n < 10; n++) world.before(isRestart, () => world.clock.sleep(200))
    const { actions } = world.portsOf(keeper)
    const said = await world.soon(actions.restart(ids[0] as string, null, 300).catch((error: unknown) => error))
    expect(said).toBeInstanceOf(NomadFault)
    await world.clock.advance(5_000)
    expect(calls(isRestart)).toHaveLength(2)
    world.nomad.faults.clear()
  })

  it('a replica that shuts down begins no other call', async () => {
    const life = new AbortController()
    const done: string[] = []
    const signal: Actions['signal'] = async (_, task) => {
      done.push(task)
      life.abort(new Error('shutting down'))
      return { kind: 'done' }
    }
    const two = { ...act, action: 'signal', running: ['app', 'side'] } as const
    const lease = keeper.replica.lease as Lease
    const work = actOn({ signal } as unknown as Actions, keeper.replica, lease, two, world.clock, life.signal)
    await expect(world.soon(work)).rejects.toThrow('shutting down')
    expect(done).toEqual(['app'])
  })
})

describe('M2', () => {
  it('a call whose connection broke may be executed yet: it is waited out', async () => {
    world.before(isRestart, async () => {
      void world.clock.sleep(6_000).then(() => restartNow(ids[0] as string))
      throw new Error('the connection broke')
    })
    await stored()
    await world.until(isOver, 600_000)
    expect(stops).toEqual([ids[0]])
  })

  it('a grant is not taken back when its act may have been executed', async () => {
    const node = (await world.soon(world.cluster.allocation(ids[0] as string)))?.nodeName as string
    // It restarts, its answer is lost, and its agent says nothing any more: the servers show it as it was.
    world.before(isRestart, async () => {
      world.nomad.setTask(ids[0] as string, { healthy: false })
      await restartNow(ids[0] as string)
      world.nomad.node(node).silence()
      throw new Error('the connection broke')
    })
    const { id } = await stored()
    await world.until(async () => calls(isRestart).length === 1)
    await world.soon(keeper.requests.cancel(id, world.variables, here()))
    await world.clock.advance(30_000)
    expect(await phase()).toBe('observing')
    world.nomad.node(node).speak()
    await world.clock.advance(20_000)
    expect(await kinds()).not.toContain('taken_back')
    expect(await kinds()).not.toContain('unchanged')
  })
})

describe('M3', () => {
  /** Its replica is gone right before it acts; another one is there. */
  async function givenActorDies(): Promise<void> {
    const other = await world.replica()
    const actor = () =>
      [keeper, other].flatMap(({ registry }) =>
        registry.all().flatMap(({ state }) => state?.holds.map((hold) => hold.actor) ?? []),
      )[0]
    world.before(isRestart, async () => {
      const dead = [keeper, other].find(({ replica }) => replica.name === actor()) as Keeper
      keeper = dead === keeper ? other : keeper
      void world.kill(dead)
    })
    await stored({}, other)
    await world.until(async () => world.replicas.length === 1)
  }

  it('a take-over is a grant anew: with a higher token', async () => {
    await givenActorDies()
    const first = (await world.state()).holds[0]?.token as number
    await world.until(async () => (await kinds()).includes('taken_over'), 600_000)
    expect((await world.state()).holds[0]?.token).toBeGreaterThan(first)
  })

  it('… and past an operator lock it acts no more', async () => {
    await givenActorDies()
    await world.clock.advance(1_000)
    world.before(isStateWrite, lockAll)
    await world.until(async () => (await kinds()).includes('taken_over'), 600_000)
    world.sent = []
    await world.clock.advance(60_000)
    expect(calls(isRestart)).toEqual([])
    expect(await phase()).toBeUndefined()
    expect(await requests()).toHaveLength(1)
    await world.soon(unlockAll())
    await world.until(isOver, 600_000)
    expect(stops).toEqual([ids[0]])
  })
})

describe('M5', () => {
  it('first the request, then the slot', async () => {
    const left: number[] = []
    const isSettled = (body: string) =>
      (JSON.parse(body) as { Items: { state: string } }).Items.state.includes('"kind":"healthy"')
    await stored()
    await world.until(async () => (await phase()) === 'observing')
    for (let n = 0; n < 50; n++) {
      world.before(isStateWrite, async () => {
        const body = world.sent?.findLast(({ method, path }) => isStateWrite(method, path))?.body ?? ''
        if (isSettled(body)) left.push((await world.variables.list('lockkeeper/requests/')).variables.length)
      })
    }
    await world.until(isOver, 600_000)
    expect(left).toEqual([0])
  })

  it('a newer request is not removed with the one that was acted on', async () => {
    await stored()
    await world.until(async () => (await phase()) === 'observing')
    const isRemoval = (method: string, path: string) => method === 'DELETE' && path.includes('/requests/')
    world.before(isRemoval, () => ask({ since: world.clock.wall() + 3_600_000 }))
    await world.until(async () => (await kinds()).includes('healthy'), 600_000)
    expect(await requests()).toHaveLength(1)
    await world.until(async () => stops.length === 2, 600_000)
  })
})

describe('M6', () => {
  it('what is asked again while it is acted on is done by another act, also where it adds nothing', async () => {
    await stored({ action: 'signal' })
    await world.until(async () => (await phase()) === 'observing')
    for (let n = 0; n < 10; n++) await stored({ action: 'signal' })
    await world.until(isOver, 600_000)
    expect(calls(isSignal)).toHaveLength(2)
  })

  it('… as when an earlier hold of the unit was taken back', async () => {
    world.before(isLockList, async () => {
      await lockAll()
      // The unit is held, so a restart is owed to who asks now; it never comes.
      await ask()
    })
    await stored()
    await world.until(async () => (await kinds()).includes('taken_back'))
    await world.soon(unlockAll())
    await world.until(async () => (await phase()) === 'observing')
    await world.clock.advance(3_000)
    await stored()
    await world.until(isOver, 600_000)
    expect(stops).toEqual([ids[0], ids[0]])
  })

  it('… as when the act has begun that read it last, and is not noted yet', async () => {
    const other = await world.replica()
    // Between the grant and the act: the hold names the request as it was before.
    world.before(isLockList, () => ask({ action: 'signal', priority: 1 }))
    const isNoted = (request: { method: string; path: string; body?: string }) =>
      isStateWrite(request.method, request.path) && request.body?.includes('observing') === true
    world.nomad.faults.next(isNoted, { kind: 'delay', ms: 3_000 })
    await stored({ action: 'signal' })
    await world.until(async () => calls(isSignal).length === 1)
    await world.clock.advance(500)
    const [hold] = (await world.state()).holds
    expect(hold?.phase).toBe('acting')
    await stored({ action: 'signal' }, keeper.replica.name === hold?.actor ? other : keeper)
    await world.until(isOver, 600_000)
    expect(calls(isSignal)).toHaveLength(2)
  })

  it('… as when what is asked for looks older, because the clock of its node was set back', async () => {
    await world.clock.advance(60_000)
    const since = world.clock.wall()
    await stored({ action: 'signal', since })
    await world.until(async () => (await phase()) === 'observing')
    await stored({ action: 'signal', since })
    await stored({ action: 'signal', since: since - 1_000 })
    await world.until(isOver, 600_000)
    expect(calls(isSignal)).toHaveLength(2)
  })

  it('of two tasks one that was restarted by others before it was asked for again is restarted again', async () => {
    await givenTwoTasks()
    await world.soon(lockAll())
    await stored({ task: 'app' })
    await stored({ task: 'side' })
    const started: string[] = []
    world.nomad.observe(({ task, event }) => void (event === 'starting' && started.push(task)))
    let granted = false
    world.before(isStateWrite, async () => void (granted = true))
    world.before(
      (_, path) => granted && path.includes('/allocations'),
      async () => {
        await world.nomad.handle({
          method: 'PUT',
          path: `/v1/client/allocation/${ids[0]}/restart`,
          body: JSON.stringify({ TaskName: 'app' }),
        })
        await world.clock.sleep(10_000)
      },
    )
    world.before(
      (method, path) => granted && isLockList(method, path),
      () => ask({ task: 'app' }),
    )
    await world.soon(unlockAll())
    await world.until(isOver, 600_000)
    expect(started.filter((task) => task === 'app')).toHaveLength(2)
  })

  it('a start before a request does not do it, though the look that it was granted on is older', async () => {
    // The servers have not heard of the restart when it is granted, and the grant is long under way.
    await world.restart(ids[0] as string)
    await world.clock.advance(200)
    world.nomad.faults.next(({ method, path }) => isStateWrite(method, path), { kind: 'delay', ms: 2_500 })
    await stored({ since: world.clock.wall() })
    await world.until(isOver, 600_000)
    expect(stops).toEqual([ids[0], ids[0]])
  })
})

describe('M7', () => {
  it('a signal without an answer is sent again', async () => {
    world.nomad.faults.next(({ method, path }) => isSignal(method, path), { kind: 'drop-answer' })
    await stored({ action: 'signal' })
    await world.until(isOver, 600_000)
    expect(calls(isSignal)).toHaveLength(2)
  })

  it('one that was never delivered is not done by its hold', async () => {
    const refused = { kind: 'answer', status: 500, body: 'No path to node' } as const
    world.nomad.faults.next(({ method, path }) => isSignal(method, path), refused, 1_000)
    await stored({ action: 'signal' })
    await world.until(async () => (await kinds()).includes('overdue'), 600_000)
    await world.until(async () => (await kinds()).includes('healthy'), 600_000)
    expect(await requests()).toHaveLength(1)
    world.nomad.faults.clear()
    world.sent = []
    await world.until(isOver, 600_000)
    expect(calls(isSignal).length).toBeGreaterThan(0)
  })

  const signalled = () => calls(isSignal).map(({ body }) => (JSON.parse(body) as { Task: string }).Task)

  it('of two tasks that one is signalled again which had no answer', async () => {
    await givenTwoTasks()
    world.nomad.faults.next(({ body }) => body?.includes('"side"') === true, { kind: 'drop-answer' })
    await stored({ action: 'signal' })
    await world.until(async () => (await requests()).length === 0, 600_000)
    expect(signalled()).toEqual(['app', 'side', 'side'])
  })

  it('… and both when it was asked for again in between', async () => {
    await givenTwoTasks()
    world.nomad.faults.next(({ body }) => body?.includes('"side"') === true, { kind: 'drop-answer' })
    await stored({ action: 'signal' })
    await world.until(async () => calls(isSignal).length === 2)
    await stored({ action: 'signal' })
    await world.until(async () => (await requests()).length === 0, 600_000)
    expect(signalled()).toEqual(['app', 'side', 'app', 'side'])
  })
})
