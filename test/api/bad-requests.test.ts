import { createConnection } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ReplicaUnderTest, type Sent } from '../support/replica.ts'
import { thenIt } from './then.ts'

let given: ReplicaUnderTest
beforeAll(async () => {
  given = await ReplicaUnderTest.start()
})
afterAll(async () => {
  await given.close()
  await thenIt.keepsTheContract(given.seen)
})

const ASK = { shared: 'docker', unit: 'host-1', reason: 'a test', key: 'key-1' }
const ask = (body: unknown, query = '') => given.ask('POST', `/v1/holds${query}`, { body })

/** Every operation, with a body that is fine. */
const OPERATIONS: readonly [method: string, path: string, body?: object][] = [
  ['POST', '/v1/holds', ASK],
  ['POST', '/v1/holds/x/renew', { lease: 'l' }],
  ['POST', '/v1/holds/x/release', { lease: 'l' }],
  ['GET', '/v1/holds/x'],
  ['DELETE', '/v1/holds/x', { reason: 'r' }],
  ['GET', '/v1/semaphores'],
  ['POST', '/v1/semaphores/resume', { shared: 's', reason: 'r' }],
  ['GET', '/v1/locks'],
  ['PUT', '/v1/locks', { shared: 's', reason: 'r' }],
  ['DELETE', '/v1/locks'],
  ['POST', '/v1/requests', { allocation: 'a', reason: 'r' }],
  ['POST', '/v1/reports', { unavailable: { skip: 1 } }],
  ['GET', '/health/live'],
  ['GET', '/health/ready'],
  ['GET', '/metrics'],
  ['GET', '/openapi.json'],
]

describe('a misspelt field or parameter is refused, not dropped', () => {
  for (const [method, path, body] of OPERATIONS) {
    it(`${method} ${path} refuses an unknown query parameter and names it`, async () => {
      thenIt.isRefused(await given.ask(method, `${path}?watchful=1`, body === undefined ? {} : { body }), 'watchful')
    })
    if (body === undefined) continue
    it(`${method} ${path} refuses an unknown field of the body and names it`, async () => {
      thenIt.isRefused(await given.ask(method, path, { body: { ...body, priorty: 5 } }), 'priorty')
    })
  }

  it('a lock is never removed because its level stood in the body', async () => {
    await given.ask('PUT', '/v1/locks', { body: { reason: 'everything' } })
    thenIt.isProblem(await given.ask('DELETE', '/v1/locks', { body: { namespace: 'default' } }), 'invalid_request')
    expect((await given.ask('DELETE', '/v1/locks')).body['reason']).toBe('everything')
  })
})

describe('an ask that cannot be meant', () => {
  const wrong: readonly [why: string, field: string, body: object][] = [
    ['neither allocation nor shared', 'allocation', { reason: 'r', key: 'k' }],
    ['both of them', 'allocation', { ...ASK, allocation: 'a' }],
    ['shared without unit', 'unit', { shared: 's', reason: 'r', key: 'k' }],
    ['a unit with an allocation', 'unit', { allocation: 'a', unit: 'u', reason: 'r', key: 'k' }],
    ['a component of a shared semaphore', 'component', { ...ASK, component: 'c' }],
    ['a task of a shared semaphore', 'task', { ...ASK, task: 't' }],
    ['no reason', 'reason', { shared: 's', unit: 'u', key: 'k' }],
    ['an empty reason', 'reason', { ...ASK, reason: '' }],
    ['no key', 'key', { shared: 's', unit: 'u', reason: 'r' }],
    ['a key with a blank', 'key', { ...ASK, key: 'a b' }],
    ['an action that is none', 'action', { ...ASK, action: 'reboot' }],
    ['a priority out of range', 'priority', { ...ASK, priority: 1001 }],
    ['a priority that is a text', 'priority', { ...ASK, priority: '5' }],
    ['a priority with a fraction', 'priority', { ...ASK, priority: 1.5 }],
    ['a deadline in words', 'deadline', { ...ASK, deadline: 'tomorrow' }],
    ['a deadline without a zone', 'deadline', { ...ASK, deadline: '2030-01-01T00:00:00' }],
    ['a deadline that no calendar has', 'deadline', { ...ASK, deadline: '2030-13-41T25:00:00Z' }],
    ['a name that is a number', 'shared', { ...ASK, shared: 5 }],
    ['an empty name', 'shared', { ...ASK, shared: '' }],
    ['a name of 257 characters', 'unit', { ...ASK, unit: 'x'.repeat(257) }],
    ['a name with a line break', 'unit', { ...ASK, unit: 'a\nb' }],
    ['a name with half a character', 'unit', { ...ASK, unit: 'a\ud800' }],
    ['a name that is null', 'unit', { ...ASK, unit: null }],
  ]
  for (const [why, field, body] of wrong) {
    it(`is refused: ${why}`, async () => thenIt.isRefused(await ask(body), field))
  }

  for (const wait of ['1000h', '10m1s', 'abc', '-5s', '5', '', '1h2x', '9'.repeat(60) + 'h']) {
    it(`is refused: wait=${wait}`, async () => thenIt.isRefused(await ask(ASK, `?wait=${wait}`), 'wait'))
  }

  it('is refused: wait given twice', async () => thenIt.isRefused(await ask(ASK, '?wait=1s&wait=2s'), 'wait'))
})

