import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openapiDocument } from '../../src/api/openapi.ts'
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

describe('probes', () => {
  it('a replica that runs is live, and one that can grant is ready', async () => {
    expect((await given.ask('GET', '/health/live')).body).toEqual({ live: true })
    const ready = await given.ask('GET', '/health/ready')
    expect([ready.status, ready.body]).toEqual([200, { ready: true, missing: [] }])
  })

  it('a replica that may not list the operator locks is not ready, and says which right it needs', async () => {
    const sentinel = 'lockkeeper/locks/~sentinel'
    await given.askNomad('DELETE', `/v1/var/${sentinel}`)
    const { status, body } = await given.ask('GET', '/health/ready')
    await given.putVariable(sentinel, { about: 'put back' })
    expect([status, body['ready']]).toEqual([503, false])
    expect(String(body['missing'])).toContain('needs "list"')
  })

  it('a replica without Nomad is live but not ready, and tells whoever asks that Nomad is away', async () => {
    given.nomad.faults.next(() => true, { kind: 'drop' }, 1_000)
    const ready = await given.ask('GET', '/health/ready')
    expect(ready.status).toBe(503)
    expect(ready.body['missing']).not.toEqual([])
    expect((await given.ask('GET', '/health/live')).status).toBe(200)
    const answer = await given.ask('GET', '/v1/locks')
    given.nomad.faults.clear()
    thenIt.isProblem(answer, 'nomad_unavailable')
    expect(answer.headers.get('retry-after')).toBe('1')
  })
})

describe('faults', () => {
  it('what the service cannot explain is a 500 with a number to look for in the log, and nothing of its inside', async () => {
    const variables = ({ path }: { path: string }) => path.startsWith('/v1/vars?') && path.includes('semaphores')
    given.nomad.faults.next(variables, { kind: 'answer', status: 500, body: 'goroutine 7: secret inside' })
    const answer = await given.ask('GET', '/v1/semaphores')
    thenIt.isProblem(answer, 'internal')
    expect(answer.text).not.toContain('goroutine')
    const id = String(answer.body['request'])
    expect(answer.body['detail']).toContain(id)
    expect(given.logs.some((line) => line.includes(id) && line.includes('goroutine'))).toBe(true)
  })

  it('a right that the service lacks is a 503 that says so', async () => {
    const variables = ({ path }: { path: string }) => path.startsWith('/v1/vars?') && path.includes('locks')
    given.nomad.faults.next(variables, { kind: 'answer', status: 403, body: 'Permission denied' })
    thenIt.isProblem(await given.ask('GET', '/v1/locks'), 'nomad_denied')
  })
})

describe('figures', () => {
  it('the metrics show what is held and who waits, with few and bounded labels', async () => {
    const held = await given.hold('metered', 'a')
    await given.hold('metered', 'b', {}, '300ms')
    await given.ask('GET', '/v1/nowhere/at/all')
    await given.ask('GET', `/v1/holds/${String(held.body['hold'])}`)
    const { text, headers } = await given.ask('GET', '/metrics')
    expect(headers.get('content-type')).toMatch(/^text\/plain/)
    expect(text).toMatch(/^lockkeeper_holds\{phase="acting"\} 1$/m)
    expect(text).toMatch(/^lockkeeper_holds\{phase="observing"\} 0$/m)
    expect(text).toMatch(/^lockkeeper_waiting 1$/m)
    expect(text).toMatch(/^lockkeeper_grants_total 1$/m)
    expect(text).toMatch(/^lockkeeper_halted 0$/m)
    expect(text).toMatch(/^lockkeeper_semaphores \d+$/m)
    expect(text).toMatch(/^process_resident_memory_bytes \d+/m)
    expect(text).toContain('lockkeeper_http_request_duration_seconds_count{route="/v1/holds",method="POST",status="201"} 1')
    expect(text).toContain('route="/v1/holds/:hold",method="GET",status="200"')
    expect(text).toContain('route="unknown",method="GET",status="404"')
    expect(text).toMatch(/lockkeeper_nomad_request_duration_seconds_count\{what="variable.acquire",outcome="answered"\} \d+/)
    for (const name of ['metered', 'nowhere', String(held.body['hold'])]) expect(text).not.toContain(name)
  })

  it('C3.2 what shims did while nobody could be asked is counted, and logged with the allocation', async () => {
    const report = (body: object) => given.ask('POST', '/v1/reports', { body })
    const acted = await report({ allocation: 'alloc-42', unavailable: { proceed: 2, jitter: 1 } })
    expect([acted.status, acted.body]).toEqual([200, { counted: 3 }])
    await report({ unavailable: { skip: 1 } })
    const { text } = await given.ask('GET', '/metrics')
    const counted = [...text.matchAll(/^lockkeeper_unavailable_total\{did="(\w+)"\} (\d+)$/gm)].map(
      ([, did, n]) => [did, n] as const,
    )
    expect(Object.fromEntries(counted)).toEqual({ wait: '0', jitter: '1', proceed: '2', skip: '1' })
    expect(given.logs.filter((line) => line.includes('alloc-42') && line.includes('acted without a hold'))).toHaveLength(1)
    thenIt.isRefused(await report({ unavailable: { proceed: 0 } }), 'unavailable/proceed')
    thenIt.isRefused(await report({ unavailable: { hang: 1 } }), 'hang')
  })

  it('the contract that a replica shows is the published one', async () => {
    expect((await given.ask('GET', '/openapi.json')).text).toBe(await openapiDocument())
  })
})

