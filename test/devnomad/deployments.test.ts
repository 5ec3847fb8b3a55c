import { afterEach, describe, expect, it } from 'vitest'
import { given, webJob, World } from './given.ts'
import type { JobSpec } from '../../src/devnomad/devnomad.ts'

interface DeploymentView {
  readonly ID: string
  readonly Status: string
  readonly StatusDescription: string
  readonly JobVersion: number
  readonly TaskGroups: Record<string, { PlacedCanaries: string[] | null; Promoted: boolean; HealthyAllocs: number }>
}

function canaryJob(v: string, more: { autoPromote?: boolean; healthy?: boolean } = {}): JobSpec {
  const job = webJob({ count: 3, meta: { v }, config: { healthy: more.healthy ?? true } })
  const [group] = job.TaskGroups as [{ Update: object }]
  const Update = { ...group.Update, Canary: 1, AutoPromote: more.autoPromote ?? false }
  return { ...job, TaskGroups: [{ ...group, Update }] }
}

describe('a deployment', () => {
  let world: World
  afterEach(() => world.close())
  const latest = (): Promise<DeploymentView> => world.get('/v1/job/web/deployment')
  const versions = async (): Promise<number[]> => (await world.running()).map((one) => one.JobVersion).toSorted((a, b) => a - b)
  const post = (what: string, id: string) => world.ask('PUT', `/v1/deployment/${what}/${id}`, { DeploymentID: id, All: true })

  it('with canaries waits beside the old ones until it is promoted, and then goes on', async () => {
    world = await given(canaryJob('1'))
    expect(await latest()).toMatchObject({ Status: 'successful', TaskGroups: { g: { PlacedCanaries: null } } })
    world.nomad.registerJob(canaryJob('2'))
    await world.clock.advance(300_000)
    const waiting = await latest()
    expect(waiting).toMatchObject({
      Status: 'running',
      StatusDescription: 'Deployment is running but requires manual promotion',
      TaskGroups: { g: { Promoted: false, HealthyAllocs: 1 } },
    })
    expect(await versions()).toEqual([0, 0, 0, 1])
    expect((await post('promote', waiting.ID)).status).toBe(200)
    await world.clock.advance(60_000)
    expect(await latest()).toMatchObject({ Status: 'successful', TaskGroups: { g: { Promoted: true } } })
    expect(await versions()).toEqual([1, 1, 1])
    expect(new Set((await world.running()).map((one) => one.Name)).size).toBe(3)
    expect(await post('promote', waiting.ID)).toMatchObject({ status: 500, body: "can't promote terminal deployment" })
  })

  it('promotes itself when it may', async () => {
    world = await given(canaryJob('1', { autoPromote: true }))
    world.nomad.registerJob(canaryJob('2', { autoPromote: true }))
    await world.clock.advance(100_000)
    expect(await latest()).toMatchObject({ Status: 'successful', TaskGroups: { g: { Promoted: true } } })
    expect(await versions()).toEqual([1, 1, 1])
  })

  it('whose canary is not healthy cannot be promoted, and fails in the end without having touched the old ones', async () => {
    world = await given(canaryJob('1'))
    world.nomad.registerJob(canaryJob('2', { healthy: false }))
    await world.clock.advance(30_000)
    const { ID } = await latest()
    const refused = '1 error occurred:\n\t* Task group "g" has 0/1 healthy allocations\n\n'
    expect(await post('promote', ID)).toMatchObject({ status: 500, body: refused })
    await world.clock.advance(200_000)
    expect(await latest()).toMatchObject({ Status: 'failed' })
    expect(await versions()).toEqual([0, 0, 0])
  })

  it('can be failed by hand', async () => {
    world = await given(canaryJob('1'))
    world.nomad.registerJob(canaryJob('2'))
    await world.clock.advance(20_000)
    expect((await post('fail', (await latest()).ID)).status).toBe(200)
    await world.clock.advance(5_000)
    expect(await latest()).toMatchObject({ Status: 'failed', StatusDescription: 'Deployment marked as failed' })
    expect(await versions()).toEqual([0, 0, 0])
  })

  it('that is paused updates nothing and does not end, and goes on with all of its time when it is resumed', async () => {
    world = await given(webJob({ count: 3 }))
    world.nomad.registerJob(webJob({ count: 4, meta: { v: '2' } }))
    await world.clock.advance(2_000)
    const { ID } = await latest()
    const pause = (Pause: boolean) => world.ask('PUT', `/v1/deployment/pause/${ID}`, { DeploymentID: ID, Pause })
    const paused = await pause(true)
    expect(JSON.parse(paused.body)).toMatchObject({ EvalID: '', EvalCreateIndex: 0, DeploymentModifyIndex: expect.any(Number) })
    await world.clock.advance(300_000)
    expect(await latest()).toMatchObject({ Status: 'paused', StatusDescription: 'Deployment is paused' })
    expect(await versions()).toEqual([0, 0, 1, 1])
    const resumed = await pause(false)
    expect((JSON.parse(resumed.body) as { EvalID: string }).EvalID).not.toBe('')
    expect(await latest()).toMatchObject({ Status: 'running', StatusDescription: 'Deployment is running' })
    await world.clock.advance(60_000)
    expect(await latest()).toMatchObject({ Status: 'successful' })
    expect(await versions()).toEqual([1, 1, 1, 1])
    expect(await pause(true)).toMatchObject({ status: 500, body: "can't pause terminal deployment" })
    expect(await pause(false)).toMatchObject({ status: 500, body: "can't resume terminal deployment" })
  })

  it('of a system job goes from node to node', async () => {
    world = await given(webJob({ type: 'system' }))
    expect(await latest()).toMatchObject({ Status: 'successful' })
    world.nomad.registerJob(webJob({ type: 'system', meta: { v: '2' } }))
    let fewest = 3
    for (let passed = 0; passed < 60_000; passed += 500) {
      await world.clock.advance(500)
      fewest = Math.min(fewest, (await world.running()).length)
    }
    expect(fewest).toBe(2)
    expect(await latest()).toMatchObject({ Status: 'successful', JobVersion: 1 })
    expect(await versions()).toEqual([1, 1, 1])
  })
})

