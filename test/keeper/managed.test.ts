import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Hold, State } from '../../src/core/state.ts'
import { lock, unlock } from '../../src/keeper/operate.ts'
import type { Keeper } from '../../src/keeper/keeper.ts'
import type { RequestInput, RequestSeen } from '../../src/keeper/requests.ts'
import { jobOfDev, problemOf, World } from '../support/world.ts'

const here = () => new AbortController().signal
const scope = { namespace: 'default', job: 'web', group: 'api' }

let world: World
let keeper: Keeper
let ids: string[]

async function given(allocations = 3): Promise<void> {
  world = await new World().withJob({ allocations })
  keeper = await world.replica()
  ids = await world.allocations()
  world.sent = []
}
beforeEach(() => given())
afterEach(() => world.close())

const put = (n: number, more: Partial<RequestInput> = {}, by = keeper) =>
  world.soon(by.requests.put({ allocation: ids[n] as string, reason: 'new certificate', ...more }, here()))
async function stored(n: number, more: Partial<RequestInput> = {}, by = keeper): Promise<RequestSeen> {
  const answer = await put(n, more, by)
  if (answer.kind !== 'stored') throw new Error('it is satisfied')
  return answer.request
}
const seen = (id: string, by = keeper) => world.soon(by.requests.get(id, 0, here()))
const ended = (id: string, by = keeper) =>
  world.until(async () => !['waiting', 'acting', 'observing'].includes((await seen(id, by)).state), 600_000)
const restarts = () => (world.sent ?? []).filter(({ path }) => path.includes('/restart')).map(({ path }) => path.split('/')[4])
const requests = async () => (await world.soon(world.variables.list('lockkeeper/requests/'))).variables
const isRestart = (method: string, path: string) => method === 'PUT' && path.includes('/restart')
const startOf = async (n: number) =>
  (await world.soon(world.cluster.allocation(ids[n] as string)))?.tasks['app']?.startedAt as number
const kinds = async () => ((await world.state()) as State | null)?.transitions.map(({ kind }) => kind) ?? []
const holds = async () => ((await world.state()) as State | null)?.holds.length ?? 0

