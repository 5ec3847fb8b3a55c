import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { World } from '../support/world.ts'

let world: World
beforeEach(() => (world = new World()))
afterEach(() => world.close())

describe('a shared semaphore', () => {
  const ask = (unit: string) => ({ shared: 'docker', unit, key: `key-${unit}`, reason: 'upgrade' })

  it('grants one after another, with rising tokens, in the order of asking', async () => {
    const keeper = await world.replica()
    const first = await world.granted(keeper, ask('a'))
    const order: string[] = []
    const rest = ['b', 'c', 'd'].map(async (unit) => {
      const answer = await keeper.acquire(ask(unit), 60_000, new AbortController().signal)
      if (answer.kind !== 'granted') throw new Error(JSON.stringify(answer))
      order.push(unit)
      await keeper.release(answer.hold.id, answer.lease, 'done', new AbortController().signal)
      return answer.hold.token
    })
    await world.clock.advance(1_000)
    await world.soon(keeper.release(first.hold.id, first.lease, 'done', new AbortController().signal))
    const tokens = await world.soon(Promise.all(rest))
    expect(order).toEqual(['b', 'c', 'd'])
    expect(tokens).toEqual([1, 2, 3].map((n) => first.hold.token + n))
    expect(world.problems()).toEqual([])
  })
})

describe('a group', () => {
  it('restarts one allocation after another, each waiting for the health of the one before', async () => {
    await world.withJob({ allocations: 3 })
    const keeper = await world.replica()
    const down = new Set<string>()
    let most = 0
    world.nomad.observe(({ event, alloc }) => {
      if (event === 'stopping') down.add(alloc)
      if (event === 'healthy') down.delete(alloc)
      most = Math.max(most, down.size)
    })
    const allocations = await world.allocations()
    const signal = new AbortController().signal
    const all = allocations.map(async (allocation, i) => {
      const answer = await keeper.acquire({ allocation, key: `k${i}`, reason: 'rotated' }, 300_000, signal)
      if (answer.kind !== 'granted') throw new Error(JSON.stringify(answer))
      await world.nomad.handle({ method: 'PUT', path: `/v1/client/allocation/${allocation}/restart`, body: '{}' })
      await keeper.release(answer.hold.id, answer.lease, 'done', signal)
      return answer.hold.token
    })
    const tokens = await world.soon(Promise.all(all), 300_000)
    expect(new Set(tokens).size).toBe(3)
    await world.until(async () => (await world.state()).holds.length === 0)
    expect(most).toBe(1)
    expect((await world.state()).transitions.map(({ kind }) => kind)).toEqual([
      'granted',
      'released',
      'healthy',
      'granted',
      'released',
      'healthy',
      'granted',
      'released',
      'healthy',
    ])
    expect(world.problems()).toEqual([])
  })
})