describe('what cannot be placed', () => {
  let world: World
  afterEach(() => world.close())
  const evaluations = (): Promise<{ Status: string; TriggeredBy: string; FailedTGAllocs?: object; BlockedEval?: string }[]> =>
    world.get('/v1/job/web/evaluations')

  it('waits in a blocked evaluation that says why, until there is room', async () => {
    world = new World({ nodes: [] })
    world.nomad.addNode('small', { memoryMb: 700 })
    world.nomad.registerJob(webJob({ count: 3 }))
    await world.clock.advance(20_000)
    expect(await world.running()).toHaveLength(2)
    const blocked = (await evaluations()).find((one) => one.Status === 'blocked')
    expect(blocked).toMatchObject({
      TriggeredBy: 'queued-allocs',
      FailedTGAllocs: { g: { NodesExhausted: 1, DimensionExhausted: { memory: 1 } } },
    })
    expect(await world.get('/v1/jobs')).toMatchObject([{ JobSummary: { Summary: { g: { Queued: 1 } } } }])
    world.nomad.addNode('large')
    await world.clock.advance(20_000)
    expect(await world.running()).toHaveLength(3)
    expect((await evaluations()).filter((one) => one.Status === 'blocked')).toEqual([])
  })

  it('does not take the place of what runs', async () => {
    world = new World({ nodes: [] })
    world.nomad.addNode('small', { memoryMb: 700 })
    world.nomad.registerJob(webJob())
    await world.clock.advance(20_000)
    const big = webJob()
    const [group] = big.TaskGroups as [{ Tasks: object[] }]
    const Tasks = [{ ...group.Tasks[0], Resources: { MemoryMB: 2_000 } }]
    world.nomad.registerJob({ ...big, TaskGroups: [{ ...group, Tasks }] })
    await world.clock.advance(20_000)
    expect((await world.running()).map((one) => one.JobVersion)).toEqual([0, 0])
  })
})

describe('a crash loop', () => {
  let world: World
  afterEach(() => world.close())

  it('is replaced later and later, and each failed allocation names the evaluation that will', async () => {
    const job = webJob({ count: 1, config: { exit_after: '1s', exit_code: 1 } })
    const [group] = job.TaskGroups as [object]
    const ReschedulePolicy = { Delay: 5e9, DelayFunction: 'exponential', MaxDelay: 3_600e9, Unlimited: true }
    world = await given({ ...job, TaskGroups: [{ ...group, ReschedulePolicy }] })
    await world.clock.advance(180_000)
    const all = (await world.allocations()).toSorted((a, b) =>
      a.RescheduleTracker === null ? -1 : a.RescheduleTracker.Events.length - (b.RescheduleTracker?.Events.length ?? 0),
    )
    expect(all.length).toBeGreaterThan(3)
    expect(all.length).toBeLessThan(7)
    expect(all.every((one) => one.ClientStatus !== 'running')).toBe(true)
    const evaluations = await world.get<{ TriggeredBy: string; WaitUntil?: string }[]>('/v1/job/web/evaluations')
    expect(evaluations.filter((one) => one.TriggeredBy === 'alloc-reschedule' && one.WaitUntil !== undefined).length).toBe(
      all.length,
    )
  })
})

