import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { WatchingWorld } from '../support/watching.ts'

const SECOND = 1_000
const MINUTE = 60_000
const ENV = '/app/secrets/app.env'

let world: WatchingWorld
beforeEach(() => void (world = new WatchingWorld({ managed: true })))
afterEach(() => world.close())

/** Starts and stops as they truly happen. */
function watched() {
  const starts = new Map<string, number>()
  const down = new Set<string>()
  const at: number[] = []
  let most = 0
  world.nomad.observe(({ event, alloc }) => {
    if (event === 'stopping') {
      starts.set(alloc, (starts.get(alloc) ?? 0) + 1)
      at.push(world.clock.now())
      down.add(alloc)
    }
    if (event === 'healthy') down.delete(alloc)
    most = Math.max(most, down.size)
  })
  return { starts, at, most: () => most }
}

describe('a job whose files are watched by the service', () => {
  it('a secret that changes once restarts five allocations, one at a time, each exactly once, and each has the new value', async () => {
    const allocations = await world.withWatched({ allocations: 5 })
    const watcher = await world.watcher()
    const seen = watched()
    await world.set('2')
    await world.clock.advance(5 * MINUTE)
    expect([...seen.starts.keys()].toSorted()).toEqual(allocations.toSorted())
    expect([...seen.starts.values()]).toEqual([1, 1, 1, 1, 1])
    expect(seen.most()).toBe(1)
    expect(await world.converged(watcher)).toBe('5 of 5')
    for (const allocation of allocations) expect(world.nomad.files(allocation).read(ENV)).toBe('2')
    await world.clock.advance(60 * MINUTE)
    expect(seen.at).toHaveLength(5)
    expect((await world.soon(world.variables.list('lockkeeper/requests/'))).variables).toEqual([])
  })

  it('goes on when the replica dies in the middle, and nobody is restarted twice', async () => {
    await world.withWatched({ allocations: 5 })
    const doomed = await world.replica()
    await world.watcher(doomed)
    const watcher = await world.watcher()
    const seen = watched()
    await world.set('2')
    await world.until(async () => seen.at.length >= 2)
    await world.kill(doomed)
    await world.clock.advance(10 * MINUTE)
    expect([...seen.starts.values()]).toEqual([1, 1, 1, 1, 1])
    expect(seen.most()).toBe(1)
    expect(await world.converged(watcher)).toBe('5 of 5')
  })

  it('C3.9 content that changes every 15 minutes, min_interval 1h: at most four restarts in four hours, each with the newest', async () => {
    const [allocation = ''] = await world.withWatched({ allocations: 1, meta: { lockkeeper_min_interval: '1h' } })
    const watcher = await world.watcher()
    const seen = watched()
    for (let quarter = 0; quarter < 16; quarter++) {
      await world.set(String(quarter + 2))
      await world.clock.advance(15 * MINUTE)
    }
    expect(seen.at.length).toBeGreaterThanOrEqual(3)
    expect(seen.at.length).toBeLessThanOrEqual(4)
    const gaps = seen.at.slice(1).map((at, n) => at - (seen.at[n] ?? 0))
    for (const gap of gaps) expect(gap).toBeGreaterThanOrEqual(60 * MINUTE)
    expect(await world.statusOf(watcher, allocation)).not.toMatch(/^found_out/)
  }, 120_000)

  it('a signal is sent once for each change', async () => {
    const jobMeta = { lockkeeper_watch: 'secrets/app.env', lockkeeper_action: 'signal', lockkeeper_signal: 'SIGUSR1' }
    await world.withWatched({ jobMeta })
    const keeper = await world.replica()
    const watcher = await world.watcher(keeper)
    world.sent = []
    await world.set('2')
    await world.clock.advance(30 * MINUTE)
    const signals = world.sent.filter(({ path }) => path.includes('/signal'))
    expect(signals.map(({ body }) => JSON.parse(body) as unknown)).toEqual(
      [1, 2, 3].map(() => ({ Task: 'app', Signal: 'SIGUSR1' })),
    )
    expect(await world.converged(watcher)).toBe('3 of 3')
  })

  it('a file that the task writes at its start is acted on twice at most, with five minutes between', async () => {
    const [allocation = ''] = await world.withWatched({ allocations: 1 })
    const watcher = await world.watcher()
    const seen = watched()
    world.nomad.observe(({ event, alloc }) => {
      if (event === 'running') void world.clock.sleep(3 * SECOND).then(() => world.nomad.files(alloc).touch(ENV))
    })
    await world.set('2')
    await world.clock.advance(60 * MINUTE)
    expect(seen.at).toHaveLength(2)
    expect((seen.at[1] ?? 0) - (seen.at[0] ?? 0)).toBeGreaterThanOrEqual(5 * MINUTE)
    expect(await world.statusOf(watcher, allocation)).toMatch(/^found_out secrets\/app.env/)
  })
})
