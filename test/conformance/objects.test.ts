// Nomad's objects have every field that was recorded of a real one, with the same kind of value.
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask } from './exchange.ts'
import { chk, multi } from './jobs.ts'
import { nomadUnderTest, type NomadUnderTest } from './nomad-under-test.ts'
import { shapeOf } from './shape.ts'

const OBJECTS = JSON.parse(readFileSync(new URL('recorded/objects.json', import.meta.url), 'utf8')) as Record<string, unknown>

describe('objects look as those of a real Nomad did', () => {
  let nomad: NomadUnderTest
  let alloc = ''
  const get = async <T>(path: string): Promise<T> =>
    (await nomad.during(ask(nomad.address, { method: 'GET', path, body: null }))).body as T
  const recordedOf = (start: string): unknown => Object.entries(OBJECTS).find(([name]) => name.startsWith(start))?.[1]

  beforeAll(async () => {
    nomad = await nomadUnderTest()
    for (const Job of [multi, chk]) await ask(nomad.address, { method: 'PUT', path: '/v1/jobs', body: { Job } })
    for (const job of ['multi', 'chk']) {
      await nomad.until(
        () => get<{ Status: string } | null>(`/v1/job/${job}/deployment`),
        (deployment) => deployment?.Status === 'successful',
      )
    }
    alloc = (await get<{ ID: string }[]>('/v1/job/multi/allocations'))[0]?.ID ?? ''
  })
  afterAll(async () => {
    for (const { ID } of [multi, chk])
      await ask(nomad.address, { method: 'DELETE', path: `/v1/job/${ID}?purge=true`, body: null })
    await nomad.close()
  })

  it('an allocation, whole and as a stub', async () => {
    // Left out: which key signs its identities. Keys are made when somebody asks for an identity.
    const { SigningKeyID: _key, ...recorded } = recordedOf('allocation (') as Record<string, unknown>
    expect(shapeOf(await get(`/v1/allocation/${alloc}`))).toContainShape(recorded)
    expect(shapeOf(await get('/v1/job/multi/allocations'))).toContainShape(recordedOf('allocation stub'))
  })

  it('a deployment, and its evaluation', async () => {
    expect(shapeOf(await get('/v1/job/multi/deployment'))).toContainShape(recordedOf('deployment ('))
    const evaluations = await get<{ TriggeredBy: string }[]>('/v1/job/multi/evaluations')
    const first = evaluations.find(({ TriggeredBy }) => TriggeredBy === 'job-register')
    // Left out: the counts of its plan.
    const { PlanAnnotations: _plan, ...recorded } = recordedOf('evaluation (') as Record<string, unknown>
    expect(shapeOf(first)).toContainShape(recorded)
  })

  it('a node, whole and as a stub', async () => {
    const nodes = await get<{ ID: string }[]>('/v1/nodes')
    expect(shapeOf(nodes[0])).toContainShape(recordedOf('node stub'))
    const recorded = recordedOf('node (') as { Attributes: Record<string, string> }
    // The double's tasks have a driver of their own.
    const { 'driver.raw_exec': _driver, ...Attributes } = recorded.Attributes
    expect(shapeOf(await get(`/v1/node/${nodes[0]?.ID}`))).toContainShape({ ...recorded, Attributes })
  })

  it('the health of the servers', async () => {
    expect(shapeOf(await get('/v1/operator/autopilot/health'))).toContainShape(recordedOf('autopilot'))
  })

  it('the results of checks', async () => {
    const [one] = await get<{ ID: string }[]>('/v1/job/chk/allocations')
    const results = await nomad.until(
      () => get<object | null>(`/v1/client/allocation/${one?.ID}/checks`),
      (found) => found !== null,
    )
    expect(shapeOf(results)).toContainShape(recordedOf('checks'))
  })

  it('the services of an allocation', async () => {
    const [one] = await get<{ ID: string }[]>('/v1/job/chk/allocations')
    const services = await get<object[]>(`/v1/allocation/${one?.ID}/services`)
    expect(services).toMatchObject([{ AllocID: one?.ID, JobID: 'chk', ServiceName: 'chk', Namespace: 'default', Tags: [] }])
    expect(await get(`/v1/allocation/${alloc}/services`)).toEqual([])
  })
})