describe('a node that is away', () => {
  let world: World
  afterEach(() => world.close())
  const job = (Disconnect: object): JobSpec => {
    const web = webJob({ count: 2 })
    const [group] = web.TaskGroups as [object]
    return { ...web, TaskGroups: [{ ...group, Disconnect }] }
  }
  const nodeStatus = async (name: string): Promise<string | undefined> =>
    (await world.get<{ Name: string; Status: string }[]>('/v1/nodes')).find((one) => one.Name === name)?.Status

  it('leaves its allocations unknown, with another one beside each, and keeps the first when it is back', async () => {
    world = await given(job({ LostAfter: 600e9, Reconcile: 'keep_original' }))
    const alloc = await world.first()
    const since = world.clock.now()
    world.nomad.node(alloc.NodeName).away()
    await world.clock.advance(4_000)
    // It waits as long as for one that has failed.
    expect(await world.running()).toHaveLength(1)
    await world.clock.advance(6_000)
    expect(await nodeStatus(alloc.NodeName)).toBe('disconnected')
    const unknown = await world.again(alloc)
    expect(unknown).toMatchObject({ ClientStatus: 'unknown', DesiredStatus: 'run' })
    expect(unknown.FollowupEvalID).not.toBe('')
    const beside = (await world.running()).find((one) => one.Name === alloc.Name)
    expect(beside?.ID).toBe(unknown.NextAllocation)
    expect(world.eventsOf(alloc, since)).toEqual([])
    world.nomad.node(alloc.NodeName).back()
    await world.clock.advance(10_000)
    expect(await nodeStatus(alloc.NodeName)).toBe('ready')
    expect(await world.again(alloc)).toMatchObject({ ClientStatus: 'running', DesiredStatus: 'run' })
    expect(await world.running()).toHaveLength(2)
    expect(world.eventsOf(alloc, since)).toEqual([])
  })

  it('gives way to the other one when the group wants that', async () => {
    world = await given(job({ LostAfter: 600e9, Reconcile: 'keep_replacement' }))
    const alloc = await world.first()
    world.nomad.node(alloc.NodeName).away()
    await world.clock.advance(10_000)
    world.nomad.node(alloc.NodeName).back()
    await world.clock.advance(10_000)
    expect(await world.again(alloc)).toMatchObject({ DesiredStatus: 'stop' })
    expect(await world.running()).toHaveLength(2)
  })

  it('is not stood in for when the group does not want that, and lost when it stays away', async () => {
    world = await given(job({ LostAfter: 60e9, Replace: false }))
    const alloc = await world.first()
    world.nomad.node(alloc.NodeName).away()
    await world.clock.advance(30_000)
    expect(await world.running()).toHaveLength(1)
    await world.clock.advance(40_000)
    expect(await world.again(alloc)).toMatchObject({ ClientStatus: 'lost', DesiredStatus: 'stop' })
    expect(await world.running()).toHaveLength(2)
  })

  it('or dead looks the same; what ran on a dead one is started anew there when it is up again, and stays', async () => {
    world = await given(job({ LostAfter: 600e9, Reconcile: 'keep_original' }))
    const alloc = await world.first()
    const since = world.clock.now()
    world.nomad.node(alloc.NodeName).down()
    await world.clock.advance(10_000)
    expect(await nodeStatus(alloc.NodeName)).toBe('disconnected')
    expect(await world.again(alloc)).toMatchObject({ ClientStatus: 'unknown', DesiredStatus: 'run' })
    expect(await world.running()).toHaveLength(2)
    world.nomad.node(alloc.NodeName).up()
    await world.clock.advance(10_000)
    expect(world.eventsOf(alloc, since)).toEqual(['dead', 'starting', 'running', 'healthy'])
    const again = await world.again(alloc)
    expect(again).toMatchObject({ ClientStatus: 'running', DesiredStatus: 'run' })
    expect(again.TaskStates?.['app']?.StartedAt).not.toBe(alloc.TaskStates?.['app']?.StartedAt)
    expect(await world.running()).toHaveLength(2)
  })

  it('leaves those of a system job unknown too, without others beside them, and lost in the end', async () => {
    const web = webJob({ type: 'system' })
    const [group] = web.TaskGroups as [object]
    world = await given({ ...web, TaskGroups: [{ ...group, Disconnect: { LostAfter: 60e9 } }] })
    const alloc = await world.first()
    world.nomad.node(alloc.NodeName).away()
    await world.clock.advance(30_000)
    expect(await world.again(alloc)).toMatchObject({ ClientStatus: 'unknown', DesiredStatus: 'run' })
    expect(await world.allocations()).toHaveLength(3)
    await world.clock.advance(40_000)
    expect(await world.again(alloc)).toMatchObject({ ClientStatus: 'lost', DesiredStatus: 'stop' })
    world.nomad.node(alloc.NodeName).back()
    await world.clock.advance(10_000)
    expect(await world.running()).toHaveLength(3)
  })

  it('loses what has no disconnect block, which runs on until it is back', async () => {
    world = await given()
    const alloc = await world.first()
    const since = world.clock.now()
    world.nomad.node(alloc.NodeName).away()
    await world.clock.advance(10_000)
    expect(await nodeStatus(alloc.NodeName)).toBe('down')
    expect(await world.again(alloc)).toMatchObject({ ClientStatus: 'lost' })
    expect(world.eventsOf(alloc, since)).toEqual([])
    world.nomad.node(alloc.NodeName).back()
    await world.clock.advance(5_000)
    expect(world.eventsOf(alloc, since)).toEqual(['stopping', 'dead'])
    expect(await world.again(alloc)).toMatchObject({ ClientStatus: 'complete', DesiredStatus: 'stop' })
  })
})
