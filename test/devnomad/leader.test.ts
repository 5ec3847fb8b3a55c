import { afterEach, describe, expect, it } from 'vitest'
import type { Answer } from '../../src/devnomad/devnomad.ts'
import { isOver } from '../support/devnomad-client.ts'
import { given, webJob, World } from './given.ts'

const ID = 'aaaaaaaa-0000-4000-8000-000000000001'
const lock = { Lock: { ID, TTL: '10s', LockDelay: '1ms' } }

describe('without a leader that works', () => {
  let world: World
  afterEach(() => world.close())
  const index = ({ headers }: Answer): number => Number(headers['X-Nomad-Index'])
  const waitFor = async (path: string, wait: string): Promise<Answer> =>
    world.ask('GET', `${path}?index=${index(await world.ask('GET', path))}&wait=${wait}`)
  /** The last index of every table, as any server may tell it. */
  const indexes = async (): Promise<number[]> => {
    const tables = ['vars', 'jobs', 'allocations', 'deployments', 'evaluations', 'nodes', 'namespaces']
    return Promise.all(tables.map(async (table) => index(await world.ask('GET', `/v1/${table}?stale`))))
  }
  const status = async (name: string): Promise<string | undefined> =>
    (await world.get<{ Name: string; Status: string }[]>('/v1/nodes')).find((one) => one.Name === name)?.Status

  it('a query that waits is answered when the stall is over, although its wait was over before', async () => {
    world = new World()
    await world.ask('PUT', '/v1/var/a', { Items: { a: '1' } })
    const waiting = waitFor('/v1/vars', '5s')
    expect(await isOver(waiting)).toBe(false)
    world.nomad.leader.stall(10_000)
    await world.clock.advance(9_999)
    expect(await isOver(waiting)).toBe(false)
    expect((await world.ask('GET', '/v1/var/a?stale')).status).toBe(200)
    await world.clock.advance(1)
    expect((await waiting).status).toBe(200)
  })

  it('a query that waits fails when the stall ends badly, and all that waits when the stalled leader is killed', async () => {
    world = new World()
    await world.ask('PUT', '/v1/var/a', { Items: { a: '1' } })
    const waiting = waitFor('/v1/vars', '60s')
    expect(await isOver(waiting)).toBe(false)
    world.nomad.leader.stall(10_000, 'fails')
    await world.clock.advance(10_000)
    expect(await waiting).toMatchObject({ status: 500 })
    world.nomad.leader.stall(10_000)
    const late = world.ask('GET', '/v1/vars')
    expect(await isOver(late)).toBe(false)
    world.nomad.leader.fail(1_000)
    expect(await late).toMatchObject({ status: 500, body: 'rpc error: EOF' })
    await world.clock.advance(1_000)
    expect((await world.ask('GET', '/v1/vars')).status).toBe(200)
  })

  it('a lock that is due in a stall falls when it is over', async () => {
    world = new World()
    await world.ask('PUT', '/v1/var/l?lock-acquire', lock)
    await world.clock.advance(15_000)
    world.nomad.leader.stall(10_000)
    const renewal = world.ask('PUT', '/v1/var/l?lock-renew', lock)
    await world.clock.advance(9_999)
    expect(await world.get('/v1/var/l?stale')).toHaveProperty('Lock')
    await world.clock.advance(2)
    expect(await world.get('/v1/var/l')).not.toHaveProperty('Lock')
    expect((await renewal).status).toBe(409)
  })

  for (const how of ['stall', 'fail'] as const) {
    it(`nothing is written, whatever is due, and all of it afterwards: ${how}`, async () => {
      world = await given()
      const alloc = await world.first()
      const node = (await world.get<{ ID: string; Name: string }[]>('/v1/nodes')).find(({ Name }) => Name !== alloc.NodeName)
      await world.ask('PUT', `/v1/node/${node?.ID}/drain`, { DrainSpec: { Deadline: 60e9 } })
      world.nomad.registerJob(webJob({ config: { healthy: false } }))
      await world.clock.advance(20_000)
      expect(await world.get('/v1/job/web/deployment')).toMatchObject({ Status: 'running' })
      world.nomad.leader[how](300_000)
      const before = await indexes()
      world.nomad.crash((await world.get<{ ID: string }[]>('/v1/allocations?stale'))[0]?.ID as string)
      world.nomad.node(alloc.NodeName).down()
      world.nomad.addNode('node-4')
      world.nomad.registerJob({ ...webJob(), ID: 'other' })
      await world.clock.advance(299_999)
      expect(await indexes()).toEqual(before)
      await world.clock.advance(5_000)
      expect(await world.get('/v1/job/web/deployment')).toMatchObject({ Status: 'failed' })
      expect(await status(alloc.NodeName)).toBe('down')
      expect(await status('node-4')).toBe('ready')
      expect(await world.get(`/v1/node/${node?.ID}`)).toMatchObject({ DrainStrategy: null })
      expect((await world.allocations('other')).length).toBe(2)
    })
  }

  it('who comes is told at first that the old one cannot be reached, and then that there is none', async () => {
    world = new World()
    const read = (): Promise<Answer> => world.ask('GET', '/v1/vars')
    world.nomad.leader.fail(8_000)
    expect(await read()).toMatchObject({ status: 500, body: expect.stringMatching(/^rpc error: failed to get conn: /) })
    expect(await world.get('/v1/status/leader')).toBe('')
    await world.clock.advance(5_000)
    expect(await read()).toMatchObject({ status: 500, body: 'No cluster leader' })
    await world.clock.advance(3_000)
    expect((await read()).status).toBe(200)
  })
})
