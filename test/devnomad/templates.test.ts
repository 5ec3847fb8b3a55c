import { afterEach, describe, expect, it } from 'vitest'
import { timeOf } from '../../src/nomad/allocations.ts'
import { given, webJob, webJobOf, type AllocationView, type World } from './given.ts'
import type { JobSpec } from '../../src/devnomad/devnomad.ts'

const V = '{{ with nomadVar "nomad/jobs/web" }}{{ .v }}{{ end }}'

function jobWith(...templates: object[]): JobSpec {
  const job = webJob({ count: 1 })
  const [group] = job.TaskGroups as [{ Tasks: object[] }]
  const Tasks = [{ ...group.Tasks[0], Templates: templates }]
  return { ...job, TaskGroups: [{ ...group, Tasks }] }
}

describe('a template', () => {
  let world: World
  afterEach(() => world.close())
  const set = (v: string): Promise<unknown> => world.ask('PUT', '/v1/var/nomad/jobs/web', { Items: { v } })
  const start = async (job: JobSpec): Promise<AllocationView> => {
    world = await given(job)
    await set('1')
    await world.clock.advance(20_000)
    return world.first()
  }
  const read = (alloc: AllocationView): string | undefined => world.nomad.files(alloc.ID).read('/app/local/conf')

  it('with noop changes the file and nothing else', async () => {
    const alloc = await start(jobWith({ DestPath: 'local/conf', EmbeddedTmpl: V, ChangeMode: 'noop' }))
    const since = world.clock.now()
    await set('2')
    await world.clock.advance(4_999)
    expect(read(alloc)).toBe('1')
    await world.clock.advance(2)
    expect(read(alloc)).toBe('2')
    await world.clock.advance(20_000)
    expect(world.eventsOf(alloc, since)).toEqual([])
  })

  it('is written once for changes that come one after another', async () => {
    const alloc = await start(
      jobWith({ DestPath: 'local/conf', EmbeddedTmpl: V, ChangeMode: 'script', Splay: 0, ChangeScript: { Command: 'x' } }),
    )
    const since = world.clock.now()
    for (const v of ['2', '3', '4']) {
      await set(v)
      await world.clock.advance(3_000)
    }
    await world.clock.advance(5_000)
    expect(read(alloc)).toBe('4')
    expect(world.eventsOf(alloc, since)).toEqual(['script'])
  })

  it('is not touched by another variable, nor by one that keeps its value', async () => {
    const alloc = await start(jobWith({ DestPath: 'local/conf', EmbeddedTmpl: V }))
    const { ModTime } = world.nomad.files(alloc.ID).stat('/app/local/conf')
    await set('1')
    await world.ask('PUT', '/v1/var/nomad/jobs/other', { Items: { v: '2' } })
    await world.clock.advance(60_000)
    expect(world.nomad.files(alloc.ID).stat('/app/local/conf').ModTime).toBe(ModTime)
  })

  it('that signals reaches the process', async () => {
    const alloc = await start(
      jobWith({ DestPath: 'local/conf', EmbeddedTmpl: V, ChangeMode: 'signal', ChangeSignal: 'SIGHUP', Splay: 0 }),
    )
    world.nomad.setTask(alloc.ID, { on_signal: 'reload' }, { now: true })
    world.nomad.setTask(alloc.ID, { healthy: false })
    await set('2')
    await world.clock.advance(10_000)
    expect(await world.check(alloc)).toMatchObject({ Status: 'failure' })
  })

  it('that changes while its node is away is rendered when the node speaks again', async () => {
    const alloc = await start(jobWith({ DestPath: 'local/conf', EmbeddedTmpl: V, ChangeMode: 'noop' }))
    world.nomad.node(alloc.NodeName).silence()
    await set('2')
    await world.clock.advance(60_000)
    expect(read(alloc)).toBe('1')
    world.nomad.node(alloc.NodeName).speak()
    await world.clock.advance(5_001)
    expect(read(alloc)).toBe('2')
  })

  it('whose restart finds no running process is lost', async () => {
    const alloc = await start(jobWith({ DestPath: 'local/conf', EmbeddedTmpl: V, ChangeMode: 'restart', Splay: 0 }))
    await set('2')
    await world.clock.advance(4_000)
    world.nomad.crash(alloc.ID)
    await world.clock.advance(20_000)
    expect((await world.again(alloc)).TaskStates?.['app']).toMatchObject({ State: 'running', Restarts: 1 })
  })

  it('may be written and touched by a script', async () => {
    const alloc = await start(jobWith({ DestPath: 'local/conf', EmbeddedTmpl: V }))
    const files = world.nomad.files(alloc.ID)
    files.write('/alloc/data/x', 'hello')
    expect((await world.ask('GET', `/v1/client/fs/cat/${alloc.ID}?path=/alloc/data/x`)).body).toBe('hello')
    const before = files.stat('/alloc/data/x').ModTime
    files.touch('/alloc/data/x')
    expect(files.stat('/alloc/data/x').ModTime > before).toBe(true)
  })
})

