import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { watchedJob, WatchingWorld } from '../support/watching.ts'

const SECOND = 1_000
const MINUTE = 60_000
const ENV = '/app/secrets/app.env'

let world: WatchingWorld
beforeEach(() => void (world = new WatchingWorld()))
afterEach(() => world.close())

const restarts = async (allocation: string) => (await world.soon(world.cluster.allocation(allocation)))?.tasks['app']?.restarts

describe('a watched file', () => {
  it('that changes makes one request for each allocation, dated, and then all run with it', async () => {
    const allocations = await world.withWatched()
    const watcher = await world.watcher()
    await world.clock.advance(MINUTE)
    expect(world.asked).toEqual([])
    expect(await world.converged(watcher)).toBe('3 of 3')
    await world.set('2')
    await world.clock.advance(2 * MINUTE)
    expect(world.asked.map(({ allocation }) => allocation).toSorted()).toEqual(allocations.toSorted())
    expect(world.asked[0]).toEqual({
      allocation: expect.any(String),
      task: 'app',
      action: 'restart',
      reason: 'secrets/app.env changed since app was started',
      since: expect.any(Number),
      watched: true,
    })
    for (const allocation of allocations) expect(await restarts(allocation)).toBe(1)
    expect(await world.converged(watcher)).toBe('3 of 3')
    expect((await world.soon(world.variables.list('lockkeeper/watch/'))).variables).toEqual([])
    expect(world.problems()).toEqual([])
  })

  it('C3.4 that changed while everything was down is noticed afterwards, and one older than its process is left alone', async () => {
    const [first = '', second = ''] = await world.withWatched({ allocations: 2 })
    world.nomad.files(first).touch(ENV)
    await world.clock.advance(6 * 60 * MINUTE)
    await world.restart(second)
    await world.clock.advance(MINUTE)
    await world.watcher()
    await world.clock.advance(MINUTE)
    expect(world.asked.map(({ allocation }) => allocation)).toEqual([first])
  })

  it('that changes three times while nothing can be done is one request more, and one restart', async () => {
    const [allocation = ''] = await world.withWatched({ allocations: 1 })
    const keeper = await world.replica()
    const path = keeper.paths.managedRequest({ namespace: 'default', job: 'web', group: 'api' }, allocation)
    world.act = async () => {
      const { variable } = await world.variables.get(path)
      if (variable === null) await world.variables.put(path, { request: '{}' }, 0)
    }
    await world.watcher(keeper)
    for (const v of ['2', '3', '4']) {
      await world.set(v)
      await world.clock.advance(5 * MINUTE)
    }
    const dates = world.asked.map(({ since }) => since as number)
    expect(dates).toHaveLength(3)
    expect(dates).toEqual(dates.toSorted((a, b) => a - b))
    await world.restart(allocation)
    const { variable } = await world.soon(world.variables.get(path))
    await world.soon(world.variables.remove(path, variable?.modifyIndex ?? 0))
    await world.clock.advance(10 * MINUTE)
    expect(world.asked).toHaveLength(3)
  })

  it('is not acted on while it is being written', async () => {
    const [allocation = ''] = await world.withWatched({ allocations: 1 })
    const watcher = await world.watcher()
    await world.clock.advance(MINUTE)
    for (let write = 0; write < 20; write++) {
      world.nomad.files(allocation).touch(ENV)
      await world.clock.advance(3 * SECOND)
      expect(world.asked).toEqual([])
    }
    expect(await world.statusOf(watcher, allocation)).toBe('changed secrets/app.env changed')
    await world.clock.advance(40 * SECOND)
    expect(world.asked).toHaveLength(1)
  })

  it('C3.10 that is overwritten a hundred times a minute is acted on all the same, and is one request at a time', async () => {
    const [allocation = ''] = await world.withWatched({ allocations: 1 })
    const keeper = await world.replica()
    const path = keeper.paths.managedRequest({ namespace: 'default', job: 'web', group: 'api' }, allocation)
    let stored = 0
    let lastAct = -Infinity
    // Managed as it is: merged while it is open, done when ten minutes have passed.
    world.act = async () => {
      const { variable } = await world.variables.get(path)
      if (variable !== null) return
      await world.variables.put(path, { request: '{}' }, 0)
      stored++
    }
    await world.watcher(keeper)
    for (let second = 0; second < 3_600; second += 0.6) {
      world.nomad.files(allocation).touch(ENV)
      await world.clock.advance(600)
      const { variable } = await world.soon(world.variables.get(path))
      if (variable === null || world.clock.now() - lastAct < 10 * MINUTE) continue
      lastAct = world.clock.now()
      await world.restart(allocation)
      await world.soon(world.variables.remove(path, variable.modifyIndex))
    }
    expect(stored).toBeGreaterThan(0)
    expect(stored).toBeLessThanOrEqual(7)
  }, 120_000)

  it('C3.8 an identity that is renewed every 30 seconds, beside what is watched by a pattern, is no change', async () => {
    const identities = [{ Name: 'lk', Audience: ['a'], TTL: 60e9, File: true }]
    await world.withWatched({ jobMeta: { lockkeeper_watch: 'secrets/*' }, identities })
    const watcher = await world.watcher()
    await world.clock.advance(60 * MINUTE)
    expect(world.asked).toEqual([])
    expect(await world.converged(watcher)).toBe('3 of 3')
    await world.set('2')
    await world.clock.advance(MINUTE)
    expect(world.asked).toHaveLength(3)
  })

  it('that its task writes at each start is found out: no third restart, its name is told, and nobody else starts it over', async () => {
    const [allocation = ''] = await world.withWatched({ allocations: 1 })
    const doomed = await world.replica()
    const first = await world.watcher(doomed)
    world.nomad.observe(({ event, alloc }) => {
      if (event === 'running') void world.clock.sleep(3 * SECOND).then(() => world.nomad.files(alloc).touch(ENV))
    })
    await world.set('2')
    await world.clock.advance(20 * MINUTE)
    expect(await restarts(allocation)).toBe(2)
    expect(await world.statusOf(first, allocation)).toMatch(/^found_out secrets\/app.env: new again after each act/)
    expect(world.problems().filter((text) => text.includes('secrets/app.env'))).toHaveLength(1)
    await world.kill(doomed)
    const second = await world.watcher()
    await world.clock.advance(60 * MINUTE)
    expect(await restarts(allocation)).toBe(2)
    expect(await world.statusOf(second, allocation)).toMatch(/^found_out/)
  })

  it('that is dated in the future is found out at the second time, also by another replica', async () => {
    const [allocation = ''] = await world.withWatched({
      allocations: 1,
      templates: [],
      jobMeta: { lockkeeper_watch: 'local/ca.pem' },
    })
    const files = world.nomad.files(allocation)
    files.write('/app/local/ca.pem', 'x')
    const stat = files.stat.bind(files)
    files.stat = (path) => {
      const info = stat(path)
      return info.IsDir ? info : { ...info, ModTime: '2036-01-01T00:00:00.000000001Z' }
    }
    const doomed = await world.replica()
    await world.watcher(doomed)
    await world.until(async () => world.asked.length > 0)
    expect(world.asked[0]?.since).toBeUndefined()
    await world.kill(doomed)
    const watcher = await world.watcher()
    await world.clock.advance(60 * MINUTE)
    expect(await restarts(allocation)).toBe(1)
    expect(await world.statusOf(watcher, allocation)).toMatch(/^found_out local\/ca.pem/)
  })
})

