import { createHmac, createPublicKey, randomUUID, type JsonWebKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openapiDocument } from '../../src/api/openapi.ts'
import { Keyring } from '../../src/devnomad/acl/keyring.ts'
import { ReplicaUnderTest, type HttpAnswer } from '../support/replica.ts'
import { thenIt } from './then.ts'

let given: ReplicaUnderTest
let web: string[]
let other: string[]
/** Every credential that was sent: none may be seen anywhere. */
const sent = new Set<string>()

beforeAll(async () => {
  given = await ReplicaUnderTest.start({ auth: ['identity'] }, { acl: true })
  const meta = { lockkeeper_wait_for_deployment: 'false', lockkeeper_max_parallel: '100%' }
  web = await given.job('web', { meta })
  other = await given.job('x:web/y:z', { meta })
})
afterAll(async () => {
  await given.close()
  await thenIt.keepsTheContract(given.seen)
  const said = [...given.seen.map(({ answer }) => answer.text), ...given.logs].join('\n')
  const parts = [...sent].flatMap((secret) => secret.split('.')).filter((part) => part.length > 20)
  expect(parts.length).toBeGreaterThan(20)
  for (const part of parts) expect(said.includes(part), part).toBe(false)
})

const identity = (allocation: string) => given.nomad.identity(allocation, 'app', 'lockkeeper')
const bearer = (token: string) => {
  sent.add(token)
  return { authorization: `Bearer ${token}` }
}
const operator = (token: string) => {
  sent.add(token)
  return { 'x-nomad-token': token }
}
const as = (allocation: string) => bearer(identity(allocation))
const askFor = (allocation: string, headers: Record<string, string>, component: string) =>
  given.ask('POST', '/v1/holds?wait=10s', {
    body: { allocation, component, reason: 'new password', key: `key-${allocation}` },
    headers,
  })
const at = (held: HttpAnswer) => `/v1/holds/${String(held.body['hold'])}`
const withLease = (held: HttpAnswer, headers: Record<string, string>) => ({ body: { lease: held.body['lease'] }, headers })
/** The claims of a good identity, with something else about them, signed by Nomad. */
const claimsOf = (allocation: string, more: object = {}) => ({
  ...(JSON.parse(Buffer.from(identity(allocation).split('.')[1] as string, 'base64url').toString()) as object),
  ...more,
})

describe('a workload', () => {
  it('asks for its own allocation, renews, looks, and releases', async () => {
    const [mine] = web as [string]
    const held = await askFor(mine, as(mine), 'good')
    expect(held.status, held.text).toBe(201)
    expect((await given.ask('POST', `${at(held)}/renew`, withLease(held, as(mine)))).body).toMatchObject({ phase: 'acting' })
    expect((await given.ask('GET', at(held), { headers: as(mine) })).body).toMatchObject({ unit: mine })
    expect((await given.ask('POST', `${at(held)}/release`, withLease(held, as(mine)))).body).toEqual({ phase: 'observing' })
  })

  it('of a job whose ID holds colons and slashes does so, too', async () => {
    const [mine] = other as [string]
    const held = await askFor(mine, as(mine), 'colons')
    expect(held.body, held.text).toMatchObject({ scope: { job: 'x:web/y:z', group: 'api' }, unit: mine })
    expect((await given.ask('POST', `${at(held)}/renew`, withLease(held, as(mine)))).status).toBe(200)
  })

  it('may not ask for another allocation, be it of its own group, and nothing is stored', async () => {
    const [mine, sibling] = web as [string, string]
    for (const allocation of [sibling, other[0] as string, randomUUID(), 'x'])
      thenIt.isProblem(await askFor(allocation, as(mine), 'foreign'), 'forbidden')
    expect(await given.itemsOf('lockkeeper/semaphores/default/web/api/foreign')).toBeNull()
  })

  it('reports what it did while nobody could be asked, of its own allocation alone', async () => {
    const [mine, sibling] = web as [string, string]
    const report = (allocation: string, headers: Record<string, string>) =>
      given.ask('POST', '/v1/reports', { body: { allocation, unavailable: { skip: 1 } }, headers })
    expect((await report(mine, as(mine))).body).toEqual({ counted: 1 })
    thenIt.isProblem(await report(sibling, as(mine)), 'forbidden')
    thenIt.isProblem(await report(mine, {}), 'unauthorized')
    thenIt.isProblem(await report(mine, operator(randomUUID())), 'forbidden')
  })

  it('of another job may not touch a hold, even with its lease', async () => {
    const [mine] = web as [string]
    const held = await askFor(mine, as(mine), 'touched')
    const stranger = as(other[0] as string)
    thenIt.isProblem(await given.ask('POST', `${at(held)}/renew`, withLease(held, stranger)), 'forbidden')
    thenIt.isProblem(await given.ask('POST', `${at(held)}/release`, withLease(held, stranger)), 'forbidden')
    thenIt.isProblem(await given.ask('GET', at(held), { headers: stranger }), 'forbidden')
    expect((await given.ask('GET', at(held), { headers: as(mine) })).body).toMatchObject({ phase: 'acting' })
  })

  it('of the same group goes on with a hold if it has the lease, and not without', async () => {
    const [mine, replacement] = web as [string, string]
    const held = await askFor(mine, as(mine), 'replaced')
    expect((await given.ask('POST', `${at(held)}/renew`, withLease(held, as(replacement)))).status).toBe(200)
    const guess = { body: { lease: randomUUID() }, headers: as(replacement) }
    thenIt.isProblem(await given.ask('POST', `${at(held)}/renew`, guess), 'not_holder')
  })

  it('takes a slot of a shared semaphore for its own allocation alone', async () => {
    const [mine, sibling] = web as [string, string]
    const ask = (unit: string) =>
      given.ask('POST', '/v1/holds', { body: { shared: 'docker', unit, reason: 'r', key: `key-${unit}` }, headers: as(mine) })
    for (const unit of [sibling, `${mine}/2`, 'host-1']) thenIt.isProblem(await ask(unit), 'forbidden')
    const held = await given.ask('POST', '/v1/holds?wait=10s', {
      body: { shared: 'docker', unit: mine, reason: 'r', key: 'key' },
      headers: as(mine),
    })
    expect(held.status, held.text).toBe(201)
    thenIt.isProblem(await given.ask('POST', `${at(held)}/renew`, withLease(held, as(sibling))), 'forbidden')
    expect((await given.ask('POST', `${at(held)}/release`, withLease(held, as(mine)))).body).toEqual({ phase: 'over' })
  })

  it('does nothing that is for operators', async () => {
    const headers = as(web[0] as string)
    thenIt.isProblem(await given.ask('PUT', '/v1/locks', { body: { reason: 'r' }, headers }), 'forbidden')
    thenIt.isProblem(await given.ask('DELETE', '/v1/locks', { headers }), 'forbidden')
    thenIt.isProblem(await given.ask('DELETE', '/v1/holds/x', { body: { reason: 'r' }, headers }), 'forbidden')
    const body = { shared: 'docker', reason: 'r' }
    thenIt.isProblem(await given.ask('POST', '/v1/semaphores/resume', { body, headers }), 'forbidden')
  })
})