describe('a managed request', () => {
  it('is acted on, watched until it is healthy, and over', async () => {
    const { id, state } = await stored(0)
    expect(state).toBe('waiting')
    await ended(id)
    expect(await seen(id)).toMatchObject({ state: 'done', unit: ids[0] })
    expect(restarts()).toEqual([ids[0]])
    expect(await requests()).toEqual([])
    expect(await kinds()).toEqual(['granted', 'released', 'healthy'])
  })

  it('of each allocation goes one after another, each restarted once', async () => {
    const all = await Promise.all([0, 1, 2].map((n) => stored(n)))
    let held = 0
    await world.until(async () => {
      held = Math.max(held, await holds())
      return (await requests()).length === 0 && (await holds()) === 0
    }, 600_000)
    expect(held).toBe(1)
    expect(restarts()).toHaveLength(ids.length)
    expect(new Set(restarts())).toEqual(new Set(ids))
    for (const { id } of all) expect((await seen(id)).state).toBe('done')
  })

  it('C3.14 asked again meanwhile is the same one, at the same place', async () => {
    await world.soon(lock(world.variables, keeper.paths, { level: {}, reason: 'freeze', by: 'ann', until: null }, here()))
    const first = await stored(0)
    const other = await stored(1)
    await world.clock.advance(500)
    const again = await stored(0, { reason: 'once more' })
    expect(again.id).toBe(first.id)
    expect(again).toMatchObject({ position: 1, wait: { kind: 'locked' } })
    expect(other).toMatchObject({ position: 2 })
    expect(await requests()).toHaveLength(2)
  })

  it('C3.10 asked for a hundred times writes once', async () => {
    await world.soon(lock(world.variables, keeper.paths, { level: {}, reason: 'freeze', by: 'ann', until: null }, here()))
    for (let nth = 0; nth < 100; nth++) await stored(0)
    const writes = (world.sent ?? []).filter(({ method, path }) => method === 'PUT' && path.includes('/requests/'))
    expect(writes).toHaveLength(1)
  })

  it('merges: the strongest action, all tasks, the newest change', async () => {
    await world.soon(lock(world.variables, keeper.paths, { level: {}, reason: 'freeze', by: 'ann', until: null }, here()))
    const since = Date.now() + 1e12
    await stored(0, { action: 'signal', signal: 'SIGUSR1', task: 'app', since })
    const merged = await stored(0, { action: 'restart', task: 'app', since: since + 5, priority: 3 })
    expect(merged).toMatchObject({ action: 'restart', tasks: ['app'] })
    expect((await stored(0, { since })).tasks).toEqual([])
  })

  it('is satisfied when its unit was started after what was asked for', async () => {
    const start = await startOf(0)
    expect(await put(0, { since: start - 1 })).toEqual({ kind: 'satisfied' })
    expect((await put(0, { since: start })).kind).toBe('stored')
  })

  it('that waits is satisfied by anybody’s restart', async () => {
    await world.soon(lock(world.variables, keeper.paths, { level: {}, reason: 'freeze', by: 'ann', until: null }, here()))
    const [since, plain] = [await stored(0, { since: await startOf(0) }), await stored(1)]
    await world.clock.advance(1_000)
    await world.restart(ids[0] as string)
    await world.restart(ids[1] as string)
    await ended(since.id)
    await ended(plain.id)
    expect((await seen(since.id)).state).toBe('done')
    expect((await seen(plain.id)).state).toBe('done')
    expect(await requests()).toEqual([])
    expect((await world.state())?.holds ?? []).toEqual([])
  })

  it('ends with its allocation', async () => {
    await world.soon(lock(world.variables, keeper.paths, { level: {}, reason: 'freeze', by: 'ann', until: null }, here()))
    const { id } = await stored(0)
    await world.soon(world.nomad.handle({ method: 'PUT', path: `/v1/allocation/${ids[0]}/stop`, body: '{}' }))
    await ended(id)
    expect((await seen(id)).state).toBe('gone')
    expect((await problemOf(put(0))).kind).toBe('allocation_finished')
  })

  it('is withdrawn when it waits; what is acting goes on to its end', async () => {
    const [first, second] = [await stored(0), await stored(1)]
    await world.until(async () => (await seen(first.id)).state === 'observing')
    const gone = await world.soon(keeper.requests.cancel(second.id, world.variables, here()))
    expect(gone.state).toBe('cancelled')
    expect((await world.soon(keeper.requests.cancel(first.id, world.variables, here()))).state).toBe('observing')
    await ended(first.id)
    expect((await seen(first.id)).state).toBe('done')
    expect(restarts()).toEqual([ids[0]])
  })

  it('M6: changed while it is acted on it is done by another act', async () => {
    const { id } = await stored(0)
    await world.until(async () => (await seen(id)).state === 'observing')
    const again = await stored(0, { reason: 'a newer value' })
    expect(again.id).toBe(id)
    await world.until(async () => restarts().length === 2, 600_000)
    await ended(id)
    await world.clock.advance(60_000)
    expect(restarts()).toEqual([ids[0], ids[0]])
  })

  it('C3.13 of a task that has finished by design is satisfied, and nothing is done', async () => {
    const spec = jobOfDev({ allocations: 1 }) as unknown as { TaskGroups: [{ Tasks: object[] }] }
    spec.TaskGroups[0].Tasks.push({
      Name: 'migrate',
      Driver: 'dev',
      Config: {},
      Lifecycle: { Hook: 'poststart', Sidecar: false },
    })
    world.nomad.registerJob(spec as never)
    await world.until(async () => (await world.allocations()).length === 1 && !(await world.cluster.deploying('default', 'web')))
    ids = await world.allocations()
    expect(await put(0, { task: 'migrate' })).toEqual({ kind: 'satisfied' })
    expect(await requests()).toEqual([])
    const { id } = await stored(0)
    await ended(id)
    expect(await seen(id)).toMatchObject({ state: 'done' })
    expect(restarts()).toEqual([ids[0]])
    expect((await world.state()).failures).toEqual([])
  })

  it('M5: with health_check = none is over when it was acted on, and is acted on once', async () => {
    await world.close()
    world = await new World().withJob({ allocations: 2, meta: { lockkeeper_health_check: 'none' } })
    keeper = await world.replica()
    ids = await world.allocations()
    world.sent = []
    const [first, second] = [await stored(0, { action: 'signal' }), await stored(1)]
    await ended(first.id)
    await ended(second.id)
    await world.clock.advance(60_000)
    expect(world.sent.filter(({ path }) => path.includes('/signal'))).toHaveLength(1)
    expect(restarts()).toEqual([ids[1]])
    expect(await requests()).toEqual([])
  })

  it('C5.6 of a second wave joins the first one, also when that is acted on, and learns its label', async () => {
    const first = await stored(0, { wave: 'w1' })
    await world.until(async () => (await holds()) === 1)
    const second = await stored(0, { wave: 'w2', reason: 'me too' })
    expect(second).toMatchObject({ id: first.id, wave: 'w1', reason: 'new certificate' })
    await ended(first.id)
    await world.clock.advance(30_000)
    expect(restarts()).toEqual([ids[0]])
  })

  it('with a wave is listed by it', async () => {
    await stored(0, { wave: 'w1' })
    await stored(1)
    const list = await world.soon(keeper.requests.list({}, 'w1', here()))
    expect(list.map(({ unit }) => unit)).toEqual([ids[0]])
    expect(await world.soon(keeper.requests.list({ namespace: 'other' }, undefined, here()))).toEqual([])
  })

  it('of a signal is delivered, and watched', async () => {
    const { id } = await stored(0, { action: 'signal', signal: 'SIGHUP' })
    await ended(id)
    const signals = (world.sent ?? []).filter(({ path }) => path.includes('/signal'))
    expect(signals.map(({ body }) => body)).toEqual([JSON.stringify({ Task: 'app', Signal: 'SIGHUP' })])
    expect((await seen(id)).state).toBe('done')
  })

  it('of a replacement follows the new allocation', async () => {
    const { id } = await stored(0, { action: 'replace' })
    await ended(id)
    expect((await seen(id)).state).toBe('done')
    expect(await world.allocations()).not.toContain(ids[0])
    expect(await world.allocations()).toHaveLength(3)
  })

  it('C2.6 of a replacement that cannot be placed fails at healthy_deadline, halts, and names what Nomad lacks', async () => {
    const nodes = JSON.parse((await world.nomad.handle({ method: 'GET', path: '/v1/nodes' })).body) as { ID: string }[]
    const becomes = async (Eligibility: string) => {
      const body = JSON.stringify({ Eligibility })
      for (const { ID } of nodes) await world.nomad.handle({ method: 'PUT', path: `/v1/node/${ID}/eligibility`, body })
    }
    await becomes('ineligible')
    const { id } = await stored(0, { action: 'replace' })
    await ended(id)
    const detail = 'Nomad cannot place a replacement: no nodes were eligible for evaluation'
    expect(await seen(id)).toMatchObject({ state: 'failed' })
    const { halted, failures } = await world.state()
    expect(failures.map(({ reason }) => reason)).toEqual([expect.stringContaining(detail)])
    expect(halted?.reason).toContain(detail)
    const next = await stored(1)
    await world.clock.advance(120_000)
    expect((await world.state()).halted).not.toBeNull()
    expect((await seen(next.id)).state).toBe('waiting')
    await becomes('eligible')
    // What is placed after a wait names no predecessor. It must be healthy, too.
    world.nomad.setTask({ job: 'web', group: 'api' }, { healthy: false })
    await world.clock.advance(60_000)
    expect((await world.state()).halted).not.toBeNull()
    world.nomad.setTask({ job: 'web', group: 'api' }, { healthy: true }, { now: true })
    await ended(next.id)
    expect((await seen(next.id)).state).toBe('done')
    const after = (await kinds()).slice((await kinds()).indexOf('halted') + 1)
    expect(after).toEqual(['recovered', 'halt_lifted', 'granted', 'released', 'healthy'])
    expect((await world.state()).transitions.find(({ kind }) => kind === 'recovered')?.reason).toContain('healthy for')
  })

  it('for a unit that must rest waits as too soon', async () => {
    await world.close()
    world = await new World().withJob({ allocations: 2, meta: { lockkeeper_min_interval: '10m' } })
    keeper = await world.replica()
    ids = await world.allocations()
    const { id, wait } = await stored(0)
    expect(wait).toMatchObject({ kind: 'too_soon' })
    expect(wait?.detail).toContain('min_interval')
    await world.clock.advance(600_000)
    await ended(id)
  })
})

