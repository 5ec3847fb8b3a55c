import { afterEach, describe, expect, it } from 'vitest'
import type { JobSpec } from '../../src/devnomad/devnomad.ts'
import { givenRendered, jobWith, template, webJobOf, type AllocationView, type World } from './given.ts'

const restarting = (more: object): JobSpec =>
  jobWith({ DestPath: 'local/conf', EmbeddedTmpl: template(), ChangeMode: 'restart', ...more })

describe('when the agent of a node is restarted', () => {
  let world: World
  afterEach(() => world.close())
  const start = async (job: JobSpec): Promise<AllocationView> => {
    world = await givenRendered(job)
    return world.first()
  }
  const restartAgent = (alloc: AllocationView): void => world.nomad.node(alloc.NodeName).restartAgent(3_000)

  it('its workloads go on, but nobody reaches them until it is there again', async () => {
    const alloc = await start(webJobOf([{}]))
    const since = world.clock.now()
    restartAgent(alloc)
    const ask = (): Promise<{ status: number }> => world.ask('GET', `/v1/client/allocation/${alloc.ID}/checks`)
    await world.clock.advance(2_999)
    expect((await ask()).status).toBe(404)
    await world.clock.advance(1)
    expect((await ask()).status).toBe(200)
    await world.clock.advance(20_000)
    expect(world.eventsOf(alloc, since)).toEqual([])
    expect(await world.allocations()).toMatchObject([{ ID: alloc.ID, ClientStatus: 'running' }])
  })

  it('a change that waits for its splay is lost: the file is new, and the process will not know', async () => {
    const alloc = await start(restarting({ Splay: 600e9 }))
    const since = world.clock.now()
    await world.set('2')
    await world.clock.advance(5_001)
    expect(world.read(alloc)).toBe('2')
    restartAgent(alloc)
    await world.clock.advance(700_000)
    expect(world.eventsOf(alloc, since)).toEqual([])
  })

  it('a change that was not written yet is written when it is there again, and acts', async () => {
    const alloc = await start(restarting({ Splay: 0 }))
    const since = world.clock.now()
    await world.set('2')
    await world.clock.advance(1_000)
    restartAgent(alloc)
    await world.clock.advance(2_999)
    expect(world.read(alloc)).toBe('1')
    await world.clock.advance(1)
    expect(world.read(alloc)).toBe('2')
    expect(world.eventsOf(alloc, since)).toEqual(['stopping'])
  })

  it('the sockets of its tasks are gone meanwhile, and their checks begin anew', async () => {
    const alloc = await start(webJobOf([{}]))
    const secrets = (): string[] =>
      world.nomad
        .files(alloc.ID)
        .list('/app/secrets')
        .map(({ Name }) => Name)
    expect(secrets()).toContain('api.sock')
    restartAgent(alloc)
    expect(secrets()).not.toContain('api.sock')
    await world.clock.advance(3_000)
    expect(secrets()).toContain('api.sock')
    expect(await world.check(alloc)).toMatchObject({ Status: 'pending' })
    await world.clock.advance(1_000)
    expect(await world.check(alloc)).toMatchObject({ Status: 'success' })
  })

  it('a task that has ended meanwhile starts when it is there again', async () => {
    const alloc = await start(webJobOf([{}]))
    const since = world.clock.now()
    restartAgent(alloc)
    world.nomad.crash(alloc.ID)
    await world.clock.advance(2_999)
    expect(world.eventsOf(alloc, since)).toEqual(['dead'])
    await world.clock.advance(1)
    expect(world.eventsOf(alloc, since)).toEqual(['dead', 'starting', 'running'])
  })
})
