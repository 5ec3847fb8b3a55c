// Canaries, system jobs and what finds no room: what the servers decide, over HTTP.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, type Answered } from './exchange.ts'
import { canary, filed, system, tooLarge } from './jobs.ts'
import { nomadUnderTest, type NomadUnderTest } from './nomad-under-test.ts'

interface Stub {
  readonly ID: string
  readonly Name: string
  readonly JobVersion: number
  readonly DesiredStatus: string
  readonly DesiredDescription: string
  readonly ClientStatus: string
  readonly DeploymentStatus: { readonly Healthy: boolean | null; readonly Canary: boolean } | null
}
interface Deployment {
  readonly ID: string
  readonly JobVersion: number
  readonly Status: string
  readonly StatusDescription: string
  readonly TaskGroups: Record<string, Record<string, unknown>>
}

describe('deployments are as those of a real Nomad', () => {
  let nomad: NomadUnderTest
  const send = (method: string, path: string, body: unknown = null): Promise<Answered> =>
    nomad.during(ask(nomad.address, { method, path, body }))
  const get = async <T>(path: string): Promise<T> => (await send('GET', path)).body as T
  const allocations = (job: string): Promise<Stub[]> => get(`/v1/job/${job}/allocations`)
  const latest = (job: string): Promise<Deployment> => get(`/v1/job/${job}/deployment`)
  const until = (job: string, version: number, holds: (deployment: Deployment) => boolean): Promise<Deployment> =>
    nomad.until(
      () => latest(job),
      (deployment) => deployment?.JobVersion === version && holds(deployment),
    )
  const successful = ({ Status }: Deployment): boolean => Status === 'successful'
  const canaryIsHealthy = ({ TaskGroups }: Deployment): boolean => TaskGroups['g']?.['HealthyAllocs'] === 1

  beforeAll(async () => {
    nomad = await nomadUnderTest()
  })
  afterAll(async () => {
    for (const { ID } of [canary('1'), system('1'), tooLarge]) await send('DELETE', `/v1/job/${ID}?purge=true`)
    await nomad.close()
  })

  it('a first version has no canaries', async () => {
    await send('PUT', '/v1/jobs', { Job: canary('1') })
    const { TaskGroups } = await until('canary', 0, successful)
    expect(TaskGroups['g']).toMatchObject({ DesiredCanaries: 0, PlacedCanaries: null, Promoted: false })
  })

  it('a canary runs beside the old ones under one of their names, and waits to be promoted', async () => {
    await send('PUT', '/v1/jobs', { Job: canary('2') })
    const waiting = await until('canary', 1, canaryIsHealthy)
    expect(waiting).toMatchObject({
      Status: 'running',
      StatusDescription: 'Deployment is running but requires manual promotion',
    })
    expect(waiting.TaskGroups['g']).toMatchObject({ DesiredCanaries: 1, DesiredTotal: 2, PlacedAllocs: 1, Promoted: false })
    const all = await allocations('canary')
    const [fresh] = all.filter(({ JobVersion }) => JobVersion === 1)
    expect(fresh).toMatchObject({ Name: 'canary.g[0]', DeploymentStatus: { Healthy: true, Canary: true } })
    expect(waiting.TaskGroups['g']?.['PlacedCanaries']).toEqual([fresh?.ID])
    expect(all.filter(({ DesiredStatus }) => DesiredStatus === 'run')).toHaveLength(3)
  })

  it('promoted, it takes the place of its namesake, and the others are updated', async () => {
    const { ID } = await latest('canary')
    const promoted = await send('PUT', `/v1/deployment/promote/${ID}`, { DeploymentID: ID, All: true })
    expect(promoted.status).toBe(200)
    expect(promoted.body).toMatchObject({ RevertedJobVersion: null, DeploymentModifyIndex: expect.any(Number) })
    const done = await until('canary', 1, successful)
    expect(done.TaskGroups['g']).toMatchObject({ DesiredCanaries: 1, HealthyAllocs: 2, PlacedAllocs: 2, Promoted: true })
    const all = await allocations('canary')
    const left = all.filter(({ DesiredStatus }) => DesiredStatus === 'run')
    expect(left.map(({ JobVersion }) => JobVersion)).toEqual([1, 1])
    expect(new Set(left.map(({ Name }) => Name))).toEqual(new Set(['canary.g[0]', 'canary.g[1]']))
    expect(left.map(({ DeploymentStatus }) => DeploymentStatus?.Canary)).toEqual([false, false])
    const whys = all
      .filter(({ JobVersion }) => JobVersion === 0)
      .map(({ Name, DesiredDescription }) => [Name, DesiredDescription])
    expect(new Map(whys as [string, string][])).toEqual(
      new Map([
        ['canary.g[0]', 'alloc not needed due to job update'],
        ['canary.g[1]', 'alloc is being updated due to job update'],
      ]),
    )
    expect(await send('PUT', `/v1/deployment/promote/${ID}`, { DeploymentID: ID, All: true })).toMatchObject({
      status: 500,
      body: "can't promote terminal deployment",
    })
  })

  it('failed by hand it ends its canary and leaves the others alone', async () => {
    await send('PUT', '/v1/jobs', { Job: canary('3') })
    const { ID } = await until('canary', 2, ({ TaskGroups }) => TaskGroups['g']?.['PlacedAllocs'] === 1)
    const early = await send('PUT', `/v1/deployment/promote/${ID}`, { DeploymentID: ID, All: true })
    expect(early).toMatchObject({
      status: 500,
      body: '1 error occurred:\n\t* Task group "g" has 0/1 healthy allocations\n\n',
    })
    expect((await send('PUT', `/v1/deployment/fail/${ID}`, {})).status).toBe(200)
    expect(await get(`/v1/deployment/${ID}`)).toMatchObject({
      Status: 'failed',
      StatusDescription: 'Deployment marked as failed',
    })
    await nomad.until(
      () => allocations('canary'),
      (all) => all.every(({ JobVersion, DesiredStatus }) => JobVersion !== 2 || DesiredStatus === 'stop'),
    )
    const left = (await allocations('canary')).filter(({ DesiredStatus }) => DesiredStatus === 'run')
    expect(left.map(({ JobVersion }) => JobVersion)).toEqual([1, 1])
    expect(await send('PUT', `/v1/deployment/fail/${ID}`, {})).toMatchObject({
      status: 500,
      body: "can't fail terminal deployment",
    })
  })

  it('is paused and resumed by its ID, said twice', async () => {
    const none = '11111111-2222-4333-8444-555555555555'
    const pause = (body: object) => send('PUT', `/v1/deployment/pause/${none}`, body)
    expect(await pause({})).toMatchObject({ status: 400, body: 'DeploymentID must be specified' })
    expect(await pause({ DeploymentID: 'x' })).toMatchObject({ status: 400, body: 'Deployment ID does not match' })
    expect(await pause({ DeploymentID: none, Pause: true })).toMatchObject({ status: 500, body: 'deployment not found' })
    expect((await send('GET', `/v1/deployment/pause/${none}`)).status).toBe(405)
  })

  it('a system job has them too, one allocation for each node', async () => {
    const nodes = await get<unknown[]>('/v1/nodes')
    await send('PUT', '/v1/jobs', { Job: system('1') })
    const first = await until('system', 0, successful)
    expect(first.TaskGroups['g']).toMatchObject({ DesiredTotal: nodes.length, HealthyAllocs: nodes.length })
    await send('PUT', '/v1/jobs', { Job: system('2') })
    await until('system', 1, successful)
    const all = await allocations('system')
    expect(new Set(all.map(({ Name }) => Name))).toEqual(new Set(['system.g[0]']))
    expect(all.filter(({ DesiredStatus }) => DesiredStatus === 'run')).toHaveLength(nodes.length)
  })

  it('what finds no room waits in a blocked evaluation that says why', async () => {
    await send('PUT', '/v1/jobs', { Job: tooLarge })
    const evaluations = await nomad.until(
      () => get<{ ID: string; Status: string; BlockedEval?: string }[]>('/v1/job/large/evaluations'),
      (all) => all.some(({ Status }) => Status === 'blocked') && all.some(({ BlockedEval }) => BlockedEval),
    )
    const blocked = evaluations.find(({ Status }) => Status === 'blocked')
    expect(blocked).toMatchObject({
      Type: 'service',
      TriggeredBy: 'queued-allocs',
      StatusDescription: 'created to place remaining allocations',
    })
    const first = evaluations.find(({ BlockedEval }) => BlockedEval === blocked?.ID)
    expect(first).toMatchObject({ Status: 'complete', TriggeredBy: 'job-register', QueuedAllocations: { g: 1 } })
    const shortage = { g: { NodesExhausted: expect.any(Number), DimensionExhausted: { memory: expect.any(Number) } } }
    expect(first).toMatchObject({ FailedTGAllocs: shortage })
    expect(await allocations('large')).toEqual([])
    expect(await get('/v1/jobs?prefix=large')).toMatchObject([{ JobSummary: { Summary: { g: { Queued: 1 } } } }])
    expect(await get('/v1/evaluations?job=large')).toHaveLength(evaluations.length)
    const none = '11111111-2222-4333-8444-555555555555'
    expect(await send('GET', `/v1/evaluation/${none}`)).toMatchObject({ status: 404, body: 'eval not found' })
    expect(await send('GET', `/v1/deployment/${none}`)).toMatchObject({ status: 404, body: 'deployment not found' })
  })

  it('jobs are found by the keys of their meta', async () => {
    const ids = async (filter: string): Promise<string[]> =>
      (await get<{ ID: string }[]>(`/v1/jobs?namespace=*&filter=${encodeURIComponent(filter)}`)).map(({ ID }) => ID)
    expect(await ids('"v" in Meta')).toEqual(['canary', 'system'])
    expect(await ids('"none" in Meta')).toEqual([])
    expect(await ids('"v" in Meta and Type == "system"')).toEqual(['system'])
    expect((await send('GET', '/v1/jobs?filter=x%20in')).status).toBe(400)
    expect(await ids(`ID == "${filed.ID}"`)).toEqual([])
  })
})
