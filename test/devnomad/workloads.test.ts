import { afterEach, describe, expect, it } from 'vitest'
import { given, webJob, World, type AllocationView } from './given.ts'

describe('a workload', () => {
  let world: World
  afterEach(() => world.close())

  it('is seen as it was until a second after its restart, and then at once as new', async () => {
    world = await given()
    const before = await world.first()
    expect(await world.restart(before)).toBe(200)
    await world.clock.advance(900)
    expect((await world.again(before)).TaskStates).toEqual(before.TaskStates)
    await world.clock.advance(100)
    const after = (await world.again(before)).TaskStates?.['app']
    expect(after).toMatchObject({ State: 'running', Restarts: 1 })
    expect(Date.parse(after?.StartedAt ?? '')).toBeGreaterThan(Date.parse(before.TaskStates?.['app']?.StartedAt ?? ''))
  })

  it('stays healthy in the eyes of its deployment while it restarts', async () => {
    world = await given()
    const alloc = await world.first()
    world.nomad.setTask(alloc.ID, { healthy: false })
    await world.restart(alloc)
    await world.clock.advance(60_000)
    expect((await world.again(alloc)).DeploymentStatus?.Healthy).toBe(true)
  })

  it('has readiness checks, which say nothing of its health, where on_update is ignore', async () => {
    const job = webJob({ count: 1, config: { healthy: false } })
    const [group] = job.TaskGroups as [{ Services: [{ Checks: [object] }] }]
    const [service] = group.Services
    const Services = [{ ...service, Checks: [{ ...service.Checks[0], OnUpdate: 'ignore' }] }]
    world = await given({ ...job, TaskGroups: [{ ...group, Services }] })
    const alloc = await world.first()
    expect(await world.check(alloc)).toMatchObject({ Mode: 'readiness', Status: 'failure' })
    expect(alloc.DeploymentStatus?.Healthy).toBe(true)
  })

  it('shows the old check result until the next run, which sees the new process', async () => {
    world = await given()
    const alloc = await world.first()
    // Checks run every two seconds: go to right after one.
    await world.clock.advance(1_200)
    const old = await world.check(alloc)
    await world.restart(alloc)
    expect(await world.check(alloc)).toEqual(old)
    await world.clock.advance(2_000)
    expect(await world.check(alloc)).toMatchObject({ Status: 'failure' })
    await world.clock.advance(4_000)
    expect(await world.check(alloc)).toMatchObject({ Status: 'success' })
  })

  it('has checks that wait for half an interval before they run for the first time', async () => {
    world = new World()
    world.nomad.registerJob(webJob({ count: 1, config: { healthy_after: '0s' } }))
    while (world.events.length === 0) await world.clock.advance(1)
    await world.clock.advance(1)
    const [alloc] = (await world.allocations()) as [AllocationView]
    expect(await world.check(alloc)).toMatchObject({ Status: 'pending' })
    await world.clock.advance(998)
    expect(await world.check(alloc)).toMatchObject({ Status: 'pending' })
    await world.clock.advance(1)
    expect(await world.check(alloc)).toMatchObject({ Status: 'success' })
  })

  it('is told truly and at once to who observes', async () => {
    world = await given()
    const alloc = await world.first()
    const since = world.clock.now()
    await world.restart(alloc)
    await world.clock.advance(3_000)
    const events = world.events.filter((one) => one.alloc === alloc.ID && one.at >= since)
    expect(events.map((one) => [one.at - since, one.event])).toEqual([
      [0, 'stopping'],
      [100, 'dead'],
      [100, 'starting'],
      [100, 'running'],
      [3_100, 'healthy'],
    ])
  })

  it('that is restarted twice at the same moment restarts once', async () => {
    world = await given()
    const alloc = await world.first()
    const [one, two] = [world.restart(alloc), world.restart(alloc)]
    expect([await one, await two]).toEqual([200, 200])
    await world.clock.advance(2_000)
    expect((await world.again(alloc)).TaskStates?.['app']?.Restarts).toBe(1)
  })

  it('takes a changed config at its next start, or at once when told so', async () => {
    world = await given()
    const alloc = await world.first()
    world.nomad.setTask({ job: 'web', group: 'g' }, { healthy: false })
    await world.clock.advance(10_000)
    expect(await world.check(alloc)).toMatchObject({ Status: 'success' })
    await world.restart(alloc)
    await world.clock.advance(10_000)
    expect(await world.check(alloc)).toMatchObject({ Status: 'failure' })
    world.nomad.setTask(alloc.ID, { healthy: true }, { now: true })
    await world.clock.advance(2_000)
    expect(await world.check(alloc)).toMatchObject({ Status: 'success' })
  })

  it('that crashes is pending until its restart policy lets it start', async () => {
    world = await given()
    const alloc = await world.first()
    world.nomad.crash(alloc.ID)
    await world.clock.advance(1_000)
    expect(await world.again(alloc)).toMatchObject({ ClientStatus: 'pending' })
    expect((await world.again(alloc)).TaskStates?.['app']).toMatchObject({ State: 'pending', Restarts: 1 })
    await world.clock.advance(2_000)
    expect((await world.again(alloc)).TaskStates?.['app']).toMatchObject({ State: 'running', Restarts: 1 })
  })

  it('cannot be restarted between two starts', async () => {
    world = await given()
    const alloc = await world.first()
    world.nomad.crash(alloc.ID)
    const named = `/v1/client/allocation/${alloc.ID}/restart`
    expect(await world.ask('PUT', named, { TaskName: 'app' })).toMatchObject({ status: 500, body: 'Task not running' })
    // All that run are none: Nomad finds nothing wrong with that (measured).
    expect(await world.restart(alloc)).toBe(200)
    await world.clock.advance(900)
    expect((await world.again(alloc)).TaskStates?.['app']).toMatchObject({ State: 'pending', Restarts: 1 })
  })

  it('that crashes too often fails and is replaced', async () => {
    world = await given()
    const alloc = await world.first()
    world.nomad.crash(alloc.ID)
    await world.clock.advance(3_000)
    world.nomad.crash(alloc.ID)
    await world.clock.advance(1_500)
    const failed = await world.again(alloc)
    expect(failed).toMatchObject({ ClientStatus: 'failed', DesiredStatus: 'run', NextAllocation: '' })
    expect(failed.TaskStates?.['app']).toMatchObject({ State: 'dead', Failed: true })
    await world.clock.advance(6_000)
    const { NextAllocation } = await world.again(alloc)
    const next = (await world.allocations()).find((one) => one.ID === NextAllocation)
    expect(next).toMatchObject({ Name: alloc.Name, ClientStatus: 'running' })
    expect(next?.RescheduleTracker?.Events[0]?.PrevAllocID).toBe(alloc.ID)
  })

  it('restarted by API many times never fails for that, and keeps its last ten events', async () => {
    world = await given()
    const alloc = await world.first()
    for (let i = 0; i < 5; i++) {
      await world.restart(alloc)
      await world.clock.advance(5_000)
    }
    const app = (await world.again(alloc)).TaskStates?.['app']
    expect(app).toMatchObject({ State: 'running', Restarts: 5 })
    expect(app?.Events).toHaveLength(10)
  })

  it('of a batch job that ends well is complete, and is not started again', async () => {
    world = await given(webJob({ type: 'batch', count: 1, config: { exit_after: '4s' } }))
    expect(await world.allocations()).toMatchObject([{ ClientStatus: 'complete', DesiredStatus: 'run' }])
    expect(await world.get('/v1/job/web')).toMatchObject({ Status: 'dead' })
  })

  it('takes a signal as it is told to: it goes on, reads its config anew, or ends', async () => {
    world = await given()
    const alloc = await world.first()
    const signal = (): Promise<{ status: number }> =>
      world.ask('PUT', `/v1/client/allocation/${alloc.ID}/signal`, { Task: 'app', Signal: 'SIGHUP' })
    world.nomad.setTask(alloc.ID, { healthy: false, on_signal: 'reload' })
    await signal()
    await world.clock.advance(4_000)
    expect(await world.check(alloc)).toMatchObject({ Status: 'success' })
    world.nomad.setTask(alloc.ID, {}, { now: true })
    await world.clock.advance(4_000)
    expect(await world.check(alloc)).toMatchObject({ Status: 'failure' })
    world.nomad.setTask(alloc.ID, { healthy: true })
    await signal()
    await world.clock.advance(4_000)
    expect(await world.check(alloc)).toMatchObject({ Status: 'success' })
    world.nomad.setTask(alloc.ID, { on_signal: 'exit' }, { now: true })
    await signal()
    expect((await signal()).status).toBe(500)
  })
})
