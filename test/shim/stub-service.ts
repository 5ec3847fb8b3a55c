import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ERRORS, type ErrorKind } from '../../src/core/errors.ts'

export interface Received {
  readonly method: string
  readonly url: string
  readonly body: Readonly<Record<string, unknown>>
  readonly authorization?: string
}
/** `null`: no answer, until the caller goes. `broken`: the connection breaks; `cutOff`: in the middle of the answer. */
export type StubAnswer =
  { readonly status: number; readonly body: unknown; readonly type?: string; readonly cutOff?: boolean } | null | 'broken'

export const LEASE = 'c0ffee00-secret'

/** A service on a real port that answers as the test says, and remembers what it was asked. */
export class StubService {
  readonly received: Received[] = []
  /** Calls whose connection the caller closed before it was answered. */
  closed = 0
  connections = 0
  ask: () => StubAnswer = () => ({ status: 201, body: grant() })
  renew: () => StubAnswer = () => ({ status: 200, body: { phase: 'acting', valid_for: '15s' } })
  release: () => StubAnswer = () => ({ status: 200, body: { phase: 'observing' } })
  request: () => StubAnswer = () => ({ status: 202, body: { id: 'r-1', position: 1, waiting_for: null } })
  report: () => StubAnswer = () => ({ status: 200, body: { counted: 1 } })
  get: (path: string) => StubAnswer = () => problem('not_found')
  readonly #server = createServer((request, response) => void this.#serve(request, response))
  #wake: (() => void)[] = []
  address = ''

  async listen(): Promise<this> {
    this.#server.on('connection', () => this.connections++)
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    this.address = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
    return this
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  /** Bodies of the calls to one of the routes. */
  of(route: Route): Received['body'][] {
    return this.received.filter(({ url }) => routeOf(url) === route).map(({ body }) => body)
  }

  /** Until it is so, looked at whenever something happens here. */
  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise<void>((resolve) => this.#wake.push(resolve))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const text = Buffer.concat(chunks).toString()
    const url = request.url ?? ''
    const { authorization } = request.headers
    this.received.push({
      method: request.method ?? '',
      url,
      body: text === '' ? {} : (JSON.parse(text) as object as never),
      ...(authorization === undefined ? {} : { authorization }),
    })
    response.once('close', () => {
      if (!response.writableFinished) this.closed++
      this.#notify()
    })
    this.#notify()
    const route = routeOf(url)
    const answer = request.method === 'GET' ? this.get(url) : this[route]()
    if (answer === 'broken') request.socket.destroy()
    else if (answer !== null) {
      response.writeHead(answer.status, { 'content-type': answer.type ?? 'application/json' })
      const body = typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body)
      if (answer.cutOff === true) response.write(body, () => request.socket.destroy())
      else response.end(body)
    }
  }

  #notify(): void {
    for (const wake of this.#wake.splice(0)) wake()
  }
}

export function grant(more: object = {}): object {
  const scope = { namespace: 'default', job: 'web', group: 'api' }
  return { hold: 'h-1', lease: LEASE, token: 7, slot: 2, ttl: '15s', renew_every: '5s', scope, unit: 'a-1', ...more }
}

export function problem(kind: ErrorKind, detail = `it is ${kind}`, more: object = {}): StubAnswer {
  const { status, title } = ERRORS[kind]
  const body = { type: `urn:lockkeeper:problem:${kind}`, title, status, detail, kind, ...more }
  return { status, body, type: 'application/problem+json' }
}

type Route = 'ask' | 'renew' | 'release' | 'request' | 'report'

function routeOf(url: string): Route {
  if (url.startsWith('/v1/requests')) return 'request'
  if (url.startsWith('/v1/reports')) return 'report'
  return url.includes('/renew') ? 'renew' : url.includes('/release') ? 'release' : 'ask'
}