describe('secrets', () => {
  it('C8.3 neither lease nor token is in any answer but the holder’s own, nor in the log, nor in the metrics', async () => {
    const token = 'operator-token-0815'
    const held = await given.hold('secrets', 'a')
    const lease = String(held.body['lease'])
    const path = `/v1/holds/${String(held.body['hold'])}`
    const answers = [
      await given.ask('POST', `${path}/renew`, { body: { lease } }),
      await given.ask('POST', `${path}/renew`, { body: { lease: 'made-up' } }),
      await given.hold('secrets', 'b', {}, '0s'),
      await given.ask('GET', path),
      await given.ask('GET', '/v1/semaphores'),
      await given.ask('PUT', '/v1/locks', { body: { shared: 'secrets', reason: 'r' }, headers: { 'x-nomad-token': token } }),
      await given.ask('GET', '/v1/locks'),
      await given.ask('POST', `${path}/release`, { body: { lease } }),
      await given.ask('GET', '/metrics'),
    ]
    const variables = await given.askNomad('GET', '/v1/vars?prefix=lockkeeper')
    const state = await given.itemsOf('lockkeeper/semaphores/~shared/secrets')
    const texts = [...answers.map(({ text }) => text), ...given.logs, variables.text, JSON.stringify(state)]
    for (const secret of [lease, token]) expect(texts.filter((text) => text.includes(secret))).toEqual([])
  })
})

describe('start and end', () => {
  it('a replica says where it listens and that nobody is asked there, and warns when that is not loopback', async () => {
    expect(given.logs.join('')).toContain('nobody is asked who they are')
    expect(given.logs.join('')).not.toContain('not on loopback')
    const open = await ReplicaUnderTest.start({ listen: '0.0.0.0:0', auth: ['none', 'none'] })
    expect(open.logs.join('')).toContain('not on loopback')
    await open.close()
  })

  it('a replica that does not listen on loopback asks who calls, unless told otherwise twice', async () => {
    const asking = await ReplicaUnderTest.start({ listen: '0.0.0.0:0' })
    thenIt.isProblem(await asking.hold('asked'), 'unauthorized')
    expect(asking.logs.join('')).toContain('workloads show their identity')
    await asking.close()
    const once = ReplicaUnderTest.start({ listen: '0.0.0.0:0', auth: ['none'] })
    await expect(once).rejects.toMatchObject({ kind: 'invalid_request' })
  })

  it('an address that is none, or that is taken, is refused at the start', async () => {
    await expect(ReplicaUnderTest.start({ listen: 'everywhere' })).rejects.toMatchObject({ kind: 'invalid_request' })
    const taken = new URL(given.replica.address).port
    await expect(ReplicaUnderTest.start({ listen: `127.0.0.1:${taken}` })).rejects.toMatchObject({ code: 'EADDRINUSE' })
  })

  it('a replica that shuts down sends those who wait to another one, and ends within seconds', async () => {
    const ending = await ReplicaUnderTest.start()
    await ending.hold('ending', 'a')
    const waiting = ending.hold('ending', 'b', {}, '10m')
    await ending.until(async () => (await ending.ask('GET', '/v1/semaphores?shared=ending')).text.includes('"position":1'))
    const begun = Date.now()
    const closing = ending.replica.close()
    expect(ending.replica.close()).toBe(closing)
    const answer = await waiting
    thenIt.isProblem(answer, 'shutting_down')
    expect(answer.headers.get('connection')).toBe('close')
    await closing
    expect(Date.now() - begun).toBeLessThan(5_000)
    await expect(ending.ask('GET', '/health/live')).rejects.toThrow()
    await ending.close()
  })

  it('an asker that goes away is not told, and those behind it are granted', async () => {
    const first = await given.hold('gone', 'a')
    const before = await handedOut()
    const leaving = new AbortController()
    const left = given.ask('POST', '/v1/holds?wait=10m', {
      body: { shared: 'gone', unit: 'b', reason: 'r', key: 'k' },
      signal: leaving.signal,
    })
    await given.until(async () => (await given.ask('GET', '/v1/semaphores?shared=gone')).text.includes('"position":1'))
    leaving.abort()
    await expect(left).rejects.toThrow()
    await given.ask('POST', `/v1/holds/${String(first.body['hold'])}/release`, { body: { lease: first.body['lease'] } })
    const next = await given.hold('gone', 'c', {}, '20s')
    expect([next.status, await handedOut()]).toEqual([201, before + 1])
  })
})

async function handedOut(): Promise<number> {
  const { text } = await given.ask('GET', '/metrics')
  return Number(/^lockkeeper_grants_total (\d+)$/m.exec(text)?.[1])
}