describe('whoever cannot be believed is refused before anything is done', () => {
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const key = () => given.nomad.keyring.published[0] as JsonWebKey & { kid: string }
  const unsigned = (head: object) => `${encoded({ kid: key().kid, typ: 'JWT', ...head })}.${encoded(claimsOf(web[0] as string))}`
  const signed = (more: object) => given.nomad.keyring.sign(claimsOf(web[0] as string, more))
  const now = () => Math.floor(Date.now() / 1_000)

  it.each<[string, string, () => string]>([
    ['the default identity, for Nomad itself', 'audience', () => given.nomad.identity(web[0] as string, 'app')],
    ['another audience', 'audience', () => signed({ aud: 'vault.io' })],
    ['an expired one', 'expired', () => signed({ exp: now() - 60 })],
    ['one of tomorrow', 'nbf', () => signed({ nbf: now() + 86_400 })],
    ['a subject of another job', 'subject', () => signed({ sub: 'global:default:web2:api:app:lockkeeper' })],
    ['a key that Nomad does not know', 'none of the keys', () => new Keyring(randomUUID).sign(claimsOf(web[0] as string))],
    [
      'a signature of another key',
      'signature',
      () => {
        const [, , signature] = new Keyring(randomUUID).sign(claimsOf(web[0] as string)).split('.')
        return `${unsigned({ alg: 'RS256' })}.${signature}`
      },
    ],
    [
      'changed claims',
      'signature',
      () => identity(web[1] as string).replace(/\.[^.]+\./, `.${encoded(claimsOf(web[0] as string))}.`),
    ],
    ['no signature', 'signed by', () => `${unsigned({ alg: 'none' })}.`],
    [
      'the public key as a shared secret',
      'signed by',
      () => {
        const text = unsigned({ alg: 'HS256' })
        const pem = createPublicKey({ key: key(), format: 'jwk' }).export({ type: 'spki', format: 'pem' })
        return `${text}.${createHmac('sha256', pem).update(text).digest('base64url')}`
      },
    ],
    ['a Nomad token', 'X-Nomad-Token', () => given.token],
    ['garbage', 'no JWT', () => 'a.b.c'],
    ['nothing to speak of', 'no JWT', () => '-'],
  ])('%s', async (_, text, make) => {
    const answer = await askFor(web[0] as string, bearer(make()), 'unbelievable')
    thenIt.isProblem(answer, 'unauthorized')
    expect(answer.body['detail']).toContain(text)
    expect(answer.headers.get('www-authenticate')).toBe('Bearer')
    expect(await given.itemsOf('lockkeeper/semaphores/default/web/api/unbelievable')).toBeNull()
  })

  it('nobody at all, on every route that asks', async () => {
    const { paths } = JSON.parse(await openapiDocument()) as {
      paths: Record<string, Record<string, { security: Record<string, string[]>[] }>>
    }
    for (const [path, operations] of Object.entries(paths)) {
      for (const [method, { security }] of Object.entries(operations)) {
        const answer = await given.ask(method.toUpperCase(), path.replace(/\{\w+\}/, 'x'))
        if (security.length > 0) thenIt.isProblem(answer, 'unauthorized')
        else expect(answer.status, `${method} ${path}`).toBe(200)
      }
    }
  })

  it('another scheme, and two callers in one', async () => {
    thenIt.isProblem(await askFor(web[0] as string, { authorization: `Basic ${btoa('a:b')}` }, 'c'), 'unauthorized')
    const both = { ...as(web[0] as string), ...operator(given.token) }
    thenIt.isProblem(await askFor(web[0] as string, both, 'c'), 'invalid_request')
  })
})

