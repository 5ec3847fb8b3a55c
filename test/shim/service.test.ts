import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { kindOf, Problem } from '../../src/core/errors.ts'
import { systemClock } from '../../src/keeper/clock.ts'
import { createServiceClient, type ServiceClient } from '../../src/shim/client.ts'
import { contactOf, type TokenFile } from '../../src/shim/contact.ts'
import { createService, type Service } from '../../src/shim/service.ts'
import { grant, LEASE, problem, StubService } from './stub-service.ts'

const never = new AbortController().signal
const WISH = { allocation: 'a-1', reason: 'test' }
let stub: StubService
let other: StubService
let client: ServiceClient
let service: Service

beforeEach(async () => {
  stub = await new StubService().listen()
  other = await new StubService().listen()
  client = createServiceClient(contactOf(`${stub.address},${other.address}`, null), systemClock)
  service = createService(client)
})
afterEach(async () => {
  await client.close()
  await Promise.all([stub.close(), other.close()])
})

const caught = async (work: Promise<unknown>): Promise<Problem> => {
  const error: unknown = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(Problem)
  return error as Problem
}

it('an ask names its wish, its key and how long it waits, and a grant is read whole', async () => {
  const answer = await service.ask(WISH, 'k-1', 30_000, never)
  expect(stub.received).toEqual([{ method: 'POST', url: '/v1/holds?wait=30s', body: { ...WISH, key: 'k-1' } }])
  expect(answer).toEqual({
    kind: 'granted',
    grant: { hold: 'h-1', lease: LEASE, token: 7, slot: 2, ttlMs: 15_000, renewEveryMs: 5_000, scope: 'default/web/api' },
  })
})

it('waiting is an answer: kind, place and reason are read from the problem document', async () => {
  stub.ask = () => problem('too_soon', 'stagger', { position: 2, waiting: 5 })
  expect(await service.ask(WISH, 'k', 0, never)).toEqual({
    kind: 'waiting',
    waiting: { wait: 'too_soon', detail: 'stagger', position: 2, waiting: 5, retryAfterMs: null },
  })
})

it('a reason to wait that only a newer service knows is taken for the nearest one', async () => {
  stub.ask = () => ({ status: 423, body: { kind: 'frozen', detail: 'so' } })
  expect(await service.ask(WISH, 'k', 0, never)).toMatchObject({ waiting: { wait: 'locked', detail: 'so' } })
  stub.ask = () => ({ status: 429, body: { kind: 'full_moon' } })
  expect(await service.ask(WISH, 'k', 0, never)).toMatchObject({ waiting: { wait: 'full' } })
})

it('a replica that breaks the connection, or shuts down, is left for the next one', async () => {
  stub.ask = () => 'broken'
  expect((await service.ask(WISH, 'k', 0, never)).kind).toBe('granted')
  expect(other.received).toHaveLength(1)
  other.ask = () => problem('shutting_down')
  stub.ask = () => ({ status: 201, body: grant({ token: 8 }) })
  expect(await service.ask(WISH, 'k', 0, never)).toMatchObject({ grant: { token: 8 } })
})

it('the replica that answered last is asked first', async () => {
  stub.ask = () => 'broken'
  await service.ask(WISH, 'k', 0, never)
  await service.renew('h-1', LEASE, 3_000, never)
  expect(stub.received).toHaveLength(1)
  expect(other.received.map(({ url }) => url)).toEqual(['/v1/holds?wait=0s', '/v1/holds/h-1/renew'])
})

it('a replica that does not answer in time is left for the next one', async () => {
  stub.renew = () => null
  await service.renew('h-1', LEASE, 100, never)
  expect(stub.closed).toBe(1)
  expect(other.of('renew')).toEqual([{ lease: LEASE }])
})

it('when no replica answers, what one of them gave as its reason counts', async () => {
  stub.ask = () => problem('nomad_unavailable', 'no leader')
  other.ask = () => 'broken'
  const error = await caught(service.ask(WISH, 'k', 0, never))
  expect([error.kind, error.message]).toEqual(['nomad_unavailable', 'no leader'])
  stub.ask = () => 'broken'
  expect(kindOf(await caught(service.ask(WISH, 'k', 0, never)))).toBe('service_unavailable')
})

it('a problem is known by its kind', async () => {
  stub.renew = () => problem('not_holder')
  expect((await caught(service.renew('h-1', LEASE, 3_000, never))).kind).toBe('not_holder')
  stub.ask = () => problem('unknown_allocation', 'Nomad knows no allocation a-1')
  expect((await caught(service.ask(WISH, 'k', 0, never))).message).toBe('Nomad knows no allocation a-1')
})