describe('a watched file of a task that takes a signal', () => {
  const jobMeta = { lockkeeper_watch: 'secrets/app.env', lockkeeper_action: 'signal', lockkeeper_signal: 'SIGUSR1' }

  it('is told of once for each change, whatever replica looks', async () => {
    const allocations = await world.withWatched({ jobMeta })
    const doomed = await world.replica()
    await world.watcher(doomed)
    await world.set('2')
    await world.clock.advance(5 * MINUTE)
    expect(world.asked).toHaveLength(3)
    expect(world.asked[0]).toMatchObject({ action: 'signal', signal: 'SIGUSR1', task: 'app' })
    await world.kill(doomed)
    const watcher = await world.watcher()
    await world.clock.advance(60 * MINUTE)
    expect(world.asked).toHaveLength(3)
    expect(await world.converged(watcher)).toBe('3 of 3')
    await world.set('3')
    await world.clock.advance(5 * MINUTE)
    expect(world.asked).toHaveLength(6)
    for (const allocation of allocations) expect(await restarts(allocation)).toBe(0)
  })

  it('leaves nothing behind when its allocation is gone', async () => {
    await world.withWatched({ jobMeta })
    await world.watcher()
    await world.set('2')
    await world.clock.advance(5 * MINUTE)
    const listed = async () => (await world.soon(world.variables.list('lockkeeper/watch/'))).variables.length
    expect(await listed()).toBe(3)
    await world.soon(world.nomad.handle({ method: 'DELETE', path: '/v1/job/web?purge=true' }))
    await world.clock.advance(3 * MINUTE)
    expect(await listed()).toBe(0)
  })
})

