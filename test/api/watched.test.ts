import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ReplicaUnderTest } from '../support/replica.ts'
import { watchedJob } from '../support/watching.ts'
import { thenIt } from './then.ts'

interface Watched {
  readonly groups: readonly {
    readonly scope: object
    readonly watched: number
    readonly current: number
    readonly allocations: readonly { readonly allocation: string; readonly state: string }[]
    readonly faults: readonly string[]
  }[]
  readonly interval: string
  readonly missing: readonly string[]
}

let given: ReplicaUnderTest
beforeAll(async () => {
  // Five times as fast as the interval of 30 s.
  given = await ReplicaUnderTest.start({}, {}, 5)
  await given.putVariable('nomad/jobs/web', { v: '1' })
  given.nomad.registerJob(watchedJob({ allocations: 2, healthyAfter: '0s', minHealthyTime: 0 }))
  given.nomad.registerJob(watchedJob({ id: 'wrong', allocations: 1, jobMeta: { lockkeeper_watch: '/etc/passwd' } }))
})
afterAll(async () => {
  await given.close()
  await thenIt.keepsTheContract(given.seen)
})

const watched = async (query: string) => {
  const { status, body, text } = await given.ask('GET', `/v1/watched${query}`)
  expect(status, text).toBe(200)
  return body as unknown as Watched
}
const converged = async () => {
  const { groups } = await watched('?namespace=default&job=web')
  return groups.map(({ current, watched: all }) => `${current} of ${all}`).join()
}

describe('GET /v1/watched', () => {
  it('tells for each allocation whether it runs with its current files, from the change to the last restart', async () => {
    await given.until(async () => (await converged()) === '2 of 2', 30_000)
    const { groups, interval, missing } = await watched('?namespace=default&job=web')
    expect(groups[0]?.scope).toEqual({ namespace: 'default', job: 'web', group: 'api' })
    expect(groups[0]?.allocations.map(({ state }) => state)).toEqual(['current', 'current'])
    expect({ interval, missing }).toEqual({ interval: '30s', missing: [] })
    const { text } = await given.ask('GET', '/metrics')
    expect(text).toMatch(/^lockkeeper_watched_allocations\{state="current"\} 2$/m)
    expect(text).toMatch(/^lockkeeper_watch_interval_seconds 30$/m)
    const [one] = groups[0]?.allocations ?? []
    given.nomad.files(one?.allocation ?? '').touch('/app/secrets/app.env')
    await given.until(async () => (await converged()) === '1 of 2', 30_000)
  })

  it('tells what a job said that cannot be read', async () => {
    await given.until(async () => (await watched('?namespace=default&job=wrong')).groups.length === 1, 30_000)
    const { groups } = await watched('?namespace=default&job=wrong')
    expect(groups[0]?.faults).toEqual([expect.stringContaining('"/etc/passwd" is absolute')])
  })

  it('refuses a parameter that it does not know', async () => {
    thenIt.isRefused(await given.ask('GET', '/v1/watched?jobs=web'), 'jobs')
  })
})
