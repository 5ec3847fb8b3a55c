import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Answer } from '../../src/devnomad/devnomad.ts'
import { webJob } from './given.ts'
import { DevNomadClient, isOver } from '../support/devnomad-client.ts'

describe('faults', () => {
  let client: DevNomadClient
  const set = (): Promise<Answer> => client.ask('PUT', '/v1/var/a', { Items: { a: '1' } })
  const exists = async (): Promise<boolean> => (await client.ask('GET', '/v1/var/a')).status === 200
  const writes = (request: { method: string }): boolean => request.method === 'PUT'

  beforeEach(() => {
    client = new DevNomadClient()
  })
  afterEach(() => client.close())

  it('a dropped request is not done', async () => {
    client.nomad.faults.next(writes, { kind: 'drop' })
    await expect(set()).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(await exists()).toBe(false)
  })

  it('a dropped answer leaves the write done', async () => {
    client.nomad.faults.next(writes, { kind: 'drop-answer' })
    await expect(set()).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(await exists()).toBe(true)
  })

  it('a delayed request is done later, although its caller has given up', async () => {
    const caller = new AbortController()
    client.nomad.faults.next(writes, { kind: 'delay', ms: 5_000 })
    const late = client.ask('PUT', '/v1/var/a', { Items: { a: '1' } }, caller.signal)
    caller.abort(new Error('enough'))
    await expect(late).rejects.toThrow('enough')
    expect(await exists()).toBe(false)
    await client.clock.advance(5_000)
    expect(await exists()).toBe(true)
  })

  it('an answer can be put in the place of the real one, so many times', async () => {
    client.nomad.faults.next(writes, { kind: 'answer', status: 500, body: 'rpc error: EOF' }, 2)
    expect((await set()).body).toBe('rpc error: EOF')
    expect((await set()).status).toBe(500)
    expect((await set()).status).toBe(200)
  })

  it('a write may have happened behind an answer that says that it failed', async () => {
    client.nomad.faults.next(writes, { kind: 'answer', status: 500, body: 'rpc error: EOF', done: true })
    expect(await set()).toMatchObject({ status: 500, body: 'rpc error: EOF' })
    expect(await exists()).toBe(true)
  })

  it('without a leader writes and reads fail, and stale reads do not', async () => {
    await set()
    client.nomad.leader.fail(3_600)
    expect(await set()).toMatchObject({ status: 500, body: expect.stringContaining('failed to get conn') })
    expect((await client.ask('GET', '/v1/var/a')).status).toBe(500)
    expect((await client.ask('GET', '/v1/var/a?stale')).status).toBe(200)
    await client.clock.advance(3_600)
    expect((await set()).status).toBe(200)
  })

  it('a stalled leader does late what was asked meanwhile', async () => {
    client.nomad.leader.stall(10_000)
    const late = set()
    await client.clock.advance(9_999)
    expect(await isOver(late)).toBe(false)
    await client.clock.advance(1)
    expect((await late).status).toBe(200)
  })

  it('servers that are not well say so with a 429, and the body as usual', async () => {
    client.nomad.setServersHealthy(false)
    const { status, headers, body } = await client.ask('GET', '/v1/operator/autopilot/health')
    expect({ status, headers }).toEqual({ status: 429, headers: { 'Content-Type': 'text/plain; charset=utf-8' } })
    expect(JSON.parse(body)).toMatchObject({ Healthy: false, Servers: [{ Healthy: false }] })
    client.nomad.setServersHealthy(true)
    expect((await client.ask('GET', '/v1/operator/autopilot/health')).status).toBe(200)
  })

  it('a body of a shape that nobody expects is refused, and breaks no connection', async () => {
    expect(await client.ask('PUT', '/v1/var/a', null)).toMatchObject({ status: 400 })
    expect(await client.ask('PUT', '/v1/jobs', null)).toMatchObject({ status: 400, body: 'Job must be specified' })
    expect((await client.ask('PUT', '/v1/jobs', { Job: { ID: 'x', TaskGroups: 'y' } })).status).toBe(500)
    client.nomad.registerJob(webJob())
    await client.clock.advance(20_000)
    const [alloc] = await client.get<{ ID: string }[]>('/v1/job/web/allocations')
    const restart = client.ask('PUT', `/v1/client/allocation/${alloc?.ID}/restart`, null)
    await client.clock.advance(1_000)
    expect((await restart).status).toBe(200)
  })

  it('the last requests are on record when asked for', async () => {
    client.nomad.record(2)
    await set()
    await client.ask('GET', '/v1/vars')
    await client.ask('GET', '/v1/var/none')
    expect(client.nomad.calls).toEqual([
      { at: 0, method: 'GET', path: '/v1/vars', status: 200 },
      { at: 0, method: 'GET', path: '/v1/var/none', status: 404 },
    ])
  })

  it('over HTTP a dropped connection is a broken one', async () => {
    const server = await client.nomad.listen()
    client.nomad.faults.next(() => true, { kind: 'drop' })
    await expect(fetch(`${server.address}/v1/vars`)).rejects.toMatchObject({ cause: { code: 'UND_ERR_SOCKET' } })
    expect((await fetch(`${server.address}/v1/vars`)).status).toBe(200)
    await server.close()
  })

  it('a stalled leader may fail what it was asked, and its locks live on under the next one', async () => {
    const lock = { Lock: { ID: 'aaaaaaaa-0000-4000-8000-000000000001', TTL: '10s', LockDelay: '1ms' } }
    await client.ask('PUT', '/v1/var/l?lock-acquire', lock)
    await client.clock.advance(15_000)
    client.nomad.leader.stall(10_600, 'fails')
    const late = client.ask('PUT', '/v1/var/l?lock-renew', lock)
    await client.clock.advance(10_600)
    expect((await late).status).toBe(500)
    await client.clock.advance(19_000)
    expect((await client.ask('PUT', '/v1/var/l?lock-renew', lock)).status).toBe(200)
  })

  it('a deposed leader answers reads from the past, for a while, to who asks it', async () => {
    await set()
    client.nomad.leader.depose(5_000, ({ path }) => !path.includes('elsewhere'))
    const written = await client.ask('PUT', '/v1/var/a', { Items: { a: '2' } })
    expect(written.status).toBe(200)
    const past = await client.ask('GET', '/v1/var/a')
    expect(JSON.parse(past.body)).toMatchObject({ Items: { a: '1' } })
    expect(past.headers['X-Nomad-Index']).not.toBe(written.headers['X-Nomad-Index'])
    expect(JSON.parse((await client.ask('GET', '/v1/var/a?elsewhere')).body)).toMatchObject({ Items: { a: '2' } })
    await client.clock.advance(5_000)
    expect(JSON.parse((await client.ask('GET', '/v1/var/a')).body)).toMatchObject({ Items: { a: '2' } })
  })

  it('a waiting read may be answered though nothing has changed', async () => {
    const index = (await set()).headers['X-Nomad-Index']
    const waiting = client.ask('GET', `/v1/vars?index=${index}&wait=60s`)
    expect(await isOver(waiting)).toBe(false)
    client.nomad.wakeSpuriously()
    expect((await waiting).headers['X-Nomad-Index']).toBe(index)
  })

  it('a write may answer a waiting read that it does not concern, as often as was said', async () => {
    const restless = new DevNomadClient({ spuriousWakes: 1, random: () => 0.5 })
    const { headers } = await restless.ask('PUT', '/v1/var/a', { Items: { a: '1' } })
    const waiting = restless.ask('GET', `/v1/var/a?index=${headers['X-Nomad-Index']}&wait=60s`)
    await restless.ask('PUT', '/v1/namespace/x', { Name: 'x' })
    expect((await waiting).headers['X-Nomad-Index']).toBe(headers['X-Nomad-Index'])
    await restless.close()
  })

  it('more connections than one address may have are refused with a bare 429', async () => {
    const limited = new DevNomadClient({ maxConnectionsPerClient: 2 })
    const server = await limited.nomad.listen()
    const { port } = new URL(server.address)
    const sockets = [0, 1].map(() => connect(Number(port), '127.0.0.1'))
    await Promise.all(sockets.map((socket) => once(socket, 'connect')))
    const third = connect(Number(port), '127.0.0.1')
    const chunks: Buffer[] = []
    for await (const chunk of third) chunks.push(chunk as Buffer)
    expect(Buffer.concat(chunks).toString()).toMatch(/^HTTP\/1\.1 429 Too Many Requests\r\n/)
    for (const socket of sockets) socket.destroy()
    await limited.close()
    await server.close()
  })
})