describe('what cannot be seen', () => {
  it('is unknown, not up to date: a client that does not answer, and what it has changed is noticed when it is back', async () => {
    const allocations = await world.withWatched()
    const watcher = await world.watcher()
    await world.clock.advance(MINUTE)
    const [allocation = ''] = allocations
    const node = (await world.soon(world.cluster.allocation(allocation)))?.nodeName as string
    const there = await world.soon(world.cluster.allocations('default', 'web'))
    const away = there.filter(({ nodeName }) => nodeName === node).length
    for (const how of ['refuses', 'hangs'] as const) {
      world.nomad.node(node).silence(how)
      await world.clock.advance(45 * SECOND)
      expect(await world.statusOf(watcher, allocation)).toMatch(/^unknown .*client/)
      expect(await world.converged(watcher)).toBe(`${3 - away} of 3`)
      world.nomad.node(node).speak()
      await world.clock.advance(90 * SECOND)
      expect(await world.converged(watcher)).toBe('3 of 3')
    }
    world.nomad.node(node).silence()
    await world.set('2')
    await world.clock.advance(40 * SECOND)
    world.nomad.node(node).speak()
    await world.clock.advance(3 * MINUTE)
    expect(new Set(world.asked.map((asked) => asked.allocation))).toEqual(new Set(allocations))
  })

  it('without the right to see files it says what is missing, asks once in a while, and goes on when it has it', async () => {
    const [allocation = ''] = await world.withWatched()
    world.nomad.faults.next(
      ({ path }) => path.includes('/client/fs/'),
      { kind: 'answer', status: 403, body: 'Permission denied' },
      Infinity,
    )
    const watcher = await world.watcher()
    world.sent = []
    await world.clock.advance(5 * MINUTE)
    expect(world.sent.filter(({ path }) => path.includes('/fs/')).length).toBeLessThan(30)
    expect((await world.seen(watcher)).missing).toEqual([
      expect.stringContaining('no right read-fs there, see deploy/acl/watch.policy.hcl'),
    ])
    expect(await world.statusOf(watcher, allocation)).toMatch(/^unknown .*read-fs/)
    expect(world.problems().filter((text) => text.includes('read-fs'))).toHaveLength(1)
    world.nomad.faults.clear()
    await world.clock.advance(2 * MINUTE)
    expect(await world.converged(watcher)).toBe('3 of 3')
    expect((await world.seen(watcher)).missing).toEqual([])
  })

  it('a directory of thousands is refused, visibly, and left alone for a while', async () => {
    const [allocation = ''] = await world.withWatched({
      allocations: 1,
      jobMeta: { lockkeeper_watch: 'alloc/data/*.pem' },
      templates: [],
    })
    for (let n = 0; n < 3_000; n++) world.nomad.files(allocation).write(`/alloc/data/${n}.pem`, 'x')
    const watcher = await world.watcher()
    world.sent = []
    await world.clock.advance(5 * MINUTE)
    expect(await world.statusOf(watcher, allocation)).toMatch(/^unknown alloc\/data holds too many files/)
    expect(world.sent.filter(({ path }) => path.includes('/fs/'))).toHaveLength(1)
    expect(world.asked).toEqual([])
  })

  it('a file that is not there is told by its name', async () => {
    const [allocation = ''] = await world.withWatched({ allocations: 1, jobMeta: { lockkeeper_watch: 'secrets/app.enw' } })
    const watcher = await world.watcher()
    await world.clock.advance(MINUTE)
    expect(await world.statusOf(watcher, allocation)).toBe('unknown no task has a file secrets/app.enw')
  })
})

