import { afterAll, beforeAll, expect, it } from 'vitest'
import { ReplicaUnderTest, type HttpAnswer } from '../support/replica.ts'
import { thenIt } from './then.ts'

let given: ReplicaUnderTest
beforeAll(async () => {
  given = await ReplicaUnderTest.start()
})
afterAll(async () => {
  await given.close()
  await thenIt.keepsTheContract(given.seen)
})

const put = (body: object, headers: Record<string, string> = {}) => given.ask('PUT', '/v1/locks', { body, headers })
const locksIn = ({ body }: HttpAnswer) => body['locks'] as Record<string, unknown>[]
const lockAt = async (path: string) => locksIn(await given.ask('GET', '/v1/locks')).find((lock) => lock['path'] === path)

it('a lock is put, listed, and removed again', async () => {
  const level = { namespace: 'default', job: 'web', group: 'api', component: 'cache' }
  const answer = await put({ ...level, reason: 'audit', by: 'ops' })
  expect([answer.status, answer.body]).toEqual([200, { locked: 'default/web/api/cache is locked by ops: audit', in_flight: [] }])
  const listed = { ...level, path: 'lockkeeper/locks/default/web/api/cache', reason: 'audit', by: 'ops' }
  expect(await lockAt(listed.path)).toEqual(listed)
  const removed = await given.ask('DELETE', '/v1/locks?namespace=default&job=web&group=api&component=cache')
  expect([removed.status, removed.body]).toEqual([200, listed])
  expect(await lockAt(listed.path)).toBeUndefined()
})

it('every level can be locked: a job, all shared semaphores, one group of nodes, everything', async () => {
  for (const [level, query, sentence] of [
    [{ namespace: 'default', job: 'a/b' }, '?namespace=default&job=a%2Fb', 'default/a/b is locked'],
    [{ shared: '' }, '?shared=', 'all shared semaphores is locked'],
    [{ nodes: 'blue' }, '?nodes=blue', 'nodes blue is locked'],
    [{}, '', 'everything is locked'],
  ] as const) {
    const answer = await put({ ...level, reason: 'r' })
    expect(answer.body['locked']).toContain(sentence)
    const removed = await given.ask('DELETE', `/v1/locks${query}`)
    expect(removed.body).toMatchObject({ ...level, reason: 'r', by: 'unknown' })
  }
})

it('a lock tells what is in flight below it, and nothing of its leases', async () => {
  const held = await given.hold('in-flight', 'a')
  const answer = await put({ shared: 'in-flight', reason: 'stop' })
  expect(answer.body['in_flight']).toMatchObject([{ hold: held.body['hold'], unit: 'a', scope: { shared: 'in-flight' } }])
  expect(answer.text).not.toContain(String(held.body['lease']))
  await given.until(async () => (await given.hold('in-flight', 'b', {}, '0s')).body['kind'] === 'locked')
})

it('a level that is locked already is a conflict that names who locked it', async () => {
  await put({ shared: 'twice', reason: 'first', by: 'alice' })
  const answer = await put({ shared: 'twice', reason: 'second', by: 'bob' })
  thenIt.isProblem(answer, 'conflict')
  expect(answer.body['detail']).toContain('alice')
})

it('a lock that is not there cannot be removed', async () => {
  thenIt.isProblem(await given.ask('DELETE', '/v1/locks?shared=open'), 'unknown_lock')
})

it('until is a time, or a duration from now', async () => {
  await put({ shared: 'by-time', reason: 'r', until: '2030-01-31T12:00:00+01:00' })
  expect(await lockAt('lockkeeper/locks/~shared/by-time')).toMatchObject({ until: '2030-01-31T11:00:00.000Z' })
  const before = Date.now()
  await put({ shared: 'by-duration', reason: 'r', until: '2h' })
  const until = Date.parse(String((await lockAt('lockkeeper/locks/~shared/by-duration'))?.['until']))
  expect(until - before).toBeGreaterThan(7_199_000)
  expect(until - before).toBeLessThan(7_260_000)
})

it('a lock ends by its until', async () => {
  await put({ shared: 'brief', reason: 'r', until: '100ms' })
  await given.until(async () => (await given.hold('brief', 'a', {}, '0s')).status === 201)
})

it('a lock that somebody wrote by hand is listed by its path, whatever is in it', async () => {
  await given.putVariable('lockkeeper/locks/by-hand', { note: 'please wait' })
  await given.putVariable('lockkeeper/locks/odd', { level: '{"namespace":5,"x":[]}', reason: 'odd', until: 'never' })
  await given.putVariable('lockkeeper/locks/copied', { level: '{"namespace":"default"}', reason: 'copied' })
  expect(await lockAt('lockkeeper/locks/by-hand')).toMatchObject({ reason: 'note=please wait', by: 'unknown' })
  expect(await lockAt('lockkeeper/locks/odd')).toEqual({ path: 'lockkeeper/locks/odd', reason: 'odd', by: 'unknown' })
  expect(await lockAt('lockkeeper/locks/copied')).not.toHaveProperty('namespace')
})

it('the sentinel is no lock', async () => {
  expect(await lockAt('lockkeeper/locks/~sentinel')).toBeUndefined()
})

it('operators write with their own token, and readers with that of the service', async () => {
  const tokens: (string | undefined)[] = []
  const seen = ({ headers, path }: { path: string; headers?: Readonly<Record<string, string>> }) => {
    if (path.includes('token-test')) tokens.push(headers?.['x-nomad-token'])
    return false
  }
  given.nomad.faults.next(seen, { kind: 'drop' })
  const held = await given.hold('token-test', 'a')
  given.nomad.faults.next(({ headers, path }) => headers?.['x-nomad-token'] === 'their-own' && path.includes('vars?'), {
    kind: 'answer',
    status: 403,
    body: 'no',
  })
  const answer = await put({ shared: 'token-test', reason: 'r' }, { 'x-nomad-token': 'their-own' })
  expect(answer.body['in_flight']).toMatchObject([{ hold: held.body['hold'] }])
  await given.ask('DELETE', '/v1/locks?shared=token-test', { headers: { 'x-nomad-token': 'their-own' } })
  expect(tokens.filter((token) => token !== undefined)).toEqual(['their-own', 'their-own', 'their-own'])
  given.nomad.faults.clear()
})

it('Nomad’s no to an operator is a 403, and its no to the service itself a 503', async () => {
  const puts = ({ method, path }: { method: string; path: string }) => method === 'PUT' && path.includes('denied')
  const no = { kind: 'answer', status: 403, body: 'Permission denied' } as const
  given.nomad.faults.next(puts, no)
  thenIt.isProblem(await put({ shared: 'denied', reason: 'r' }, { 'x-nomad-token': 'weak' }), 'forbidden')
  given.nomad.faults.next(puts, no)
  const answer = await put({ shared: 'denied', reason: 'r' })
  thenIt.isProblem(answer, 'nomad_denied')
  expect(answer.headers.get('retry-after')).toBe('1')
})
