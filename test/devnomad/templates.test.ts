import { afterEach, describe, expect, it } from 'vitest'
import { timeOf } from '../../src/nomad/allocations.ts'
import { given, givenRendered, jobWith, template, webJob, webJobOf, type AllocationView, type World } from './given.ts'
import type { JobSpec } from '../../src/devnomad/devnomad.ts'

const V = template()
const V2 = template('/b')

describe('a template', () => {
  let world: World
  afterEach(() => world.close())
  const start = async (job: JobSpec): Promise<AllocationView> => {
    world = await givenRendered(job)
    return world.first()
  }

  it('with noop changes the file and nothing else', async () => {
    const alloc = await start(jobWith({ DestPath: 'local/conf', EmbeddedTmpl: V, ChangeMode: 'noop' }))
    const since = world.clock.now()
    await world.set('2')
    await world.clock.advance(4_999)
    expect(world.read(alloc)).toBe('1')
    await world.clock.advance(2)
    expect(world.read(alloc)).toBe('2')
    await world.clock.advance(20_000)
    expect(world.eventsOf(alloc, since)).toEqual([])
  })

  it('is written once for changes that come one after another', async () => {
    const alloc = await start(
      jobWith({ DestPath: 'local/conf', EmbeddedTmpl: V, ChangeMode: 'script', Splay: 0, ChangeScript: { Command: 'x' } }),
    )
    const since = world.clock.now()
    for (const v of ['2', '3', '4']) {
      await world.set(v)
      await world.clock.advance(3_000)
    }
    await world.clock.advance(5_000)
    expect(world.read(alloc)).toBe('4')
    expect(world.eventsOf(alloc, since)).toEqual(['script'])
  })

  it('is not touched by another variable, nor by one that keeps its value', async () => {
    const alloc = await start(jobWith({ DestPath: 'local/conf', EmbeddedTmpl: V }))
    const { ModTime } = world.nomad.files(alloc.ID).stat('/app/local/conf')
    await world.set('1')
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
    await world.set('2')
    await world.clock.advance(10_000)
    expect(await world.check(alloc)).toMatchObject({ Status: 'failure' })
  })

  describe('that runs a script', () => {
    const script = (more: object = {}): object => ({
      DestPath: 'local/conf',
      EmbeddedTmpl: V,
      ChangeMode: 'script',
      Splay: 0,
      ChangeScript: { Command: '/bin/x', Args: ['a', 'b'], ...more },
    })
    const says = async (alloc: AllocationView): Promise<string | undefined> =>
      (await world.again(alloc)).TaskStates?.['app']?.Events.at(-1)?.DisplayMessage

    it('says when the script has ended, and then does what has been rendered meanwhile', async () => {
      const alloc = await start(jobWith(script({ Timeout: 60e9 }), { DestPath: 'local/b', EmbeddedTmpl: V2, Splay: 0 }))
      world.nomad.setTask(alloc.ID, { script_takes: '8s' }, { now: true })
      const since = world.clock.now()
      await world.set('2')
      await world.clock.advance(6_000)
      await world.set('2', '/b')
      await world.clock.advance(5_500)
      expect(world.read(alloc, 'b')).toBe('2')
      await world.clock.advance(5_000)
      const seen = world.events.filter(({ at }) => at >= since).map(({ at, event }) => [at - since, event])
      expect(seen.slice(0, 2)).toEqual([
        [5_000, 'script'],
        [13_000, 'stopping'],
      ])
    })

    it('tells how the script has ended: well, badly, or killed for its timeout', async () => {
      const alloc = await start(jobWith(script()))
      await world.set('2')
      await world.clock.advance(7_000)
      expect(await says(alloc)).toBe('Template successfully ran script /bin/x with arguments: [a b]. Exit code: 0')
      world.nomad.setTask(alloc.ID, { script_exit_code: 3 }, { now: true })
      await world.set('3')
      await world.clock.advance(7_000)
      expect(await says(alloc)).toBe('Template ran script /bin/x with arguments [a b] on change but it exited with code: 3')
      world.nomad.setTask(alloc.ID, { script_takes: '1h' }, { now: true })
      await world.set('4')
      await world.clock.advance(12_000)
      expect(await says(alloc)).toBe('Template ran script /bin/x with arguments [a b] on change but it exited with code: -1')
      expect((await world.again(alloc)).ClientStatus).toBe('running')
    })

    it('fails its task with the script when it says fail_on_error', async () => {
      const alloc = await start(jobWith(script({ FailOnError: true })))
      world.nomad.setTask(alloc.ID, { script_exit_code: 1 }, { now: true })
      await world.set('2')
      await world.clock.advance(7_000)
      expect(await world.again(alloc)).toMatchObject({ ClientStatus: 'failed', TaskStates: { app: { Failed: true } } })
    })

    it('does not run it when another one restarts the task', async () => {
      const alloc = await start(jobWith(script(), { DestPath: 'local/b', EmbeddedTmpl: V, Splay: 0 }))
      const since = world.clock.now()
      await world.set('2')
      await world.clock.advance(10_000)
      expect(world.eventsOf(alloc, since)).not.toContain('script')
      expect((await world.again(alloc)).TaskStates?.['app']).toMatchObject({ Restarts: 1 })
    })
  })

  it('that changes while its node is away is rendered when the node speaks again', async () => {
    const alloc = await start(jobWith({ DestPath: 'local/conf', EmbeddedTmpl: V, ChangeMode: 'noop' }))
    world.nomad.node(alloc.NodeName).silence()
    await world.set('2')
    await world.clock.advance(60_000)
    expect(world.read(alloc)).toBe('1')
    world.nomad.node(alloc.NodeName).speak()
    await world.clock.advance(5_001)
    expect(world.read(alloc)).toBe('2')
  })

  it('whose restart finds no running process is lost', async () => {
    const alloc = await start(jobWith({ DestPath: 'local/conf', EmbeddedTmpl: V, ChangeMode: 'restart', Splay: 0 }))
    await world.set('2')
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

  it('that signals does so at once, without a splay', async () => {
    const Identities = [{ Name: 'lk', Audience: ['a'], TTL: 60e9, ChangeMode: 'signal', ChangeSignal: 'SIGHUP', File: true }]
    world = await given(webJobOf([{ Identities, Config: { on_signal: 'exit' } }]))
    const alloc = await world.first()
    const startedAt = world.events.find(({ event }) => event === 'running')?.at ?? 0
    await world.clock.advance(15_000)
    const dead = world.events.find(({ event }) => event === 'dead')
    expect((dead?.at ?? 0) - startedAt).toBe(30_000)
    const said = (await world.again(alloc)).TaskStates?.['app']?.Events.map(({ DisplayMessage }) => DisplayMessage)
    expect(said).toEqual(expect.arrayContaining(['Identity[lk]: new Identity token acquired', 'Exit Code: 129, Signal: 1']))
  })
})

describe('a Vault token', () => {
  let world: World
  afterEach(() => world.close())

  it('stays through a restart, and does what its change_mode says when Vault did not renew it', async () => {
    world = await given(webJobOf([{ Vault: {} }]))
    const alloc = await world.first()
    const read = (): string | undefined => world.nomad.files(alloc.ID).read('/app/secrets/vault_token')
    const first = read()
    expect(first).toMatch(/^hvs\./)
    await world.restart(alloc)
    await world.clock.advance(5_000)
    expect(read()).toBe(first)
    const since = world.clock.now()
    world.nomad.renewVaultToken(alloc.ID, 'app')
    await world.clock.advance(2_000)
    expect(read()).not.toBe(first)
    expect(world.eventsOf(alloc, since).slice(0, 2)).toEqual(['stopping', 'dead'])
    expect((await world.again(alloc)).TaskStates?.['app']).toMatchObject({ State: 'running', Restarts: 2 })
  })
})
