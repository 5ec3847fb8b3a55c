import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ReplicaUnderTest } from '../support/replica.ts'
import { thenIt } from './then.ts'

let given: ReplicaUnderTest
beforeAll(async () => {
  given = await ReplicaUnderTest.start()
})
afterAll(async () => {
  await given.close()
  await thenIt.keepsTheContract(given.seen)
})

const NAMES: readonly [what: string, name: string][] = [
  ['with dots and slashes', 'team/web.api/v2'],
  ['in unicode', 'zürich-東京-🚢'],
  ['of 200 characters', 'x'.repeat(200)],
  ['of 200 characters that differs at its end', `${'x'.repeat(199)}y`],
  ['that looks like a path', '../locks'],
  ['that looks like a mark of ours', '~shared'],
  ['with what URLs are made of', 'a?b=c&d#e%20f+g'],
  ['with blanks and quotes', ' "it\'s" '],
]

describe('a name comes back as it was given', () => {
  for (const [what, name] of NAMES) {
    it(`a shared semaphore and its unit ${what}`, async () => {
      const answer = await given.hold(name, name, { key: 'k', reason: name })
      expect([answer.status, answer.body['scope'], answer.body['unit']]).toEqual([201, { shared: name }, name])
      const { body } = await given.ask('GET', `/v1/semaphores?${new URLSearchParams({ shared: name }).toString()}`)
      expect(body['semaphores']).toMatchObject([{ scope: { shared: name }, holds: [{ unit: name, reason: name }] }])
    })

    it(`a component ${what}`, async () => {
      const [allocation] = await jobOnce()
      const body = { allocation, component: name, reason: 'r', key: 'k' }
      expect((await given.ask('POST', '/v1/holds?wait=10s', { body })).body['scope']).toMatchObject({ component: name })
    })

    it(`a lock on a job ${what}`, async () => {
      const level = { namespace: 'default', job: name }
      await given.ask('PUT', '/v1/locks', { body: { ...level, reason: 'r' } })
      const { body } = await given.ask('GET', '/v1/locks')
      expect((body['locks'] as { job?: string }[]).filter(({ job }) => job === name)).toHaveLength(1)
      const removed = await given.ask('DELETE', `/v1/locks?${new URLSearchParams(level).toString()}`)
      expect(removed.body).toMatchObject(level)
    })
  }

  it('a job whose ID holds a slash and a dot has its own semaphore, and a lock on it shuts no other', async () => {
    const [allocation] = await given.job('team/web.api', { meta: { lockkeeper_wait_for_deployment: 'false' } })
    await given.ask('PUT', '/v1/locks', { body: { namespace: 'default', job: 'team', reason: 'another job' } })
    const body = { allocation, reason: 'r', key: 'k' }
    const answer = await given.ask('POST', '/v1/holds?wait=10s', { body })
    expect(answer.body['scope']).toEqual({ namespace: 'default', job: 'team/web.api', group: 'api' })
  })
})

let job: Promise<string[]> | null = null
function jobOnce(): Promise<string[]> {
  return (job ??= given.job('web', { meta: { lockkeeper_wait_for_deployment: 'false' } }))
}
