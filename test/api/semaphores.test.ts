import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { State } from '../../src/core/state.ts'
import { ReplicaUnderTest } from '../support/replica.ts'
import { thenIt } from './then.ts'

let given: ReplicaUnderTest
let allocations: string[]
beforeAll(async () => {
  given = await ReplicaUnderTest.start()
  allocations = await given.job('web', { meta: { lockkeeper_wait_for_deployment: 'false', lockkeeper_stagger: '1s' } })
})
afterAll(async () => {
  await given.close()
  await thenIt.keepsTheContract(given.seen)
})

type Semaphore = Record<string, unknown> & { queue: Record<string, unknown>[]; holds: Record<string, unknown>[] }
const list = async (query: string) => {
  const { status, body, text } = await given.ask('GET', `/v1/semaphores${query}`)
  expect(status, text).toBe(200)
  return body['semaphores'] as Semaphore[]
}
const one = async (query: string) => {
  // Those of which nobody can tell the scope are always in the list.
  const all = (await list(query)).filter(({ scope }) => scope !== null)
  expect(all).toHaveLength(1)
  return all[0] as Semaphore
}
const resume = (body: object, headers: Record<string, string> = {}) =>
  given.ask('POST', '/v1/semaphores/resume', { body, headers })

const failure = { unit: 'a', place: 'a', token: 3, slot: 0, reason: 'crash loop', at: Date.UTC(2026, 0, 1), jobVersion: 0 }
function halted(scope: object): State {
  return {
    version: 1,
    scope,
    grants: 3,
    holds: [],
    failures: [failure],
    halted: { since: Date.UTC(2026, 0, 2), reason: '1 failed, and max_errors is 0' },
    lastGrantAt: null,
    transitions: [],
  } as unknown as State
}
const putState = (path: string, scope: object, state: object) =>
  given.putVariable(`lockkeeper/semaphores/${path}`, { scope: JSON.stringify(scope), state: JSON.stringify(state) })

describe('GET /v1/semaphores', () => {
  it('C8.1 shows who holds, and the queue in order with why each one waits', async () => {
    const first = await given.hold('busy', 'a', { reason: 'certificate' })
    await given.hold('busy', 'b', {}, '300ms')
    await given.hold('busy', 'c', { priority: 7, deadline: '2030-01-01T00:00:00Z' }, '300ms')
    const semaphore = await one('?shared=busy')
    expect(semaphore).toMatchObject({
      scope: { shared: 'busy' },
      path: 'lockkeeper/semaphores/~shared/busy',
      grants: first.body['token'],
      failures: [],
      halted: null,
      locked: null,
    })
    expect(semaphore.holds).toMatchObject([{ hold: first.body['hold'], unit: 'a', reason: 'certificate', phase: 'acting' }])
    expect(semaphore.queue).toEqual([
      {
        unit: 'c',
        place: 'c',
        position: 1,
        kind: 'full',
        detail: expect.stringContaining('1 of 1 slots'),
        priority: 7,
        deadline: '2030-01-01T00:00:00.000Z',
      },
      { unit: 'b', place: 'b', position: 2, kind: 'full', detail: expect.any(String), priority: 0 },
    ])
  })

  it('shows every word of the policy, and where its value came from', async () => {
    const body = { allocation: allocations[0], reason: 'a test', key: 'k', component: 'policy' }
    expect((await given.ask('POST', '/v1/holds?wait=10s', { body })).status).toBe(201)
    const semaphore = await one('?namespace=default&job=web&group=api&component=policy')
    expect(semaphore['policy']).toEqual({
      max_parallel: { value: 1, from: 'update' },
      max_unavailable: { value: 1, from: 'max_parallel' },
      min_healthy_time: { value: '100ms', from: 'update' },
      healthy_deadline: { value: '1m0s', from: 'update' },
      health_check: { value: 'task_states', from: 'update' },
      stagger: { value: '1s', from: 'job meta' },
      min_interval: { value: '0s', from: 'default' },
      max_errors: { value: 0, from: 'default' },
      acting_deadline: { value: '1m0s', from: 'default' },
      wait_for_deployment: { value: false, from: 'job meta' },
    })
    expect(semaphore['policy_faults']).toEqual([])
    expect(semaphore.holds).toMatchObject([{ unit: allocations[0], node: expect.stringMatching(/^node-/) }])
  })

  it('shows what lies at or below a level, and nothing else', async () => {
    await given.hold('level-a')
    await given.hold('level-b')
    const names = (all: Semaphore[]) => all.map(({ scope }) => (scope as { shared?: string }).shared)
    expect(names(await list('?shared=level-a'))).toEqual(['level-a'])
    expect(names(await list('?shared='))).toEqual(expect.arrayContaining(['level-a', 'level-b']))
    expect(names(await list('?namespace=default'))).not.toContain('level-a')
    expect(await list('?namespace=nobody')).toEqual([])
  })

  it('a lock is shown at once where it shuts, with its reason', async () => {
    await given.hold('shown')
    await given.ask('PUT', '/v1/locks', { body: { shared: 'shown', reason: 'audit', by: 'ops' } })
    expect((await one('?shared=shown'))['locked']).toBe('shared shown is locked by ops: audit')
    await given.ask('DELETE', '/v1/locks?shared=shown')
    expect((await one('?shared=shown'))['locked']).toBeNull()
  })

  it('a semaphore that is halted says since when and because of which failures', async () => {
    await putState('~shared/halted', { shared: 'halted' }, halted({ shared: 'halted' }))
    expect(await one('?shared=halted')).toMatchObject({
      grants: 3,
      halted: { since: '2026-01-02T00:00:00.000Z', reason: '1 failed, and max_errors is 0' },
      failures: [
        { unit: 'a', place: 'a', token: 3, slot: 0, reason: 'crash loop', at: '2026-01-01T00:00:00.000Z', job_version: 0 },
      ],
    })
  })

  it('a job that cannot be read hides neither its own holds nor the other semaphores', async () => {
    const scope = { namespace: 'default', job: 'nobody', group: 'api' }
    await putState('default/nobody/api', scope, { ...halted(scope), failures: [], halted: null })
    given.nomad.faults.next(({ path }) => path.startsWith('/v1/job/nobody'), { kind: 'answer', status: 403, body: 'no' }, 4)
    const semaphore = await one('?namespace=default&job=nobody')
    expect(semaphore['warning']).toContain('403')
    given.nomad.faults.clear()
  })

  it('times that somebody wrote by hand break nothing', async () => {
    await putState('~shared/odd', { shared: 'odd' }, { ...halted({ shared: 'odd' }), halted: { since: 1e300, reason: 'odd' } })
    expect((await one('?shared=odd'))['halted']).toMatchObject({ reason: 'odd' })
  })
})

