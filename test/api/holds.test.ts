import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ReplicaUnderTest } from '../support/replica.ts'
import { thenIt } from './then.ts'

let given: ReplicaUnderTest
let allocations: string[]
beforeAll(async () => {
  given = await ReplicaUnderTest.start()
  allocations = await given.job('web', { meta: { lockkeeper_wait_for_deployment: 'false' } })
})
afterAll(async () => {
  await given.close()
  await thenIt.keepsTheContract(given.seen)
})

const askFor = (allocation: string, more: object = {}, wait = '10s') =>
  given.ask('POST', `/v1/holds?wait=${wait}`, {
    body: { allocation, reason: 'new password', key: `key-${encodeURIComponent(allocation)}`, ...more },
  })
const release = (hold: unknown, body: object) => given.ask('POST', `/v1/holds/${String(hold)}/release`, { body })
const renew = (hold: unknown, lease: unknown) => given.ask('POST', `/v1/holds/${String(hold)}/renew`, { body: { lease } })

describe('POST /v1/holds', () => {
  it('whoever asks first is granted, with all that it needs to act and to renew', async () => {
    const answer = await given.hold('first-asker')
    expect(answer.status).toBe(201)
    expect(answer.body).toEqual({
      hold: expect.stringMatching(/^[0-9a-f-]{36}$/),
      lease: expect.stringMatching(/^[0-9a-f-]{36}$/),
      token: expect.any(Number),
      slot: 0,
      ttl: '10s',
      renew_every: '3.333s',
      scope: { shared: 'first-asker' },
      unit: 'unit-1',
    })
    expect(answer.headers.get('cache-control')).toBe('no-store')
  })

  it('a hold for an allocation is in the semaphore of its group', async () => {
    const answer = await askFor(allocations[0] as string, { component: 'cache', task: 'app', action: 'reload', priority: 5 })
    expect(answer.status).toBe(201)
    expect(answer.body['scope']).toEqual({ namespace: 'default', job: 'web', group: 'api', component: 'cache' })
    expect(answer.body['unit']).toBe(allocations[0])
  })

  it('C8.1 who is refused hears who holds, its position, and that it may ask again', async () => {
    const first = await given.hold('full-house', 'a', { reason: 'certificate' })
    await given.hold('full-house', 'b', { deadline: '2030-01-01T00:00:00Z' }, '0s')
    const answer = await given.hold('full-house', 'c', {}, '1s')
    thenIt.isProblem(answer, 'full')
    expect(answer.status).toBe(429)
    expect(answer.headers.get('retry-after')).toBe('1')
    expect(answer.body).toMatchObject({ position: 2, waiting: 2 })
    expect(answer.body['holders']).toEqual([
      {
        hold: first.body['hold'],
        unit: 'a',
        place: 'a',
        token: first.body['token'],
        slot: 0,
        phase: 'acting',
        since: expect.stringMatching(/^\d{4}-.*Z$/),
        reason: 'certificate',
      },
    ])
    expect(answer.text).not.toContain(String(first.body['lease']))
  })

  it('the next one is granted while it waits, as soon as the first is released', async () => {
    const first = await given.hold('hand-over', 'a')
    const second = given.hold('hand-over', 'b', {}, '20s')
    await given.until(async () => (await given.ask('GET', '/v1/semaphores?shared=hand-over')).text.includes('"position":1'))
    await release(first.body['hold'], { lease: first.body['lease'] })
    expect((await second).status).toBe(201)
    expect(Number((await second).body['token'])).toBeGreaterThan(Number(first.body['token']))
  })

  it('the same process is given the same hold again, with a new lease, and the old lease is worth nothing', async () => {
    const first = await given.hold('twice', 'a')
    const again = await given.hold('twice', 'a')
    expect(again.status).toBe(201)
    expect(again.body['hold']).toBe(first.body['hold'])
    expect(again.body['lease']).not.toBe(first.body['lease'])
    thenIt.isProblem(await renew(first.body['hold'], first.body['lease']), 'not_holder')
  })

  it('a request on a level that is locked waits as locked, with the reason', async () => {
    await given.ask('PUT', '/v1/locks', { body: { shared: 'shut', reason: 'audit', by: 'ops' } })
    await given.until(async () => (await given.hold('shut', 'probe', {}, '0s')).text.includes('audit'))
    const answer = await given.hold('shut', 'a', {}, '0s')
    thenIt.isProblem(answer, 'locked')
    expect(answer.status).toBe(423)
    expect(answer.body['detail']).toBe('shared shut is locked by ops: audit')
  })

  it('an allocation that Nomad does not know is a 404', async () => {
    for (const id of ['00000000-0000-4000-8000-000000000000', 'web', 'ünknown', '../../v1/jobs']) {
      thenIt.isProblem(await askFor(id), 'unknown_allocation')
    }
  })

  it('an allocation that has finished is a 409: there is nothing to restart', async () => {
    const [gone] = await given.job('gone')
    given.nomad.registerJob({ ID: 'gone', Stop: true, TaskGroups: [{ Name: 'api', Tasks: [{ Name: 'app' }] }] })
    await given.until(async () => (await askFor(gone as string, {}, '0s')).status === 409)
    thenIt.isProblem(await askFor(gone as string), 'allocation_finished')
  })

  it('a batch job is not gated, and that is said', async () => {
    const [batch] = await given.job('nightly', { type: 'batch' })
    thenIt.isProblem(await askFor(batch as string), 'unsupported_job')
  })

  it('a job whose policy cannot be read is told so, and not granted by another policy', async () => {
    const [id] = await given.job('typo', { meta: { lockkeeper_max_parallel: 'two' } })
    const answer = await askFor(id as string)
    thenIt.isProblem(answer, 'invalid_request')
    expect(answer.body['detail']).toContain('lockkeeper_max_parallel')
  })

  it('a task that the group does not have is refused', async () => {
    thenIt.isProblem(await askFor(allocations[0] as string, { task: 'nope' }), 'invalid_request')
  })
})

