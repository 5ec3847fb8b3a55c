import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, recorded, type Answered, type Exchange } from './exchange.ts'
import { chk, multi, web } from './jobs.ts'
import { nomadUnderTest, type NomadUnderTest } from './nomad-under-test.ts'
import { shapeOf } from './shape.ts'

interface Stub {
  readonly ID: string
  readonly Name: string
  readonly DesiredStatus: string
  readonly ClientStatus: string
  readonly NextAllocation: string
  readonly DeploymentStatus: { readonly Healthy: boolean } | null
  readonly TaskStates: Record<string, { readonly State: string; readonly Restarts: number; readonly StartedAt: string }>
}

const EXCHANGES = new Map(recorded('allocations').map((exchange) => [exchange.name, exchange]))

describe('allocations answer as those of a real Nomad did', () => {
  let nomad: NomadUnderTest
  const get = async <T>(path: string): Promise<T> =>
    (await nomad.during(ask(nomad.address, { method: 'GET', path, body: null }))).body as T
  const allocations = (job: string): Promise<Stub[]> => get(`/v1/job/${job}/allocations`)
  const settled = (job: string, count: number): Promise<Stub[]> =>
    nomad.until(
      () => allocations(job),
      (all) => all.length === count && all.every((one) => one.DeploymentStatus?.Healthy === true),
    )

  beforeAll(async () => {
    nomad = await nomadUnderTest()
    for (const job of [web, chk, multi]) {
      const answer = await ask(nomad.address, { method: 'PUT', path: '/v1/jobs', body: { Job: job } })
      expect(answer.status, JSON.stringify(answer.body)).toBe(200)
    }
    await settled('web', 3)
    await settled('chk', 2)
    await settled('multi', 2)
  })
  afterAll(async () => {
    for (const { ID } of [web, chk, multi]) {
      await ask(nomad.address, { method: 'DELETE', path: `/v1/job/${ID}?purge=true`, body: null })
    }
    await nomad.close()
  })

  /** Repeats a recorded exchange about our allocation, and holds the answer against the recorded one. */
  async function replay(name: string, own: { alloc?: string; node?: string } = {}): Promise<Answered> {
    const { request, response } = EXCHANGES.get(name) as Exchange
    const path = request.path
      .replace(/(allocation\/)(?!1{8})[0-9a-f-]{36}/, `$1${own.alloc}`)
      .replace(/(node\/)[0-9a-f-]{36}/, `$1${own.node}`)
      .replace('prefix=86d38321', `prefix=${own.alloc}`)
    const answer = await nomad.during(ask(nomad.address, { ...request, path }))
    expect({ status: answer.status, contentType: answer.contentType }, JSON.stringify(answer.body)).toEqual({
      status: response.status,
      contentType: response.contentType,
    })
    expect(answer.nomadIndex === null).toBe(response.nomadIndex === null)
    if (typeof response.body === 'string') expect(answer.body).toBe(response.body)
    else expect(shapeOf(answer.body)).toContainShape(response.body)
    return answer
  }
  const first = async (job: string): Promise<string> => (await allocations(job)).find(runs)?.ID as string

  it('any method restarts, and the answer comes when the old process has ended', async () => {
    const alloc = await first('web')
    await replay('restart with GET', { alloc })
    await nomad.until(
      () => allocations('web'),
      (all) => restarts(all, alloc) === 1,
    )
    await replay('restart task', { alloc })
    await nomad.until(
      () => allocations('web'),
      (all) => restarts(all, alloc) === 2,
    )
    await replay('prefix', { alloc })
  })

  for (const name of ['restart unknown task', 'restart task+all']) {
    it(`a restart that cannot be is refused: ${name}`, async () => {
      await replay(name, { alloc: await first('web') })
    })
  }
  for (const name of ['restart unknown alloc', 'restart short id', 'get short id', 'get unknown']) {
    it(`an allocation that is not there is not found: ${name}`, async () => {
      await replay(name)
    })
  }
  for (const name of ['deployments', 'deployment latest', 'job', 'job missing', 'job allocs missing']) {
    it(`a job is shown as recorded: ${name}`, async () => {
      await replay(name)
    })
  }

  it('a signal goes to the task', async () => {
    await replay('signal', { alloc: await first('multi') })
  })

  it('an allocation without Nomad checks has null, not an empty map', async () => {
    await replay('checks none', { alloc: await first('web') })
  })

  it('check results are those of the agent, under both addresses', async () => {
    const alloc = await first('chk')
    await replay('checks', { alloc })
    await replay('checks alias', { alloc })
    await replay('restart', { alloc })
  })

  it('services are named after their port, which is a real one, and have an index of their own', async () => {
    const alloc = await first('chk')
    const { body, nomadIndex } = await replay('services', { alloc })
    const [service] = body as { ID: string; Port: number; CreateIndex: number; ModifyIndex: number }[]
    expect(service?.ID).toBe(`_nomad-task-${alloc}-group-g-chk-http`)
    expect(service?.Port).toBeGreaterThanOrEqual(20_000)
    expect(service?.ModifyIndex).toBe(service?.CreateIndex)
    const others = await Promise.all(
      (await allocations('chk')).map(({ ID }) => get<{ CreateIndex: number }[]>(`/v1/allocation/${ID}/services`)),
    )
    expect(Number(nomadIndex)).toBe(Math.max(...others.flat().map(({ CreateIndex }) => CreateIndex)))
  })

  it('a task that has finished is left alone by a restart of the running ones, and runs again with all', async () => {
    const alloc = await first('multi')
    const times = async (task: string): Promise<string> => {
      const all = await allocations('multi')
      return all.find((one) => one.ID === alloc)?.TaskStates[task]?.StartedAt as string
    }
    const [init, app] = [await times('init'), await times('app')]
    await replay('multi: restart task=init', { alloc })
    await replay('multi: restart task=None', { alloc })
    await nomad.until(
      () => times('app'),
      (at) => at > app,
    )
    expect(await times('init')).toBe(init)
    await replay('multi: restart AllTasks', { alloc })
    await nomad.until(
      () => times('init'),
      (at) => at > init,
    )
    await replay('multi: signal all', { alloc })
  })

  it('a stopped allocation is replaced under the same name, and cannot be restarted any more', async () => {
    const alloc = await first('web')
    await replay('stop alloc', { alloc })
    const after = await nomad.until(
      () => allocations('web'),
      (all) => all.some((one) => one.ID === alloc && one.ClientStatus === 'complete'),
    )
    const old = after.find((one) => one.ID === alloc) as Stub
    expect(old.DesiredStatus).toBe('stop')
    expect(after.find((one) => one.ID === old.NextAllocation)?.Name).toBe(old.Name)
    await replay('restart terminal', { alloc })
    await replay('restart terminal all', { alloc })
    await replay('restart terminal none', { alloc })
  })

  it('a node is closed, opened, drained and opened again', async () => {
    const nodes = await get<{ ID: string }[]>('/v1/nodes')
    const node = nodes[0]?.ID as string
    await replay('multi: ineligible', { node })
    await replay('multi: eligible', { node })
    await replay('multi: drain', { node })
    await replay('multi: drain cancel mark eligible', { node })
  })
})

const runs = (alloc: Stub): boolean => alloc.DesiredStatus === 'run'
// Mostly the view jumps to the running process; sometimes it stops at the one that is to come.
const restarts = (all: readonly Stub[], id: string): number | undefined => {
  const app = all.find((one) => one.ID === id)?.TaskStates['app']
  return app?.State === 'running' ? app.Restarts : undefined
}