describe('a state that cannot be read', () => {
  const rubbish = { scope: '{"shared":"rubbish"}', state: '{"version":1,"holds":"none"}', note: 'by hand' }
  const path = 'lockkeeper/semaphores/~shared/rubbish'

  it('keeps its semaphore shut, is shown, and stays as it is', async () => {
    await given.putVariable(path, rubbish)
    thenIt.isProblem(await given.hold('rubbish'), 'state_unreadable')
    thenIt.isProblem(await given.hold('rubbish', 'b', {}, '0s'), 'state_unreadable')
    thenIt.isProblem(await resume({ shared: 'rubbish', reason: 'please' }), 'state_unreadable')
    expect(await one('?shared=rubbish')).toMatchObject({
      scope: { shared: 'rubbish' },
      unreadable: expect.stringContaining('wrong'),
      grants: null,
      holds: [],
      queue: [],
      failures: [],
      halted: null,
    })
    expect(await given.itemsOf(path)).toEqual(rubbish)
  })

  it('is shown also when nothing of it makes sense', async () => {
    await given.putVariable('lockkeeper/semaphores/what', { scope: '[]', state: 'x' })
    await given.putVariable('lockkeeper/semaphores/~shared/5', { scope: '{"shared":5}', state: '{}' })
    const all = await list('')
    for (const path of ['what', '~shared/5']) {
      const shown = all.find((semaphore) => semaphore['path'] === `lockkeeper/semaphores/${path}`)
      expect(shown).toMatchObject({ scope: null, unreadable: expect.any(String) })
    }
  })
})

describe('POST /v1/semaphores/resume', () => {
  it('a halted semaphore goes on, and its failures are forgotten', async () => {
    await putState('~shared/resumed', { shared: 'resumed' }, halted({ shared: 'resumed' }))
    thenIt.isProblem(await given.hold('resumed', 'b', {}, '0s'), 'halted')
    const answer = await resume({ shared: 'resumed', reason: 'mended', by: 'ops' })
    expect([answer.status, answer.body]).toEqual([200, { resumed: true }])
    expect((await resume({ shared: 'resumed', reason: 'again' })).body).toEqual({ resumed: false })
    expect(await one('?shared=resumed')).toMatchObject({ halted: null, failures: [] })
    expect((await given.hold('resumed', 'b')).status).toBe(201)
    expect((await given.itemsOf('lockkeeper/semaphores/~shared/resumed'))?.['state']).toContain('mended (ops)')
  })

  it('a semaphore that never held anything is unknown', async () => {
    thenIt.isProblem(
      await resume({ namespace: 'default', job: 'web', group: 'api', component: 'x', reason: 'r' }),
      'unknown_semaphore',
    )
  })

  it('an operator whom Nomad refuses is told that it is the token', async () => {
    await given.hold('refused')
    const theirs = ({ headers }: { headers?: Readonly<Record<string, string>> }) => headers?.['x-nomad-token'] === 'weak'
    given.nomad.faults.next(theirs, { kind: 'answer', status: 403, body: 'Permission denied' })
    thenIt.isProblem(await resume({ shared: 'refused', reason: 'r' }, { 'x-nomad-token': 'weak' }), 'forbidden')
  })
})
