import { afterEach, beforeEach, expect, it } from 'vitest'
import { lock, readSemaphores, releaseByForce, unlock } from '../../src/keeper/operate.ts'
import type { Keeper } from '../../src/keeper/keeper.ts'
import { World } from '../support/world.ts'

let world: World
beforeEach(() => void (world = new World()))
afterEach(() => world.close())

const here = () => new AbortController().signal
const ask = (unit: string) => ({ shared: 'docker', unit, key: `key of ${unit}`, reason: 'upgrade' })
const isLockList = (method: string, path: string) => method === 'GET' && path.includes('prefix=lockkeeper%2Flocks')

/** Shut between the commit of the next grant and its answer, and open again at once. */
async function shutAndOpen({ paths }: Keeper): Promise<void> {
  await lock(world.variables, paths, { level: {}, reason: 'freeze', by: 'ann', until: null }, here())
  world.before(
    (method, path) => method === 'PUT' && path.includes('/semaphores/'),
    () => unlock(world.variables, paths, {}, here()),
  )
}

/** An operator ends the hold that was just committed. */
async function endByForce({ paths }: Keeper): Promise<void> {
  const [stored] = await readSemaphores(world.variables, paths, {}, 0, here())
  const held = stored === undefined || 'unreadable' in stored.state ? [] : stored.state.holds
  for (const { id } of held) await releaseByForce(world.variables, paths, id, 'it hangs', () => world.clock.wall(), here())
}

it.each([
  ['was taken back', shutAndOpen],
  ['was ended by force', endByForce],
] as const)('a waiter whose grant %s before it was told keeps its place, also at another replica', async (_, undo) => {
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
  world.before(isLockList, () => undo(keeper))
  await world.soon(keeper.release(first.hold.id, first.lease, 'done', here()))
  await world.soon(Promise.all(all))
  expect(order).toEqual(['b', 'c'])
})

it('a waiter that has gone to another replica keeps its place when the first one gives it up', async () => {
  const [keeper, other] = [await world.replica(), await world.replica()]
  await world.granted(keeper, ask('a'))
  const placeOf = async () =>
    (await world.soon(world.variables.list('lockkeeper/requests/'))).variables.map(({ createIndex }) => createIndex)
  await world.waits(keeper, ask('b'), 1_000)
  const place = await placeOf()
  expect(place).toHaveLength(1)
  const waiting = other.acquire(ask('b'), 20_000, here())
  for (let second = 0; second < 15; second++) {
    await world.clock.advance(1_000)
    expect(await placeOf()).toEqual(place)
  }
  await world.soon(waiting)
})
