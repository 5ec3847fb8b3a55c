import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { limitConnections } from './connections.ts'
import type { Answer, Request } from './http/exchange.ts'

export interface Listening {
  /** `http://127.0.0.1:4646` */
  readonly address: string
  /** Breaks all connections; nothing stays open. */
  close(): Promise<void>
}

/** Only translates: a request that throws is a connection that breaks. */
export async function listen(
  handle: (request: Request) => Promise<Answer>,
  port: number,
  host: string,
  maxConnectionsPerClient: number,
): Promise<Listening> {
  const server = createServer((request, response) => void serve(handle, request, response))
  limitConnections(server, maxConnectionsPerClient)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  const { port: bound } = server.address() as AddressInfo
  return {
    address: `http://${host}:${bound}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function serve(
  handle: (request: Request) => Promise<Answer>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = new AbortController()
  response.once('close', () => {
    if (!response.writableFinished) gone.abort(new DOMException('the caller has gone', 'AbortError'))
  })
  try {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const headers = Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : (value ?? '')]),
    )
    const answer = await handle({
      method: request.method ?? 'GET',
      path: request.url ?? '/',
      headers,
      body: Buffer.concat(chunks).toString('utf8'),
      signal: gone.signal,
    })
    response.writeHead(answer.status, answer.headers)
    if (answer.stream !== undefined) {
      response.flushHeaders()
      for await (const text of answer.stream) response.write(text)
    }
    response.end(answer.body)
  } catch {
    request.socket.destroy()
  }
}
