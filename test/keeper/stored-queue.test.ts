import { afterEach, beforeEach, expect, it } from 'vitest'
import { requestItems } from '../../src/keeper/records.ts'
import { RequestMemory } from '../../src/keeper/request-memory.ts'
import { StoredQueue } from '../../src/keeper/stored-queue.ts'
import { WaitingRoom } from '../../src/keeper/waiting-room.ts'
import { paths as pathsOf } from '../../src/keeper/paths.ts'
import { World } from '../support/world.ts'

const scope = { shared: 'docker' }
const paths = pathsOf('lockkeeper')
const asked = { scope, unit: 'host-1', place: 'host-1', key: 'k', tasks: [], action: 'restart', reason: 'why' } as const

let world: World
beforeEach(() => {
  world = new World()
})
afterEach(() => world.close())

it('a leader that was deposed, and has not seen a request yet, takes nobody out of the queue', async () => {
  const { variables, clock } = world
  const { signal } = new AbortController()
  const memory = new RequestMemory()
  const room = new WaitingRoom(scope, paths, clock)
  const queue = new StoredQueue({ variables, clock, paths, memory, signal }, scope, room, () => undefined)
  const path = paths.request(scope, 'host-1')
  let isPast = true
  world.nomad.leader.depose(60_000, (request) => isPast && request.path.startsWith('/v1/var/'))
  const record = { ...asked, priority: 0, deadline: null, via: 'a', at: 0 }
  await world.soon(variables.put(path, requestItems(record), 0, signal))
  await world.soon(queue.list())
  await world.soon(queue.read(path))
  expect(queue.known.entries.get(path)).toMatchObject({ record: undefined })
  isPast = false
  await world.soon(queue.read(path))
  expect(queue.known.entries.get(path)).toMatchObject({ record: { key: 'k' } })
})