describe('an act', () => {
  it('M2: without an answer is not decided on while it may still be executed, though Nomad cannot be seen', async () => {
    world.nomad.faults.next((r) => isRestart(r.method, r.path), { kind: 'drop-answer' })
    world.before(isRestart, async () => {
      for (let n = 0; n < 3; n++)
        world.nomad.faults.next((r) => r.path.includes('/allocations?'), {
          kind: 'answer',
          status: 500,
          body: 'No cluster leader',
        })
      await lock(world.variables, keeper.paths, { level: {}, reason: 'freeze', by: 'ann', until: null }, here())
    })
    const { id } = await stored(0)
    await ended(id)
    expect(await kinds()).toEqual(['granted', 'released', 'healthy'])
    expect(restarts()).toEqual([ids[0]])
  })

  it('M2: whose answer is lost is seen to have happened, and not repeated', async () => {
    world.nomad.faults.next((r) => isRestart(r.method, r.path), { kind: 'drop-answer' })
    const { id } = await stored(0)
    await ended(id)
    expect(restarts()).toEqual([ids[0]])
    expect((await seen(id)).state).toBe('done')
  })

  it('is not taken back when the note of it is lost, and a leader that was deposed shows what was before', async () => {
    let past = 0
    const isState = (path: string) => path.startsWith('/v1/var/lockkeeper/semaphores/')
    const isWrite = (method: string, path: string) => method === 'PUT' && isState(path)
    await ended((await stored(1)).id)
    world.nomad.leader.depose(600_000, ({ path }) => isState(path) && past-- > 0)
    const unit = await world.soon(world.cluster.allocation(ids[0] as string))
    const node = world.nomad.node(unit?.nodeName as string)
    world.before(isRestart, async () => {
      await lock(world.variables, keeper.paths, { level: {}, reason: 'freeze', by: 'ann', until: null }, here())
      // The act is over when its note is sent, but the servers do not hear of it.
      world.before(isWrite, async () => node.silence('refuses'))
      world.nomad.faults.next(({ method, path }) => isWrite(method, path), { kind: 'drop' })
      past = 2
    })
    const { id } = await stored(0)
    await world.clock.advance(5_000)
    node.speak()
    await ended(id)
    expect(past).toBeLessThan(2)
    expect((await kinds()).slice(3)).toEqual(['granted', 'released', 'healthy'])
    expect(restarts()).toEqual([ids[1], ids[0]])
  })

  it('M2: that never reached Nomad is made again', async () => {
    world.nomad.faults.next((r) => isRestart(r.method, r.path), { kind: 'drop' })
    const { id } = await stored(0)
    await ended(id)
    expect(restarts()).toEqual([ids[0], ids[0]])
  })

  it('M3: is finished by another replica when its own dies before it', async () => {
    const other = await world.replica()
    world.before(isRestart, async () => void world.kill(keeper))
    const { id } = await stored(0, {}, other)
    await world.until(async () => (await kinds()).includes('healthy'), 600_000)
    expect(await requests()).toEqual([])
    expect((await world.soon(other.requests.get(id, 0, here()))).state).toBe('done')
  })

  it('M3: that happened right before its replica died is not made again', async () => {
    world.before(
      (method, path) => method === 'PUT' && path.includes('/semaphores/') && restarts().length > 0,
      async () => {
        void world.kill(keeper)
      },
    )
    await stored(0)
    await world.until(async () => restarts().length === 1)
    await world.clock.advance(1_000)
    const other = await world.replica()
    await world.until(async () => (await kinds()).includes('healthy'), 600_000)
    expect(other.registry.all().length).toBeGreaterThan(0)
    expect(restarts()).toHaveLength(1)
    expect(await kinds()).toEqual(['granted', 'taken_over', 'released', 'healthy'])
  })

  it('G7: is not made past an operator lock that lands after its grant', async () => {
    const isLockList = (method: string, path: string) => method === 'GET' && path.includes('prefix=lockkeeper%2Flocks')
    world.before(isLockList, () =>
      lock(world.variables, keeper.paths, { level: {}, reason: 'freeze', by: 'ann', until: null }, here()),
    )
    const { id } = await stored(0)
    await world.clock.advance(30_000)
    expect(restarts()).toEqual([])
    expect(await seen(id)).toMatchObject({ state: 'waiting', wait: { kind: 'locked' } })
    await world.soon(unlock(world.variables, keeper.paths, {}, here()))
    await ended(id)
    expect(restarts()).toEqual([ids[0]])
  })

  it('M4: is not made when its request was withdrawn right after its grant', async () => {
    const isLockList = (method: string, path: string) => method === 'GET' && path.includes('prefix=lockkeeper%2Flocks')
    let id = ''
    world.before(isLockList, () => keeper.requests.cancel(id, world.variables, here()))
    id = (await stored(0)).id
    await world.clock.advance(30_000)
    expect(restarts()).toEqual([])
    expect((await world.state()).holds).toEqual([])
  })

  it('that Nomad refuses keeps its request, and says why', async () => {
    for (let n = 0; n < 3; n++)
      world.nomad.faults.next((r) => isRestart(r.method, r.path), {
        kind: 'answer',
        status: 403,
        body: 'Permission denied',
      } as never)
    const { id } = await stored(0)
    await world.until(async () => (await kinds()).includes('taken_back'))
    expect((await world.state()).transitions.find(({ kind }) => kind === 'taken_back')?.reason).toContain('deploy/acl')
    await ended(id)
    expect((await seen(id)).state).toBe('done')
  })

  it('C2.10 that is answered 200 and does nothing ends as a failure, never as done', async () => {
    world.nomad.faults.next((r) => isRestart(r.method, r.path), { kind: 'answer', status: 200, body: '{"Index":0}' } as never)
    const { id } = await stored(0)
    await ended(id)
    expect((await seen(id)).state).toBe('failed')
    expect((await world.state()).failures.map(({ unit }) => unit)).toEqual([ids[0]])
  })
})

