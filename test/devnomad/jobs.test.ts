import { afterEach, describe, expect, it } from 'vitest'
import type { DevConfig } from '../../src/devnomad/devnomad.ts'
import { given, webJob, World } from './given.ts'

interface DeploymentView {
  readonly Status: string
  readonly StatusDescription: string
  readonly JobVersion: number
}

describe('a job', () => {
  let world: World
  afterEach(() => world.close())
  const deployment = (): Promise<DeploymentView> => world.get('/v1/job/web/deployment')

  it('comes up under a deployment that ends when all of it is healthy', async () => {
    world = await given()
    expect(await deployment()).toMatchObject({ Status: 'successful', JobVersion: 0 })
    expect((await world.running()).map((one) => one.Name)).toEqual(['web.g[0]', 'web.g[1]'])
    expect(await world.get('/v1/job/web')).toMatchObject({ Status: 'running', Stable: true })
  })

  it('registered again unchanged gets no new version', async () => {
    world = await given()
    const same = await world.ask('PUT', '/v1/jobs', { Job: await world.get('/v1/job/web') })
    expect(same.status).toBe(200)
    await world.clock.advance(5_000)
    expect(await world.get('/v1/job/web')).toMatchObject({ Version: 0 })
    expect(await world.get('/v1/job/web/deployments')).toHaveLength(1)
  })

  it('has an update block in each group, said or not, unless it is batch', async () => {
    const [group] = webJob().TaskGroups as [object]
    const updateOf = async (Type: string): Promise<unknown> => {
      world.nomad.registerJob({ ID: Type, Type, TaskGroups: [{ ...group, Update: undefined }] })
      return (await world.get<{ TaskGroups: [{ Update: unknown }] }>(`/v1/job/${Type}`)).TaskGroups[0].Update
    }
    world = new World()
    expect(await updateOf('service')).toMatchObject({ MaxParallel: 1, ProgressDeadline: 600e9 })
    expect(await updateOf('batch')).toBe(null)
  })

  it('rolls a new version out one at a time', async () => {
    world = await given(webJob({ count: 3 }))
    world.nomad.registerJob(webJob({ count: 3, meta: { v: '2' } }))
    let most = 0
    for (let passed = 0; passed < 60_000; passed += 500) {
      await world.clock.advance(500)
      const all = await world.allocations()
      most = Math.max(most, all.filter((one) => one.JobVersion === 1 && one.DeploymentStatus?.Healthy !== true).length)
    }
    expect(most).toBe(1)
    expect(await deployment()).toMatchObject({ Status: 'successful', JobVersion: 1 })
    expect((await world.running()).map((one) => one.JobVersion)).toEqual([1, 1, 1])
  })

  it('stops rolling out when the first of the new version never becomes healthy', async () => {
    world = await given(webJob({ count: 3 }))
    world.nomad.registerJob(webJob({ count: 3, config: { healthy: false } }))
    await world.clock.advance(200_000)
    expect(await deployment()).toMatchObject({ Status: 'failed', StatusDescription: 'Failed due to progress deadline' })
    expect((await world.running()).filter((one) => one.JobVersion === 0)).toHaveLength(2)
  })

  it('grows and shrinks with its count, in place', async () => {
    world = await given()
    const before = (await world.running()).map((one) => one.ID)
    world.nomad.registerJob(webJob({ count: 3 }))
    await world.clock.advance(20_000)
    const grown = (await world.running()).map((one) => one.ID)
    expect(grown).toHaveLength(3)
    expect(grown).toEqual(expect.arrayContaining(before))
    expect(await deployment()).toMatchObject({ Status: 'successful', JobVersion: 1 })
    world.nomad.registerJob(webJob({ count: 1 }))
    await world.clock.advance(20_000)
    expect((await world.running()).map((one) => one.Name)).toEqual(['web.g[0]'])
  })

  it('that is stopped keeps its allocations in memory, and with purge they are gone', async () => {
    world = await given()
    await world.ask('DELETE', '/v1/job/web')
    await world.clock.advance(5_000)
    expect(await world.allocations()).toMatchObject([{ ClientStatus: 'complete' }, { ClientStatus: 'complete' }])
    expect(await world.get('/v1/job/web')).toMatchObject({ Stop: true, Status: 'dead' })
    await world.ask('DELETE', '/v1/job/web?purge=true')
    expect((await world.ask('GET', '/v1/job/web')).status).toBe(404)
    expect(await world.allocations()).toEqual([])
  })

  it('purged while it runs is forgotten at once, and what ran is stopped', async () => {
    world = await given()
    const alloc = await world.first()
    const since = world.clock.now()
    await world.ask('DELETE', '/v1/job/web?purge=true')
    expect(await world.allocations()).toEqual([])
    await world.clock.advance(1_000)
    expect(world.eventsOf(alloc, since)).toEqual(['stopping', 'dead'])
  })

  it('that says what cannot be is refused, and nothing is registered', async () => {
    world = await given()
    for (const config of [{ start_after: 'soon' }, { healty_after: '5s' }, { on_signal: 'dance' }] as DevConfig[]) {
      const answer = await world.ask('PUT', '/v1/jobs', { Job: webJob({ config }) })
      expect(answer).toMatchObject({ status: 500, body: expect.stringContaining('Task app validation failed') })
    }
    const [group] = webJob().TaskGroups as [object]
    for (const Update of [{ ProgressDeadline: '10m' }, { MinHealthyTime: '2s' }]) {
      const answer = await world.ask('PUT', '/v1/jobs', { Job: { ...webJob(), TaskGroups: [{ ...group, Update }] } })
      expect(answer).toMatchObject({ status: 400, body: expect.stringMatching(/^json: cannot unmarshal "/) })
      expect((await world.ask('PUT', '/v1/jobs', { Job: { ...webJob(), Update } })).status).toBe(400)
    }
    await world.clock.advance(5_000)
    expect(await world.get('/v1/job/web')).toMatchObject({ Version: 0 })
  })

  it('may have slashes in its ID, encoded or not', async () => {
    world = await given({ ...webJob(), ID: 'app/dispatch-1' })
    expect(await world.allocations('app%2Fdispatch-1')).toHaveLength(2)
    expect(await world.allocations('app/dispatch-1')).toHaveLength(2)
    expect(await world.get('/v1/job/app%2Fdispatch-1')).toMatchObject({ ID: 'app/dispatch-1' })
  })

  it('is listed by prefix, and over all namespaces with a star', async () => {
    world = await given()
    world.nomad.registerJob({ ...webJob(), ID: 'other', Namespace: 'team' })
    const ids = async (query: string): Promise<string[]> =>
      (await world.get<{ ID: string }[]>(`/v1/jobs${query}`)).map((job) => job.ID)
    expect(await ids('')).toEqual(['web'])
    expect(await ids('?prefix=x')).toEqual([])
    expect(await ids('?namespace=*')).toEqual(['web', 'other'])
  })
})
