import { Agent, request } from 'undici'
import { Problem } from '../core/errors.ts'
import type { Clock } from '../keeper/ports.ts'
import { problemOf, retryAfterMs } from './answers.ts'

export interface ServiceCall {
  readonly method: 'GET' | 'POST'
  /** With its query. */
  readonly path: string
  readonly body?: object
  /** Bound of the exchange with one replica. */
  readonly boundMs: number
}
export interface ServiceAnswer {
  readonly status: number
  /** The JSON of the body; null when it is none. */
  readonly body: unknown
  readonly retryAfterMs: number | null
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

/** The service over HTTP/1.1. Bodies are never put into an error: they hold the lease. */
export function createServiceClient(addresses: readonly string[], clock: Clock): ServiceClient {
  // None of undici's own timeouts but that of the connect: they are coarse, and a long poll outlasts them.
  const agent = new Agent({ allowH2: false, headersTimeout: 0, bodyTimeout: 0, connect: { timeout: CONNECT_MS, allowH2: false } })
  /** The address that worked last. */
  let current = 0

  async function call(call: ServiceCall, signal: AbortSignal): Promise<ServiceAnswer> {
    const first = current
    let said: Problem | null = null
    const silent: string[] = []
    for (let nth = 0; nth < addresses.length; nth++) {
      const at = (first + nth) % addresses.length
      const address = addresses[at] as string
      try {
        const answer = await clock.within(call.boundMs, signal, (bounded) => exchange(address, call, bounded))
        if (!MOVE.has(answer.status)) {
          current = at
          return answer
        }
        said = problemOf(answer, address)
      } catch (error) {
        signal.throwIfAborted()
        silent.push(`${address}: ${textOf(error)}`)
      }
    }
    current = (first + 1) % addresses.length
    throw said ?? new Problem('service_unavailable', `no replica of the service answers (${silent.join('; ')})`)
  }

  async function exchange(address: string, { method, path, body }: ServiceCall, signal: AbortSignal): Promise<ServiceAnswer> {
    const headers = { accept: 'application/json', ...(body === undefined ? {} : { 'content-type': 'application/json' }) }
    const sent = body === undefined ? {} : { body: JSON.stringify(body) }
    const answered = request(`${address}${path}`, { dispatcher: agent, method, headers, signal, ...sent }).then(
      async (response) => {
        const text = await response.body.text()
        const after = response.headers['retry-after']
        return { status: response.statusCode, body: parsed(text), retryAfterMs: retryAfterMs(after) }
      },
    )
    return await unlessAborted(signal, answered)
  }

  return { call, close: () => agent.destroy() }
}

/** undici looks at the signal of a call that waits for its connection only when it has one (measured). */
async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let stop = () => {}
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', stop)
  }
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