describe('which jobs are watched', () => {
  it('service and system jobs that say so, and a wrong word is shown where it is', async () => {
    await world.withWatched({ allocations: 1 })
    world.nomad.registerJob({ ...watchedJob({ id: 'cron' }), Type: 'batch' })
    world.nomad.registerJob(watchedJob({ id: 'none', jobMeta: {} }))
    world.nomad.registerJob(watchedJob({ id: 'bad', jobMeta: { lockkeeper_watch: '/etc/x' } }))
    const watcher = await world.watcher()
    await world.clock.advance(MINUTE)
    const { groups, missing } = await world.seen(watcher)
    expect(missing).toEqual([])
    expect(groups.map(({ scope, faults }) => [scope.job, faults.length])).toEqual([
      ['bad', 1],
      ['web', 0],
    ])
  })
})

describe('several replicas', () => {
  it('share the allocations evenly, each is looked at by one of them, and each can tell about all', async () => {
    await world.withWatched({ allocations: 60 })
    const watchers = []
    for (let n = 0; n < 3; n++) watchers.push(await world.watcher())
    await world.clock.advance(MINUTE)
    world.sent = []
    await world.clock.advance(MINUTE)
    const looked = world.sent.flatMap(({ path }) => /\/fs\/stat\/([^?]+)/.exec(path)?.[1] ?? [])
    expect(looked).toHaveLength(120)
    expect(new Set(looked).size).toBe(60)
    const shares = watchers.map((watcher) => watcher.counts().current)
    expect(shares.reduce((sum, share) => sum + share, 0)).toBe(60)
    expect(Math.min(...shares)).toBeGreaterThan(8)
    for (const watcher of watchers) expect(await world.converged(watcher)).toBe('60 of 60')
    const [allocation = ''] = await world.allocations()
    world.act = async () => undefined
    world.nomad.files(allocation).touch(ENV)
    await world.clock.advance(MINUTE)
    for (const watcher of watchers) expect(await world.statusOf(watcher, allocation)).toBe('changed secrets/app.env changed')
    expect(world.asked).toHaveLength(1)
  })

  it('take over what a dead one looked at, and until they have looked it is unknown', async () => {
    await world.withWatched({ allocations: 20 })
    const doomed = await world.replica()
    await world.watcher(doomed)
    const keeper = await world.replica()
    const watcher = await world.watcher(keeper)
    await world.clock.advance(2 * MINUTE)
    await world.kill(doomed)
    await world.clock.advance(45 * SECOND)
    await world.set('2')
    await world.clock.advance(2 * MINUTE)
    expect(new Set(world.asked.map(({ allocation }) => allocation)).size).toBe(20)
    await world.clock.advance(3 * MINUTE)
    expect(watcher.counts()).toEqual({ current: 20, changed: 0, found_out: 0, unknown: 0 })
    const reports = await world.soon(world.variables.list('lockkeeper/watch/replicas/'))
    expect(reports.variables.map(({ path }) => path)).toEqual([`lockkeeper/watch/replicas/${keeper.replica.id}`])
  })

  it('ask Nomad 200 times a second at most, all together, and the interval stretches instead', async () => {
    const job = {
      allocations: 400,
      checks: false,
      jobMeta: { lockkeeper_watch: Array.from({ length: 16 }, (_, n) => `local/${n}`).join() },
    }
    await world.withWatched({ ...job, templates: [] })
    const watchers = [await world.watcher(), await world.watcher()]
    await world.clock.advance(35 * SECOND)
    for (const watcher of watchers) expect(watcher.intervalMs).toBeGreaterThan(30_000)
    world.sent = []
    await world.clock.advance(5 * SECOND)
    const looks = world.sent.filter(({ path }) => path.includes('/fs/')).length
    expect(looks).toBeLessThanOrEqual(1_000)
    expect(looks).toBeGreaterThan(800)
  }, 120_000)
})