describe('an identity with a file', () => {
  let world: World
  afterEach(() => world.close())

  it('is rewritten after half of its time to live, and at every start, and holds for as long as its allocation', async () => {
    const job = webJob({ count: 1 })
    const [group] = job.TaskGroups as [{ Tasks: object[] }]
    const Identities = [{ Name: 'lk', Audience: ['a', 'b'], TTL: 60e9, File: true }]
    world = await given({ ...job, TaskGroups: [{ ...group, Tasks: [{ ...group.Tasks[0], Identities }] }] })
    const alloc = await world.first()
    const read = (): string => world.nomad.files(alloc.ID).read('/app/secrets/nomad_lk.jwt') ?? ''
    const first = read()
    await world.clock.advance(31_000)
    const second = read()
    expect(second).not.toBe(first)
    await world.restart(alloc)
    await world.clock.advance(1_000)
    expect(read()).not.toBe(second)
    const claims = JSON.parse(Buffer.from(read().split('.')[1] ?? '', 'base64url').toString()) as { exp: number; iat: number }
    expect(claims).toMatchObject({ aud: ['a', 'b'], sub: 'global:default:web:g:app:lk', nomad_allocation_id: alloc.ID })
    expect(claims.exp - claims.iat).toBe(60)
  })

  it('is never newer than the process that it was written for, though both are of one millisecond and much was written', async () => {
    const Identities = [{ Name: 'lk', Audience: ['a'], File: true }]
    world = await given(webJobOf([{ Identities }]))
    const alloc = await world.first()
    const files = world.nomad.files(alloc.ID)
    const times = async (): Promise<[number, number]> => {
      const startedAt = timeOf((await world.again(alloc)).TaskStates?.['app']?.StartedAt ?? '')
      return [timeOf(files.stat('/app/secrets/nomad_lk.jwt').ModTime) as number, startedAt as number]
    }
    for (let i = 0; i < 2_000; i++) files.write('/alloc/data/x', String(i))
    await world.restart(alloc)
    await world.clock.advance(2_000)
    const [writtenAt, startedAt] = await times()
    expect(writtenAt).toBeLessThanOrEqual(startedAt)
    const over = world.nomad.observe(({ event }) => {
      if (event === 'running') files.touch('/app/secrets/nomad_lk.jwt')
    })
    await world.restart(alloc)
    await world.clock.advance(2_000)
    over()
    const [touchedAt, startedAgainAt] = await times()
    expect(Math.trunc(touchedAt)).toBe(Math.trunc(startedAgainAt))
    expect(touchedAt).toBeGreaterThan(startedAgainAt)
  })

  it.each([
    ['restart', 'dead'],
    ['noop', 'running'],
  ])('C3.17 that is renewed between two starts of its task, with change_mode %s: the task is %s', async (ChangeMode, State) => {
    const job = webJob({ count: 1 })
    const [group] = job.TaskGroups as [{ Tasks: object[] }]
    const Identities = [{ Name: 'lk', Audience: ['a'], TTL: 60e9, ChangeMode, File: true }]
    world = await given({ ...job, TaskGroups: [{ ...group, Tasks: [{ ...group.Tasks[0], Identities }] }] })
    const alloc = await world.first()
    // It was started right at the beginning, so its identity is renewed after 30 s.
    await world.clock.advance(9_000)
    world.nomad.crash(alloc.ID)
    await world.clock.advance(ChangeMode === 'noop' ? 30_000 : 5_000)
    expect((await world.again(alloc)).TaskStates?.['app']).toMatchObject({ State })
  })
})
