import { afterEach, describe, expect, it } from 'vitest'
import { given, webJobOf, type AllocationView, type World } from './given.ts'

const task = (Name: string, Config: object = {}, Hook = '', Sidecar = false): object => ({
  Name,
  Config,
  Lifecycle: Hook === '' ? null : { Hook, Sidecar },
})

/** `task event` in the order in which they happened, with the time after the first, in seconds. */
function story(world: World, since: number, ...wanted: string[]): [number, string][] {
  const seen = world.events.filter(({ at, event }) => at >= since && wanted.includes(event))
  const start = seen[0]?.at ?? 0
  return seen.map(({ at, task, event }) => [(at - start) / 1_000, `${task} ${event}`])
}

describe('lifecycles', () => {
  let world: World
  afterEach(() => world.close())

  it('main tasks wait for the prestart tasks to end and for the prestart sidecars to run, poststart ones for them', async () => {
    world = await given(
      webJobOf([
        task('app'),
        task('after', {}, 'poststart'),
        task('beside', {}, 'poststart', true),
        task('proxy', { start_after: '4s' }, 'prestart', true),
        task('init', { exit_after: '2s' }, 'prestart'),
      ]),
    )
    expect(story(world, 0, 'running', 'dead')).toEqual([
      [0, 'init running'],
      [2, 'init dead'],
      [4, 'proxy running'],
      [4, 'app running'],
      [4, 'after running'],
      [4, 'beside running'],
      [4, 'after dead'],
    ])
  })

  it('at its end sidecars are told after all others have gone, and poststop tasks run last', async () => {
    world = await given(
      webJobOf([
        task('proxy', { stop_after: '1s' }, 'prestart', true),
        task('cleanup', {}, 'poststop'),
        task('app', { stop_after: '2s' }),
      ]),
    )
    const since = world.clock.now()
    await world.ask('DELETE', '/v1/job/web')
    await world.clock.advance(20_000)
    expect(story(world, since, 'stopping', 'running', 'dead')).toEqual([
      [0, 'app stopping'],
      [2, 'app dead'],
      [2, 'proxy stopping'],
      [3, 'proxy dead'],
      [3, 'cleanup running'],
      [3, 'cleanup dead'],
    ])
    expect(await world.allocations()).toMatchObject([{ ClientStatus: 'complete' }])
  })

  it('all tasks that are restarted run again in the order of their stages', async () => {
    world = await given(webJobOf([task('app', { stop_after: '2s' }), task('init', { exit_after: '1s' }, 'prestart')]))
    const since = world.clock.now()
    const restarted = world.ask('PUT', `/v1/client/allocation/${(await world.first()).ID}/restart`, { AllTasks: true })
    await world.clock.advance(10_000)
    expect((await restarted).status).toBe(200)
    expect(story(world, since, 'stopping', 'running', 'dead')).toEqual([
      [0, 'app stopping'],
      [2, 'app dead'],
      [2, 'init running'],
      [3, 'init dead'],
      [3, 'app running'],
    ])
  })
})

describe('a shutdown_delay', () => {
  let world: World
  afterEach(() => world.close())
  const restart = async (body: object): Promise<[number, string][]> => {
    const since = world.clock.now()
    const { ID } = await world.first()
    void world.ask('PUT', `/v1/client/allocation/${ID}/restart`, body)
    await world.clock.advance(20_000)
    return world.events.filter(({ at }) => at >= since).map(({ at, event }) => [at - since, event])
  }

  it('of a group is waited for before its tasks are restarted or stopped, but not before one that is named', async () => {
    world = await given(webJobOf([task('app')], { ShutdownDelay: 5e9, Services: null }))
    expect((await restart({}))[0]).toEqual([5_000, 'stopping'])
    expect((await restart({ AllTasks: true }))[0]).toEqual([5_000, 'stopping'])
    expect((await restart({ TaskName: 'app' }))[0]).toEqual([0, 'stopping'])
    const since = world.clock.now()
    await world.ask('DELETE', '/v1/job/web')
    await world.clock.advance(20_000)
    const [stopping] = world.events.filter(({ at, event }) => at >= since && event === 'stopping')
    expect((stopping?.at ?? 0) - since).toBeGreaterThanOrEqual(5_000)
  })

  it('of a task is waited for before it is stopped, as pending, but not before it is restarted', async () => {
    world = await given(webJobOf([{ ...task('app'), ShutdownDelay: 5e9 }]))
    expect((await restart({}))[0]).toEqual([0, 'stopping'])
    const alloc = await world.first()
    const since = world.clock.now()
    await world.ask('DELETE', '/v1/job/web')
    await world.clock.advance(2_000)
    const app = (await world.again(alloc)).TaskStates?.['app']
    expect(app).toMatchObject({ State: 'pending' })
    expect(app?.Events.at(-1)?.DisplayMessage).toBe('Waiting for shutdown_delay of 5s before killing the task.')
    expect(world.eventsOf(alloc, since)).toEqual([])
    await world.clock.advance(20_000)
    expect(world.eventsOf(alloc, since)).toEqual(['stopping', 'dead'])
  })
})

describe('a task that is told to end', () => {
  let world: World
  afterEach(() => world.close())
  const texts = async (alloc: AllocationView): Promise<string[]> =>
    (await world.again(alloc)).TaskStates?.['app']?.Events.map(({ DisplayMessage }) => DisplayMessage) ?? []

  it('is told by the signal of its jobspec, and by SIGINT without one', async () => {
    world = await given(webJobOf([{ ...task('app'), KillSignal: 'SIGTERM' }]))
    const alloc = await world.first()
    await world.restart(alloc)
    await world.clock.advance(2_000)
    expect(await texts(alloc)).toContain('Exit Code: 143, Signal: 15')
  })

  it('and does not is killed after its kill_timeout, of which no client grants more than 30 s', async () => {
    world = await given(webJobOf([{ ...task('app', { stop_after: '1h' }), KillTimeout: 300e9 }]))
    const alloc = await world.first()
    const since = world.clock.now()
    await world.ask('DELETE', '/v1/job/web')
    await world.clock.advance(40_000)
    expect(await texts(alloc)).toEqual(
      expect.arrayContaining(['Sent interrupt. Waiting 30s before force killing', 'Exit Code: 137, Signal: 9']),
    )
    const [stopping, dead] = world.events.filter(({ at }) => at >= since)
    expect((dead?.at ?? 0) - (stopping?.at ?? 0)).toBe(30_000)
  })

  it('by an API signal has that signal recorded, which counts for its restart policy', async () => {
    world = await given(webJobOf([task('app', { on_signal: 'exit' })]))
    const alloc = await world.first()
    const hup = (): Promise<unknown> =>
      world.ask('PUT', `/v1/client/allocation/${alloc.ID}/signal`, { Task: 'app', Signal: 'SIGHUP' })
    await hup()
    await world.clock.advance(5_000)
    expect(await texts(alloc)).toContain('Exit Code: 129, Signal: 1')
    // One attempt is allowed: the second end is the failure.
    await hup()
    await world.clock.advance(2_000)
    expect(await world.again(alloc)).toMatchObject({ ClientStatus: 'failed' })
  })

  it('is restarted by a call that is answered only when the old process has gone', async () => {
    world = await given(webJobOf([{ ...task('app', { stop_after: '20s' }), KillTimeout: 30e9 }]))
    const { ID } = await world.first()
    let answered = false
    const answer = world.ask('PUT', `/v1/client/allocation/${ID}/restart`, {}).then(() => (answered = true))
    await world.clock.advance(19_999)
    expect(answered).toBe(false)
    await world.clock.advance(1)
    await answer
  })
})
