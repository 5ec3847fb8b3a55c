import { afterEach, beforeEach, expect, it } from 'vitest'
import { Problem } from '../../src/core/errors.ts'
import { World } from '../support/world.ts'

let world: World
beforeEach(() => void (world = new World()))
afterEach(() => world.close())

it('a replica that shuts down while somebody waits does not spin until Nomad has answered', async () => {
  await world.withJob({ allocations: 2 })
  const keeper = await world.replica()
  const [first, second] = await world.allocations()
  await world.granted(keeper, { allocation: first as string, key: 'a', reason: 'rotated' })
  const waiting = keeper
    .acquire({ allocation: second as string, key: 'b', reason: 'rotated' }, 60_000, new AbortController().signal)
    .catch((error: unknown) => error)
  await world.clock.advance(3_000)
  const isRelease = (method: string, path: string) => method === 'PUT' && path.includes('lock-release')
  world.before(isRelease, () => world.clock.sleep(4_000))
  // A loop that never waits for time would never let us look: so it is stopped here.
  let asked = 0
  const now = world.clock.now.bind(world.clock)
  world.clock.now = () => {
    if (++asked > 20_000) throw new Error('it spins')
    return now()
  }
  await world.soon(keeper.stop())
  expect(asked).toBeLessThan(20_000)
  expect(((await waiting) as Problem).kind).toBe('shutting_down')
})
