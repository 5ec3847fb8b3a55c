import { afterEach, beforeEach, expect, it } from 'vitest'
import { lock, unlock } from '../../src/keeper/operate.ts'
import { World } from '../support/world.ts'

let world: World
beforeEach(() => void (world = new World()))
afterEach(() => world.close())

const here = () => new AbortController().signal
const ask = (unit: string) => ({ shared: 'docker', unit, key: `key of ${unit}`, reason: 'upgrade' })
const isLockList = (method: string, path: string) => method === 'GET' && path.includes('prefix=lockkeeper%2Flocks')

it('a waiter whose grant was taken back keeps its place: nobody at another replica goes before it', async () => {
  const keeper = await world.replica()
  const other = await world.replica()
  const first = await world.granted(keeper, ask('a'))
  const order: string[] = []
  const all = (['b', 'c'] as const).map(async (unit) => {
    await world.clock.sleep(unit === 'b' ? 0 : 1_000)
    const at = unit === 'b' ? keeper : other
    const answer = await at.acquire(ask(unit), 60_000, here())
    order.push(unit)
    if (answer.kind === 'granted') await at.release(answer.hold.id, answer.lease, 'done', here())
  })
  await world.clock.advance(3_000)
  await world.soon(keeper.renew(first.hold.id, first.lease, here()))
  await world.clock.advance(3_000)
  // Shut between the commit of the next grant and its answer, and open again at once.
  world.before(isLockList, async () => {
    await lock(world.variables, keeper.paths, { level: {}, reason: 'freeze', by: 'ann', until: null }, here())
    world.before(
      (method, path) => method === 'PUT' && path.includes('/semaphores/'),
      () => unlock(world.variables, keeper.paths, {}, here()),
    )
  })
  await world.soon(keeper.release(first.hold.id, first.lease, 'done', here()))
  await world.soon(Promise.all(all))
  expect(order).toEqual(['b', 'c'])
})