describe('a level or scope that cannot be meant', () => {
  const queries: readonly string[] = [
    '?job=web',
    '?namespace=default&group=api',
    '?namespace=default&job=web&component=c',
    '?namespace=default&shared=docker',
    '?namespace=my.team',
    '?namespace=',
    '?namespace=*',
    '?namespace=default&namespace=other',
    `?namespace=${'n'.repeat(129)}`,
    '?namespace=default&job=',
    '?namespace=default&job=a%0ab',
  ]
  for (const query of queries) {
    it(`is refused: ${query.slice(0, 60)}`, async () => {
      thenIt.isProblem(await given.ask('GET', `/v1/semaphores${query}`), 'invalid_request')
      thenIt.isProblem(await given.ask('DELETE', `/v1/locks${query}`), 'invalid_request')
    })
  }

  it('resume needs one whole semaphore, not a level above it', async () => {
    for (const named of [{}, { namespace: 'default' }, { namespace: 'default', job: 'web' }, { shared: '' }]) {
      thenIt.isProblem(await given.ask('POST', '/v1/semaphores/resume', { body: { ...named, reason: 'r' } }), 'invalid_request')
    }
  })

  for (const until of ['yesterday', '0s', '-1h', '9000h', '2020-01-01T00:00:00Z', '2030-01-01']) {
    it(`a lock is refused: until=${until}`, async () => {
      thenIt.isRefused(await given.ask('PUT', '/v1/locks', { body: { shared: 'x', reason: 'r', until } }), 'until')
    })
  }

  it('a token that no Nomad ever made is refused, and not repeated', async () => {
    const headers = { 'x-nomad-token': 'two words' }
    for (const [method, path, body] of [
      ['PUT', '/v1/locks', { reason: 'r' }],
      ['DELETE', '/v1/locks', undefined],
      ['POST', '/v1/semaphores/resume', { shared: 's', reason: 'r' }],
      ['DELETE', '/v1/holds/x', { reason: 'r' }],
    ] as const) {
      const answer = await given.ask(method, path, { headers, ...(body === undefined ? {} : { body }) })
      thenIt.isProblem(answer, 'invalid_request')
      expect(answer.text).not.toContain('two words')
    }
  })
})

describe('a body that is none', () => {
  const bodies: readonly [why: string, sent: Sent][] = [
    ['not JSON', { raw: '{"shared": ', headers: { 'content-type': 'application/json' } }],
    ['JSON, but null', { raw: 'null', headers: { 'content-type': 'application/json' } }],
    ['a list', { body: [ASK] }],
    ['a text', { body: 'docker' }],
    ['empty', { raw: '', headers: { 'content-type': 'application/json' } }],
    ['missing', {}],
    ['an attack on the prototype', { raw: '{"__proto__": {"shared": "x"}}', headers: { 'content-type': 'application/json' } }],
    ['a form', { raw: 'shared=docker', headers: { 'content-type': 'application/x-www-form-urlencoded' } }],
    ['plain text', { raw: JSON.stringify(ASK), headers: { 'content-type': 'text/plain' } }],
    ['of no type at all', { raw: JSON.stringify(ASK), headers: { 'content-type': 'nonsense' } }],
  ]
  for (const [why, sent] of bodies) {
    it(`is refused: ${why}`, async () => thenIt.isProblem(await given.ask('POST', '/v1/holds', sent), 'invalid_request'))
  }

  it('the wrong content type is answered with the right one', async () => {
    const answer = await given.ask('POST', '/v1/holds', { raw: 'a=b', headers: { 'content-type': 'text/plain' } })
    expect(answer.body['detail']).toContain('Content-Type: application/json')
  })

  it('a body over 64 KiB is a 413 on every route that takes one', async () => {
    for (const [method, path, body] of OPERATIONS) {
      if (body === undefined) continue
      const large = { ...body, reason: 'x'.repeat(64 * 1024) }
      thenIt.isProblem(await given.ask(method, path, { body: large }), 'body_too_large')
    }
  })

  it('a body of nearly 64 KiB is read, and then refused for what is wrong in it', async () => {
    thenIt.isRefused(await ask({ ...ASK, reason: 'x'.repeat(63 * 1024) }), 'reason')
  })
})

describe('what no route takes', () => {
  it('an unknown path is a 404 that points at the contract', async () => {
    for (const [method, path] of [
      ['GET', '/'],
      ['GET', '/v1'],
      ['POST', '/v2/holds'],
      ['GET', '/v1/locks/'],
      ['DELETE', '/v1/holds/a/b/c'],
    ] as const) {
      const answer = await given.ask(method, path)
      thenIt.isProblem(answer, 'not_found')
      expect(answer.body['detail']).toContain('/openapi.json')
    }
  })

  it('a wrong method is a 405 that says which ones are right', async () => {
    for (const [method, path, allow] of [
      ['GET', '/v1/holds', 'POST'],
      ['PUT', '/v1/holds/x', 'DELETE, GET, HEAD'],
      ['GET', '/v1/holds/x/renew', 'POST'],
      ['POST', '/v1/locks', 'DELETE, GET, HEAD, PUT'],
      ['POST', '/health/live', 'GET, HEAD'],
      ['OPTIONS', '/metrics', 'GET, HEAD'],
    ] as const) {
      const answer = await given.ask(method, path)
      thenIt.isProblem(answer, 'method_not_allowed')
      expect(answer.headers.get('allow')).toBe(allow)
    }
  })

  it('a URL that is not encoded, or has an endless part, is refused as well', async () => {
    thenIt.isProblem(await given.ask('GET', '/v1/holds/%zz'), 'invalid_request')
    thenIt.isProblem(await given.ask('GET', `/v1/holds/${'x'.repeat(300)}`), 'invalid_request')
  })

  it('what is no HTTP is told so, and its connection is closed', async () => {
    for (const sent of ['hello\r\n\r\n', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`]) {
      const socket = createConnection(Number(new URL(given.replica.address).port), '127.0.0.1')
      socket.write(sent)
      const answer = await text(socket)
      expect(answer).toMatch(/^HTTP\/1\.1 400 /)
      expect(answer).toContain('"kind":"invalid_request"')
    }
  })
})
