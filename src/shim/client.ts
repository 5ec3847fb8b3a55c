import http, { type Agent } from 'node:http'
import type { Socket } from 'node:net'
import { Problem } from '../core/errors.ts'
import type { Clock } from '../keeper/ports.ts'
import { problemOf, retryAfterMs, type ServiceAnswer } from './answers.ts'
import type { Contact } from './contact.ts'

export interface ServiceCall {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** With its query. */
  readonly path: string
  readonly body?: object
  /** Bound of the exchange with one replica. */
  readonly boundMs: number
}
export interface ServiceClient {
  /** One exchange, at the replica that answered last, else at each of the others once. Throws Problem `service_unavailable`, or what
   *  the last replica that answered 5xx gave as its reason, when none gives a usable answer: then the call may have been
   *  executed. Rejects with the signal's reason when that aborts; its connection is closed then, and so the asker is gone. */
  call(call: ServiceCall, signal: AbortSignal): Promise<ServiceAnswer>
  close(): Promise<void>
}

const CONNECT_MS = 2_000
/** What a replica answers when another one may do better. */
const MOVE = new Set([502, 503, 504])

/** The service over HTTP/1.1. Bodies and credentials are never put into an error: they are secrets. Node's own client: undici alone
 *  would take longer to load than all the rest of a shim. */
export function createServiceClient(contact: Contact, clock: Clock): ServiceClient {
  const agents = new Map<string, Agent>()
  /** The address that worked last. */
  let current = ''

  async function call(call: ServiceCall, signal: AbortSignal): Promise<ServiceAnswer> {
    const addresses = await contact.addresses()
    const credentials = await contact.credentials()
    const first = Math.max(0, addresses.indexOf(current))
    let said: Problem | null = null
    const silent: string[] = []
    for (let nth = 0; nth < addresses.length; nth++) {
      const address = addresses[(first + nth) % addresses.length] as string
      try {
        const answer = await clock.within(call.boundMs, signal, (bounded) => exchange(address, call, credentials, bounded))
        if (!MOVE.has(answer.status)) {
          current = address
          return answer
        }
        said = problemOf(answer, address)
      } catch (error) {
        signal.throwIfAborted()
        silent.push(`${address}: ${textOf(error)}`)
      }
    }
    current = addresses[(first + 1) % addresses.length] as string
    throw said ?? new Problem('service_unavailable', `no replica of the service answers (${silent.join('; ')})`)
  }

  async function exchange(
    address: string,
    { method, path, body }: ServiceCall,
    credentials: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<ServiceAnswer> {
    const url = new URL(`${address}${path}`)
    const { Agent, request } = url.protocol === 'https:' ? await import('node:https') : http
    const agent = agents.get(url.protocol) ?? new Agent({ keepAlive: true })
    agents.set(url.protocol, agent)
    const headers = {
      accept: 'application/json',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...credentials,
    }
    return await new Promise((resolve, reject) => {
      // When the signal aborts its error comes here, and the connection is closed.
      const fail = (error: Error) => reject(signal.aborted ? signal.reason : error)
      const sent = request(url, { agent, method, headers, signal })
      sent.once('socket', (socket) => boundConnect(socket, (error) => sent.destroy(error)))
      sent.once('error', fail)
      sent.once('response', (response) => {
        const texts: string[] = []
        response.setEncoding('utf8').on('data', (text: string) => texts.push(text))
        // One that breaks off in the middle is an error, too.
        response.once('error', fail)
        response.once('end', () => {
          const { statusCode = 0, headers: received } = response
          resolve({ status: statusCode, body: parsed(texts.join('')), retryAfterMs: retryAfterMs(received['retry-after']) })
        })
      })
      sent.end(body === undefined ? undefined : JSON.stringify(body))
    })
  }

  async function close(): Promise<void> {
    for (const agent of agents.values()) agent.destroy()
  }

  return { call, close }
}

/** An address where nothing answers at all is left soon. Once connected, a long poll may be silent for as long as it likes. */
function boundConnect(socket: Socket, fail: (error: Error) => void): void {
  if (!socket.connecting) return
  const late = () => fail(new Error(`no connection within ${CONNECT_MS} ms`))
  socket.setTimeout(CONNECT_MS, late)
  socket.once('connect', () => socket.setTimeout(0, late))
}

/** The error of JSON.parse quotes the text, and that may hold a lease: it is dropped. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Of the several errors of a host with several addresses, all. */
function textOf(error: unknown): string {
  if (error instanceof AggregateError) return [...new Set(error.errors.map(textOf))].join(', ')
  return error instanceof Error ? error.message : 'no answer'
}