describe('an operator', () => {
  const rules = (name: string) => readFileSync(new URL(`../../deploy/acl/${name}.policy.hcl`, import.meta.url), 'utf8')
  const withRules = (name: string, Rules: string) => {
    given.nomad.acl.putPolicy({ Name: name, Description: '', Rules, JobACL: null })
    return operator(given.nomad.acl.putToken({ Name: name, Type: 'client', Policies: [name] }).SecretID)
  }
  const reader = `namespace "default" { variables { path "lockkeeper/semaphores/*" { capabilities = ["read", "list"] } } }`

  it('locks and ends holds by force with a token that Nomad allows it to, and with none that it does not', async () => {
    const held = await askFor(web[0] as string, as(web[0] as string), 'by-force')
    const force = (headers: Record<string, string>) => given.ask('DELETE', at(held), { body: { reason: 'gone' }, headers })
    const lock = (headers: Record<string, string>) =>
      given.ask('PUT', '/v1/locks', { body: { shared: 'operators', reason: 'r' }, headers })
    for (const weak of [withRules('reader', reader), operator(randomUUID())]) {
      thenIt.isProblem(await force(weak), 'forbidden')
      thenIt.isProblem(await lock(weak), 'forbidden')
    }
    const good = withRules('operator', rules('operator'))
    expect([(await force(good)).status, (await lock(good)).status]).toEqual([200, 200])
  })

  it('asks for any allocation whose semaphore Nomad lets the token write, and looks where it lets it read', async () => {
    const good = withRules('operator', rules('operator'))
    const weak = withRules('reader', reader)
    const held = await askFor(web[1] as string, good, 'operated')
    expect(held.status, held.text).toBe(201)
    for (const refused of [weak, operator(randomUUID()), operator('made-up')])
      thenIt.isProblem(await askFor(web[0] as string, refused, 'operated'), 'forbidden')
    expect((await given.ask('GET', at(held), { headers: weak })).status).toBe(200)
    thenIt.isProblem(await given.ask('GET', at(held), { headers: operator(randomUUID()) }), 'forbidden')
    thenIt.isProblem(await given.ask('POST', `${at(held)}/renew`, withLease(held, weak)), 'forbidden')
    expect((await given.ask('POST', `${at(held)}/renew`, withLease(held, good))).status).toBe(200)
    expect((await given.ask('POST', `${at(held)}/release`, withLease(held, good))).status).toBe(200)
    expect((await given.itemsOf('lockkeeper/semaphores/default/web/api/operated'))?.['about']).toBeUndefined()
  })
})

it('the keys may change at any time, and their algorithm', async () => {
  const [mine] = web as [string]
  const old = as(mine)
  given.nomad.keyring.rotate('EdDSA')
  for (const headers of [as(mine), old]) expect((await askFor(mine, headers, 'rotated')).status).toBe(201)
  expect(given.nomad.keyring.published).toMatchObject([{ alg: 'RS256' }, { alg: 'EdDSA' }])
})

it('when Nomad does not tell its keys, the known ones go on, and of others nothing can be told', async () => {
  const [mine] = web as [string]
  expect((await askFor(mine, as(mine), 'keys-down')).status).toBe(201)
  given.nomad.faults.next(({ path }) => path.startsWith('/.well-known'), { kind: 'drop' }, 1_000)
  expect((await askFor(mine, as(mine), 'keys-down')).status).toBe(201)
  given.nomad.keyring.rotate()
  const answer = await askFor(mine, as(mine), 'keys-down')
  thenIt.isProblem(answer, 'nomad_unavailable')
  expect(answer.headers.get('retry-after')).toBe('1')
  given.nomad.faults.clear()
  expect((await askFor(mine, as(mine), 'keys-down')).status).toBe(201)
})

describe('where nobody is asked', () => {
  it('whoever calls may, whatever identity it shows', async () => {
    const open = await ReplicaUnderTest.start()
    try {
      const held = await open.ask('POST', '/v1/holds?wait=10s', {
        body: { shared: 's', unit: 'u', reason: 'r', key: 'k' },
        headers: { authorization: 'Bearer whatever' },
      })
      expect(held.status).toBe(201)
      expect((await open.ask('DELETE', at(held), { body: { reason: 'r' } })).status).toBe(200)
    } finally {
      await open.close()
    }
  })
})