describe('POST /v1/holds/{hold}/renew', () => {
  it('a renewed lease is valid for one ttl from before it was sent', async () => {
    const { body } = await given.hold('renewing')
    const answer = await renew(body['hold'], body['lease'])
    expect([answer.status, answer.body]).toEqual([200, { phase: 'acting', valid_for: '10s' }])
  })

  it('a wrong lease, or that of somebody else, renews nothing and releases nothing', async () => {
    const mine = await given.hold('mine')
    const other = await given.hold('other')
    for (const lease of [other.body['lease'], 'made-up']) {
      thenIt.isProblem(await renew(mine.body['hold'], lease), 'not_holder')
      thenIt.isProblem(await release(mine.body['hold'], { lease }), 'not_holder')
    }
    expect((await renew(mine.body['hold'], mine.body['lease'])).status).toBe(200)
  })

  it('a hold that nobody knows is a 404, whatever its ID looks like', async () => {
    for (const id of ['00000000-0000-4000-8000-000000000000', 'x', '-', encodeURIComponent('a/b ü')]) {
      thenIt.isProblem(await renew(id, 'lease'), 'unknown_hold')
      thenIt.isProblem(await release(id, { lease: 'lease' }), 'unknown_hold')
      thenIt.isProblem(await given.ask('GET', `/v1/holds/${id}`), 'unknown_hold')
      thenIt.isProblem(await given.ask('DELETE', `/v1/holds/${id}`, { body: { reason: 'gone' } }), 'unknown_hold')
    }
  })
})

describe('POST /v1/holds/{hold}/release', () => {
  it('in a shared semaphore released is over, and a second release finds no hold', async () => {
    const { body } = await given.hold('released')
    const first = await release(body['hold'], { lease: body['lease'] })
    expect([first.status, first.body]).toEqual([200, { phase: 'over' }])
    thenIt.isProblem(await release(body['hold'], { lease: body['lease'] }), 'unknown_hold')
  })

  it('the hold of an allocation is observed after its release, and a second release is told so', async () => {
    const { body } = await askFor(allocations[1] as string, { component: 'observed' })
    const first = await release(body['hold'], { lease: body['lease'], outcome: 'done' })
    expect([first.status, first.body]).toEqual([200, { phase: 'observing' }])
    thenIt.isProblem(await release(body['hold'], { lease: body['lease'] }), 'already_released')
    thenIt.isProblem(await renew(body['hold'], body['lease']), 'already_released')
    const seen = await given.ask('GET', `/v1/holds/${String(body['hold'])}`)
    expect(seen.body).toMatchObject({ phase: 'observing', outcome: 'done', deadline: expect.any(String) })
  })

  it('an allocation that was never touched is free again soon after its actor abandons it', async () => {
    const { body } = await askFor(allocations[1] as string, { component: 'abandoned' })
    const answer = await release(body['hold'], { lease: body['lease'], outcome: 'abandoned' })
    expect(answer.body).toEqual({ phase: 'observing' })
    await given.until(async () => (await given.ask('GET', `/v1/holds/${String(body['hold'])}`)).status === 404)
  })

  it('an outcome that is none of the three is refused', async () => {
    const answer = await release('x', { lease: 'lease', outcome: 'lease_lost' })
    thenIt.isProblem(answer, 'invalid_request')
    expect(answer.body['field']).toBe('outcome')
  })
})

describe('GET and DELETE /v1/holds/{hold}', () => {
  it('C8.3 everybody may see who holds, and nobody the lease', async () => {
    const { body } = await askFor(allocations[0] as string, { component: 'visible', task: 'app' })
    const answer = await given.ask('GET', `/v1/holds/${String(body['hold'])}`)
    expect(answer.body).toEqual({
      hold: body['hold'],
      scope: body['scope'],
      unit: allocations[0],
      place: expect.stringMatching(/^web\.api\[\d\]$/),
      node: expect.stringMatching(/^node-\d$/),
      tasks: ['app'],
      action: 'restart',
      reason: 'new password',
      actor: expect.stringMatching(/^web\.api\[\d\]$/),
      token: body['token'],
      slot: 0,
      phase: 'acting',
      outcome: null,
      since: expect.any(String),
      phase_since: expect.any(String),
      deadline: expect.any(String),
      was_up: true,
    })
  })

  it('an operator ends a hold by force, and is told what that cannot do', async () => {
    const { body } = await given.hold('forced')
    const path = `/v1/holds/${String(body['hold'])}`
    const answer = await given.ask('DELETE', path, { body: { reason: 'the host burnt down', by: 'ops' } })
    expect([answer.status, answer.body]).toEqual([
      200,
      { hold: body['hold'], scope: { shared: 'forced' }, unit: 'unit-1', warning: expect.stringContaining('may still act') },
    ])
    expect((await given.itemsOf('lockkeeper/semaphores/~shared/forced'))?.['state']).toContain('the host burnt down (ops)')
    await given.until(async () => (await given.ask('GET', path)).status === 404)
    thenIt.isProblem(await given.ask('DELETE', path, { body: { reason: 'again' } }), 'unknown_hold')
    const late = await release(body['hold'], { lease: body['lease'] })
    expect(['unknown_hold', 'lease_lost']).toContain(late.body['kind'])
  })
})
