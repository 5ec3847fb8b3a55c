import { afterEach, describe, expect, it } from 'vitest'
import { given, webJob, type World } from './given.ts'

interface NodeView {
  readonly ID: string
  readonly Name: string
  readonly Status: string
  readonly SchedulingEligibility: string
  readonly DrainStrategy: object | null
  readonly LastDrain: { readonly Status: string } | null
}

describe('a node', () => {
  let world: World
  afterEach(() => world.close())
  const node = async (name: string): Promise<NodeView> =>
    (await world.get<NodeView[]>('/v1/nodes')).find((one) => one.Name === name) as NodeView
  const full = async (name: string): Promise<NodeView> => world.get(`/v1/node/${(await node(name)).ID}`)

  it('that goes down loses its allocations, and others replace them', async () => {
    world = await given()
    const alloc = await world.first()
    world.nomad.node(alloc.NodeName).down()
    await world.clock.advance(5_000)
    const lost = await world.again(alloc)
    expect(lost).toMatchObject({ ClientStatus: 'lost', DesiredStatus: 'stop' })
    const next = (await world.allocations()).find((one) => one.ID === lost.NextAllocation)
    expect(next).toMatchObject({ Name: alloc.Name, ClientStatus: 'running' })
    expect(next?.NodeName).not.toBe(alloc.NodeName)
    world.nomad.node(alloc.NodeName).up()
    await world.clock.advance(5_000)
    expect(await node(alloc.NodeName)).toMatchObject({ Status: 'ready' })
    expect(await world.running()).toHaveLength(2)
  })

  it('that dies and is up before the servers have noticed starts anew what it ran, which is not judged again', async () => {
    world = await given()
    const alloc = await world.first()
    await world.restart(alloc)
    await world.clock.advance(2_000)
    const since = world.clock.now()
    world.nomad.setTask(alloc.ID, { healthy: false })
    world.nomad.node(alloc.NodeName).down()
    world.nomad.node(alloc.NodeName).up()
    await world.clock.advance(100_000)
    expect(world.eventsOf(alloc, since)).toEqual(['dead', 'starting', 'running', 'unhealthy'])
    const again = await world.again(alloc)
    expect(again).toMatchObject({ ClientStatus: 'running', DeploymentStatus: { Healthy: true } })
    expect(again.TaskStates?.['app']?.StartedAt).not.toBe(alloc.TaskStates?.['app']?.StartedAt)
    // It is on the disk of the machine, and a start after its death is no restart.
    expect(again.TaskStates?.['app']?.Restarts).toBe(1)
    expect(await world.allocations()).toHaveLength(2)
  })

  it('whose agent is silent looks healthy to the servers, and answers no call', async () => {
    world = await given()
    const alloc = await world.first()
    world.nomad.node(alloc.NodeName).silence()
    world.nomad.crash(alloc.ID)
    await world.clock.advance(30_000)
    expect(await world.again(alloc)).toEqual(alloc)
    const answer = await world.ask('GET', `/v1/client/allocation/${alloc.ID}/checks`)
    expect(answer).toMatchObject({ status: 404, body: 'No path to node' })
    expect(await world.restart(alloc)).toBe(404)
    world.nomad.node(alloc.NodeName).speak()
    await world.clock.advance(1_000)
    expect((await world.again(alloc)).TaskStates?.['app']?.Restarts).toBe(1)
  })

  it('whose agent hangs lets its callers wait, and fails them in the end', async () => {
    world = await given()
    const alloc = await world.first()
    world.nomad.node(alloc.NodeName).silence('hangs')
    const answer = world.ask('GET', `/v1/client/allocation/${alloc.ID}/checks`)
    await world.clock.advance(10_000)
    expect((await answer).status).toBe(500)
  })

  it('that is drained is emptied one after another, and stays closed until it is opened', async () => {
    world = await given(webJob({ count: 4 }))
    const busiest = (await world.first()).NodeName
    const { ID } = await node(busiest)
    await world.ask('PUT', `/v1/node/${ID}/drain`, { DrainSpec: { Deadline: 600e9, IgnoreSystemJobs: true } })
    let fewest = 4
    for (let passed = 0; passed < 60_000; passed += 500) {
      await world.clock.advance(500)
      fewest = Math.min(fewest, (await world.running()).length)
    }
    expect(fewest).toBeGreaterThanOrEqual(3)
    expect((await world.running()).map((one) => one.NodeName)).not.toContain(busiest)
    expect(await full(busiest)).toMatchObject({
      DrainStrategy: null,
      LastDrain: { Status: 'complete' },
      SchedulingEligibility: 'ineligible',
    })
    await world.ask('PUT', `/v1/node/${ID}/eligibility`, { Eligibility: 'eligible' })
    expect(await full(busiest)).toMatchObject({ SchedulingEligibility: 'eligible' })
  })

  it('keeps the meta of its drain, and is opened when that is cancelled', async () => {
    world = await given()
    const { NodeName } = await world.first()
    const path = `/v1/node/${(await node(NodeName)).ID}/drain`
    await world.ask('PUT', path, { DrainSpec: { Deadline: 600e9 }, Meta: { by: 'lockkeeper' } })
    expect(await full(NodeName)).toMatchObject({ LastDrain: { Status: 'draining', Meta: { by: 'lockkeeper' } } })
    await world.ask('PUT', path, { DrainSpec: null, MarkEligible: true })
    expect(await full(NodeName)).toMatchObject({
      DrainStrategy: null,
      LastDrain: { Status: 'canceled', Meta: { by: 'lockkeeper' } },
      SchedulingEligibility: 'eligible',
    })
  })

  it('that is drained with nowhere to go leaves its group short until a node opens', async () => {
    world = await given(webJob({ count: 1 }))
    const { NodeName } = await world.first()
    for (const name of ['node-1', 'node-2', 'node-3'].filter((one) => one !== NodeName)) {
      await world.ask('PUT', `/v1/node/${(await node(name)).ID}/eligibility`, { Eligibility: 'ineligible' })
    }
    await world.ask('PUT', `/v1/node/${(await node(NodeName)).ID}/drain`, { DrainSpec: { Deadline: 600e9 } })
    await world.clock.advance(30_000)
    expect(await world.running()).toEqual([])
    await world.ask('PUT', `/v1/node/${(await node('node-2')).ID}/eligibility`, { Eligibility: 'eligible' })
    await world.clock.advance(5_000)
    expect(await world.running()).toHaveLength(1)
  })

  it('has one allocation of a system job, and a new one gets its own', async () => {
    world = await given(webJob({ type: 'system' }))
    expect((await world.running()).map((one) => one.NodeName)).toEqual(['node-1', 'node-2', 'node-3'])
    expect(new Set((await world.running()).map((one) => one.Name))).toEqual(new Set(['web.g[0]']))
    world.nomad.addNode('node-4')
    await world.clock.advance(5_000)
    expect(await world.running()).toHaveLength(4)
  })
})