describe('two replicas', () => {
  it('go on within seconds when the one that acts is gone, though its lease is not over yet', async () => {
    const both = [keeper, await world.replica()]
    await Promise.all([0, 1, 2].map((n) => stored(n)))
    await world.until(async () => (await holds()) > 0 && (await world.state()).holds[0]?.phase === 'observing')
    const { actor } = (await world.state()).holds[0] as Hold
    const since = world.clock.now()
    await world.kill(both.find(({ replica }) => replica.name === actor) as Keeper)
    await world.until(async () => (await kinds()).filter((kind) => kind === 'granted').length === 2)
    expect(world.clock.now() - since).toBeLessThan(20_000)
  })

  it('share no grant, and lose none', async () => {
    const other = await world.replica()
    const all = await Promise.all([0, 1, 2].map((n) => stored(n, {}, n % 2 === 0 ? keeper : other)))
    await world.until(async () => (await requests()).length === 0 && (await holds()) === 0, 600_000)
    expect(restarts()).toHaveLength(ids.length)
    expect(new Set(restarts())).toEqual(new Set(ids))
    for (const { id } of all) expect((await seen(id, other)).state).toBe('done')
    expect((await world.state()).transitions.filter(({ kind }) => kind === 'granted')).toHaveLength(3)
  })
})

it('nothing is logged as a fault when all goes well', async () => {
  const { id } = await stored(0)
  await ended(id)
  expect(world.problems()).toEqual([])
  expect((await world.state(scope)).failures).toEqual([])
})

it('a grant, its release and its end are in the log, once, and a failure is a warning', async () => {
  const others = await world.replica()
  const { id } = await stored(0)
  await ended(id)
  world.nomad.faults.next((r) => isRestart(r.method, r.path), { kind: 'answer', status: 200, body: '{"Index":0}' } as never)
  const bad = await stored(1)
  await ended(bad.id, others)
  const told = world.logs.filter(({ fields }) => 'token' in fields).map(({ level, text }) => `${level} ${text}`)
  const [well, badly] = ['info granted, info released, info healthy', 'info granted, info released, warn failed, warn halted']
  expect(told.join(', ')).toBe(`${well}, ${badly}`)
})
