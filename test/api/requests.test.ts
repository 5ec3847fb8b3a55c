import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ReplicaUnderTest, type HttpAnswer } from '../support/replica.ts'
import { thenIt } from './then.ts'

let given: ReplicaUnderTest
let allocations: string[]
beforeAll(async () => {
  given = await ReplicaUnderTest.start()
  allocations = await given.job('web', {
    meta: { lockkeeper_wait_for_deployment: 'false', lockkeeper_health_check: 'task_states', lockkeeper_min_healthy_time: '1s' },
  })
})
afterAll(async () => {
  await given.close()
  await thenIt.keepsTheContract(given.seen)
})

const put = (nth: number, more: object = {}) =>
  given.ask('PUT', '/v1/requests', { body: { allocation: allocations[nth], reason: 'new password', ...more } })
const get = (answer: HttpAnswer, wait = '0s') => given.ask('GET', `/v1/requests/${String(answer.body['id'])}?wait=${wait}`)
const lockAll = () => given.ask('PUT', '/v1/locks', { body: { reason: 'freeze' } })
const unlockAll = () => given.ask('DELETE', '/v1/locks')
const restartsOf = async (nth: number) =>
  ((await given.askNomad('GET', `/v1/allocation/${allocations[nth]}`)).body as { TaskStates: { app: { Restarts: number } } })
    .TaskStates.app.Restarts

describe('PUT /v1/requests', () => {
  it('is answered at once, acted on by the service, and followed to its end', async () => {
    const answer = await put(0, { wave: 'w-1', priority: 1 })
    expect(answer.status).toBe(202)
    expect(answer.body).toMatchObject({
      id: expect.any(String),
      allocation: allocations[0],
      scope: { namespace: 'default', job: 'web', group: 'api' },
      action: 'restart',
      tasks: [],
      wave: 'w-1',
      state: 'waiting',
      waiting_for: { kind: expect.any(String), detail: expect.any(String) },
    })
    const states = [answer.body['state']]
    for (let last = answer; !['done', 'failed'].includes(String(last.body['state'])); last = await get(answer, '10s'))
      if (last.body['state'] !== states.at(-1)) states.push(last.body['state'])
    expect((await get(answer)).body).toMatchObject({ state: 'done', position: null, waiting_for: null })
    expect(states).toContain('observing')
    expect(await restartsOf(0)).toBe(1)
    const listed = await given.ask('GET', '/v1/requests?namespace=default&job=web&wave=w-1')
    expect(listed.body).toMatchObject({ requests: [{ id: answer.body['id'], state: 'done' }] })
  })

  it('C3.14 is the same request while it is open, and waits with its reason', async () => {
    await lockAll()
    const first = await put(0)
    await given.until(() => isLocked(first))
    const again = await put(0, { task: 'app' })
    expect(again.body['id']).toBe(first.body['id'])
    const withdrawn = await given.ask('DELETE', `/v1/requests/${String(first.body['id'])}`)
    expect(withdrawn.body).toMatchObject({ state: 'cancelled' })
    expect((await get(first)).body).toMatchObject({ state: 'cancelled' })
    await unlockAll()
  })

  it('is satisfied by a start after the change that it names', async () => {
    const answer = await put(1, { since: '2020-01-01T00:00:00Z' })
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({ satisfied: true })
    const hold = await given.ask('POST', '/v1/holds', {
      body: { allocation: allocations[1], reason: 'x', key: 'k', since: '2020-01-01T00:00:00Z' },
    })
    expect(hold.body).toEqual({ satisfied: true })
  })

  it.each<[string, string, object]>([
    ['a signal without the action', 'signal', { signal: 'SIGHUP' }],
    ['a signal that is none', 'signal', { action: 'signal', signal: 'HUP; rm' }],
    ['a reload', 'action', { action: 'reload' }],
    ['a time that is none', 'since', { since: 'yesterday' }],
    ['an unknown field', 'force', { force: true }],
    ['no reason', 'reason', { reason: '' }],
  ])('%s is refused and changes nothing', async (_, field, more) => {
    const answer = await put(0, more)
    thenIt.isProblem(answer, 'invalid_request')
    expect(String(answer.body['field'] ?? answer.body['detail'])).toContain(field)
    expect((await given.ask('GET', '/v1/requests?job=web&namespace=default')).text).not.toContain('waiting"')
  })

  it('an unknown task, allocation or request is told as such', async () => {
    thenIt.isProblem(await put(0, { task: 'nope' }), 'invalid_request')
    thenIt.isProblem(await put(0, { allocation: '0b6e4ad4-0000-0000-0000-000000000000' }), 'unknown_allocation')
    thenIt.isProblem(await given.ask('GET', '/v1/requests/nope'), 'unknown_request')
    thenIt.isProblem(await given.ask('DELETE', '/v1/requests/nope'), 'unknown_request')
  })
})

async function isLocked(answer: HttpAnswer): Promise<boolean> {
  const { body } = await get(answer)
  return (body['waiting_for'] as { kind: string } | null)?.kind === 'locked'
}