it('something else that listens there renews nothing and grants nothing', async () => {
  for (const status of [200, 404, 502]) {
    const page = () => ({ status, body: '<html>hello</html>', type: 'text/html' })
    Object.assign(stub, { ask: page, renew: page })
    Object.assign(other, { ask: page, renew: page })
    expect((await caught(service.ask(WISH, 'k', 0, never))).kind).toBe('service_unavailable')
    expect((await caught(service.renew('h-1', LEASE, 3_000, never))).kind).toBe('service_unavailable')
  }
})

it('who gives up closes its connection, so that the service sees that it has gone', async () => {
  stub.ask = () => null
  const control = new AbortController()
  const asking = service.ask(WISH, 'k', 30_000, control.signal)
  await stub.until(() => stub.received.length === 1)
  control.abort(new Error('gone'))
  await expect(asking).rejects.toThrow('gone')
  await stub.until(() => stub.closed === 1)
  expect(other.received).toEqual([])
})

it('no error holds the lease, whatever the service sends back', async () => {
  const answers = [
    { status: 201, body: `{"lease":"${LEASE}"` },
    { status: 201, body: { hold: 'h', lease: LEASE } },
    { status: 200, body: `${LEASE}` },
  ]
  for (const answer of answers) {
    Object.assign(stub, { ask: () => answer, renew: () => answer })
    const asked = await service.ask(WISH, 'k', 0, never).catch((error: unknown) => error)
    const renewed = await service.renew('h', LEASE, 1_000, never).catch((error: unknown) => error)
    for (const error of [asked, renewed]) {
      if (!(error instanceof Error)) continue
      expect(`${error.message} ${error.stack} ${JSON.stringify(error)} ${String(error.cause)}`).not.toContain(LEASE)
    }
  }
})

it('a release says how the act ended', async () => {
  await service.release('h/1', LEASE, 'abandoned', never)
  expect(stub.received).toEqual([
    { method: 'POST', url: '/v1/holds/h%2F1/release', body: { lease: LEASE, outcome: 'abandoned' } },
  ])
})

it('an answer that breaks off in the middle is none', async () => {
  stub.renew = () => ({ status: 200, body: '{"phase":"acting"}', cutOff: true })
  await service.renew('h-1', LEASE, 3_000, never)
  expect(other.of('renew')).toEqual([{ lease: LEASE }])
})

it('calls one after another share a connection', async () => {
  for (let nth = 0; nth < 3; nth++) await service.renew('h-1', LEASE, 3_000, never)
  expect(stub.connections).toBe(1)
})

it('a replica that is frozen is left within 15 s, for another one', async () => {
  const bounds: number[] = []
  const spy: ServiceClient = { ...client, call: (call, signal) => (bounds.push(call.boundMs), client.call(call, signal)) }
  await createService(spy).ask(WISH, 'k', 10_000, never)
  expect(bounds).toEqual([14_000])
})

describe('who and where', () => {
  const folder = mkdtempSync(join(tmpdir(), 'contact-'))
  const file = join(folder, 'file')
  afterAll(() => rmSync(folder, { recursive: true }))
  const asks = (from: string, token: TokenFile | null = null) => {
    const own = createServiceClient(contactOf(from, token), systemClock)
    return { own, ask: () => createService(own).ask(WISH, 'k', 0, never) }
  }

  it('addresses in a file are read again for each call: replicas come and go while we wait', async () => {
    writeFileSync(file, `${stub.address}\n`)
    const { own, ask } = asks(`@${file}`)
    await ask()
    writeFileSync(file, `${other.address}/,\n\n`)
    await ask()
    writeFileSync(file, '')
    expect((await caught(ask())).kind).toBe('service_unavailable')
    writeFileSync(file, stub.address)
    await ask()
    await own.close()
    expect([stub.of('ask').length, other.of('ask').length]).toEqual([2, 1])
  })

  it('addresses that are none are an error that does not repeat them', async () => {
    writeFileSync(file, 'http://user:hunter2@host')
    const { own, ask } = asks(`@${file}`)
    const error = await caught(ask())
    await own.close()
    expect(error.kind).toBe('invalid_request')
    expect(error.message).not.toContain('hunter2')
  })

  it('the identity is read again for each call, and kept while its file is being written', async () => {
    const token = { path: join(folder, 'token'), expected: true }
    const { own, ask } = asks(stub.address, token)
    expect((await caught(ask())).kind).toBe('unauthorized')
    for (const content of ['one.jwt\n', 'two.jwt', '', 'half\nwritten']) {
      writeFileSync(token.path, content)
      await ask()
    }
    rmSync(token.path)
    await ask()
    await own.close()
    const shown = stub.received.map(({ authorization }) => authorization)
    expect(shown).toEqual(['one.jwt', 'two.jwt', 'two.jwt', 'two.jwt', 'two.jwt'].map((one) => `Bearer ${one}`))
  })

  it('an identity that need not be there is left out', async () => {
    const { own, ask } = asks(stub.address, { path: join(folder, 'none'), expected: false })
    await ask()
    await own.close()
    expect(stub.received[0]?.authorization).toBeUndefined()
  })
})
