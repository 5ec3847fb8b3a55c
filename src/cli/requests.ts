// The calls of an operator on managed requests.
import { ERRORS, Problem } from '../core/errors.ts'
import type { RequestState } from '../core/request.ts'
import type { Level, Scope } from '../core/scope.ts'
import type { Clock } from '../keeper/ports.ts'
import { problemOf, type ServiceAnswer } from '../shim/answers.ts'
import type { ServiceCall, ServiceClient } from '../shim/client.ts'

/** What is read of a request in the contract. */
export interface RequestView {
  readonly id: string
  readonly allocation: string
  readonly scope: Scope
  readonly place: string
  readonly action: string
  readonly tasks: readonly string[]
  readonly reason: string
  readonly wave?: string
  readonly at?: string
  readonly state: RequestState
  readonly position: number | null
  readonly waiting_for: { readonly kind: string; readonly detail: string } | null
  readonly detail: string
  /** Of an answer to who asks: what will not work as it looks. */
  readonly warnings?: readonly string[]
}

export interface Asked {
  readonly allocation: string
  readonly action: string
  readonly task?: string
  readonly signal?: string
  readonly reason: string
  readonly wave: string
}

/** Each may be repeated, and throws a Problem. */
export interface Requests {
  /** Null: there is nothing to do for it any more. */
  put(asked: Asked, signal: AbortSignal): Promise<RequestView | null>
  list(query: Level & { readonly wave?: string }, signal: AbortSignal): Promise<readonly RequestView[]>
  /** Null: it is over, and what became of it is not remembered. */
  get(id: string, signal: AbortSignal): Promise<RequestView | null>
  cancel(id: string, signal: AbortSignal): Promise<RequestView | null>
}

const BOUND_MS = 15_000
const TRIES = 4
const PAUSE_MS = 1_000

export function createRequests(client: ServiceClient, clock: Clock): Requests {
  /** Again when the table of errors says that this may help: all of these calls may be repeated. */
  async function ask(call: Omit<ServiceCall, 'boundMs'>, signal: AbortSignal): Promise<ServiceAnswer> {
    for (let tries = 1; ; tries++) {
      try {
        const answer = await client.call({ ...call, boundMs: BOUND_MS }, signal)
        if (answer.status < 300) return answer
        throw problemOf(answer, 'the address of the service')
      } catch (error) {
        if (!(error instanceof Problem) || !ERRORS[error.kind].retry || tries === TRIES) throw error
        await clock.sleep(PAUSE_MS, signal)
      }
    }
  }

  const known = (asking: Promise<ServiceAnswer>) =>
    asking.then(viewOf, (error: unknown) => {
      if (error instanceof Problem && error.kind === 'unknown_request') return null
      throw error
    })

  return {
    async put(asked, signal) {
      const answer = await ask({ method: 'PUT', path: '/v1/requests', body: asked }, signal)
      return answer.status === 200 ? null : viewOf(answer)
    },
    async list(query, signal) {
      const path = `/v1/requests?${new URLSearchParams({ ...query }).toString()}`
      const { body } = await ask({ method: 'GET', path }, signal)
      const list = (body as { readonly requests?: unknown } | null)?.requests
      if (!Array.isArray(list)) throw unreadable()
      return list as RequestView[]
    },
    get: (id, signal) => known(ask({ method: 'GET', path: pathOf(id) }, signal)),
    cancel: (id, signal) => known(ask({ method: 'DELETE', path: pathOf(id) }, signal)),
  }
}

function pathOf(id: string): string {
  return `/v1/requests/${encodeURIComponent(id)}`
}

function viewOf({ body }: ServiceAnswer): RequestView {
  if (typeof body !== 'object' || body === null || !('state' in body)) throw unreadable()
  return body as RequestView
}

function unreadable(): Problem {
  return new Problem('service_unavailable', 'the service answers with something unreadable')
}
