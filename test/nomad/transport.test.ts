import { createServer, type RequestListener, type Server } from 'node:http'
import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { undiciSend, type Outgoing, type TransportOptions } from '../../src/nomad/transport.ts'
import { ended } from './support.ts'

const open: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})

async function serving(listener: RequestListener, socket?: string): Promise<{ server: Server; address: string }> {
  const server = createServer(listener)
  await new Promise<void>((done) => (socket === undefined ? server.listen(0, '127.0.0.1', done) : server.listen(socket, done)))
  open.push(() => {
    server.closeAllConnections()
    return new Promise((done) => server.close(done))
  })
  const address = socket === undefined ? `http://127.0.0.1:${(server.address() as AddressInfo).port}` : `unix://${socket}`
  return { server, address }
}
function transport(options: Partial<TransportOptions> = {}) {
  const made = undiciSend({ tls: { skipVerify: false }, ...options })
  open.push(made.close)
  return made
}
function arrival(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {}
  const promise = new Promise<void>((done) => (resolve = done))
  return { promise, resolve: () => resolve() }
}
const request = (address: string, more: Partial<Outgoing> = {}): Outgoing => ({
  method: 'GET',
  address,
  path: '/v1/x?a=b',
  headers: { accept: 'application/json' },
  signal: new AbortController().signal,
  ...more,
})

describe('one exchange over HTTP', () => {
  it('sends method, path, headers and body, and brings status, headers and text', async () => {
    const { address } = await serving((received, answer) => {
      received.setEncoding('utf8').on('data', (body: string) => {
        answer.writeHead(409, { 'X-Nomad-Index': '39' })
        answer.end(`${received.method} ${received.url} ${String(received.headers['x-nomad-token'])} ${body}`)
      })
    })
    const { send } = transport()
    const got = await send(request(address, { method: 'PUT', headers: { 'x-nomad-token': 't' }, body: '{"é":1}' }))
    expect([got.status, got.headers('x-nomad-index'), got.headers('X-Nomad-KnownLeader'), got.body]).toEqual([
      409,
      '39',
      null,
      'PUT /v1/x?a=b t {"é":1}',
    ])
  })

  it('a redirect is an answer, not a way to go', async () => {
    const { address } = await serving((_, answer) => answer.writeHead(307, { location: '/elsewhere' }).end())
    expect((await transport().send(request(address))).status).toBe(307)
  })

  it('a unix socket is an address', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'lockkeeper-transport-'))
    open.push(() => rm(directory, { recursive: true }))
    const { address } = await serving((received, answer) => answer.end(received.url), join(directory, 'api.sock'))
    expect((await transport().send(request(address))).body).toBe('/v1/x?a=b')
  })

  it('where nobody listens, nothing was sent', async () => {
    const { server, address } = await serving(() => {})
    await new Promise((done) => server.close(done))
    const fault = {
      error: expect.objectContaining({ what: 'not_sent', message: expect.stringMatching(/ECONNREFUSED/) as string }) as Error,
    }
    expect(await ended(transport().send(request(address)))).toEqual(fault)
    expect(await ended(transport().send(request('unix:///nowhere/api.sock')))).toEqual({
      error: expect.objectContaining({ what: 'not_sent' }) as Error,
    })
  })

  it('a certificate that cannot be read means that nothing was sent', async () => {
    const { send } = transport({ tls: { skipVerify: false, caFile: '/nowhere/ca.pem' } })
    expect(await ended(send(request('https://127.0.0.1:1')))).toEqual({
      error: expect.objectContaining({ what: 'not_sent', message: expect.stringMatching(/ENOENT/) as string }) as Error,
    })
  })

  it('a connection that ends without an answer leaves open what happened, and the request is sent once', async () => {
    let received = 0
    const { address } = await serving(({ socket }) => {
      received++
      socket.destroy()
    })
    const broken = await ended(transport().send(request(address, { method: 'PUT', body: '{}' })))
    expect(broken).toEqual({ error: expect.objectContaining({ name: 'SendFault', what: 'unknown' }) as Error })
    expect(received).toBe(1)
  })

  it('a body beyond the bound is not read to its end', async () => {
    const { address } = await serving((_, answer) => answer.end('x'.repeat(2_000)))
    const { send } = transport({ maxBodyBytes: 1_000 })
    expect(await ended(send(request(address)))).toEqual({ error: expect.objectContaining({ what: 'too_large' }) as Error })
  })

  it('a bound of its own is that of one call only', async () => {
    const { address } = await serving((_, answer) => answer.end('x'.repeat(2_000)))
    const { send } = transport()
    const bounded = await ended(send(request(address, { maxBytes: 1_999 })))
    expect(bounded).toEqual({ error: expect.objectContaining({ what: 'too_large' }) as Error })
    expect((await send(request(address, { maxBytes: 2_000 }))).body).toHaveLength(2_000)
    expect((await send(request(address))).body).toHaveLength(2_000)
  })

  it('who aborts gets back the reason, also while the call waits for a connection', async () => {
    const arrived = arrival()
    const { address } = await serving(() => arrived.resolve())
    const { send } = transport({ connections: 1 })
    const [first, second] = [new AbortController(), new AbortController()]
    const calls = [first, second].map(({ signal }) => ended(send(request(address, { signal }))))
    await arrived.promise
    second.abort('second')
    expect(await calls[1]).toEqual({ error: 'second' })
    first.abort('first')
    expect(await calls[0]).toEqual({ error: 'first' })
  })

  it('closing ends what is under way', async () => {
    const arrived = arrival()
    const { address } = await serving(() => arrived.resolve())
    const { send, close } = transport()
    const call = ended(send(request(address)))
    await arrived.promise
    await close()
    expect(await call).toEqual({ error: expect.objectContaining({ what: 'unknown' }) as Error })
  })
})
