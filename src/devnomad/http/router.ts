import type { Acl } from '../acl/acl.ts'
import type { Rights } from '../acl/rights.ts'
import { Refusal } from '../refusal.ts'
import { ConnectionLost, text, type Answer, type Call, type Request } from './exchange.ts'
import type { AclRoutes } from './acl-routes.ts'
import type { AllocationRoutes } from './allocation-routes.ts'
import type { EvaluationRoutes } from './evaluation-routes.ts'
import type { EventRoutes } from './event-routes.ts'
import type { FileRoutes } from './file-routes.ts'
import type { JobRoutes } from './job-routes.ts'
import type { NodeRoutes } from './node-routes.ts'
import type { SystemRoutes } from './system-routes.ts'
import type { VariableRoutes } from './variable-routes.ts'

export interface Routes {
  readonly acl: AclRoutes
  readonly variables: VariableRoutes
  readonly jobs: JobRoutes
  readonly allocations: AllocationRoutes
  readonly evaluations: EvaluationRoutes
  readonly events: EventRoutes
  readonly files: FileRoutes
  readonly nodes: NodeRoutes
  readonly system: SystemRoutes
}

type Route = (call: Call, rest: string) => Answer | Promise<Answer>

/** Which URL is whose. What ends in a slash takes all below it; the longest match wins. */
export class Router {
  readonly #rules: Acl
  readonly #exact: ReadonlyMap<string, Route>
  readonly #below: readonly [string, Route][]

  constructor(rules: Acl, { acl, variables, jobs, allocations, evaluations, events, files, nodes, system }: Routes) {
    this.#rules = rules
    this.#exact = new Map<string, Route>([
      ['/v1/vars', (call) => variables.list(call)],
      ['/v1/jobs', (call) => jobs.all(call)],
      ['/v1/allocations', (call) => allocations.all(call)],
      ['/v1/evaluations', (call) => evaluations.evaluations(call)],
      ['/v1/event/stream', (call) => events.stream(call)],
      ['/v1/deployments', (call) => evaluations.deployments(call)],
      ['/v1/nodes', (call) => nodes.all(call)],
      ['/v1/namespaces', (call) => system.namespaces(call)],
      ['/v1/namespace', (call) => system.namespace(call, '')],
      ['/v1/status/leader', () => system.leader()],
      ['/v1/agent/self', (call) => system.self(call)],
      ['/v1/operator/autopilot/health', (call) => system.autopilot(call)],
      ['/v1/acl/bootstrap', (call) => acl.bootstrap(call)],
      ['/v1/acl/policies', (call) => acl.policies(call)],
      ['/v1/acl/token', (call) => acl.tokens(call)],
      ['/v1/operator/keyring/rotate', (call) => acl.rotate(call)],
      ['/.well-known/jwks.json', () => acl.keys()],
    ])
    this.#below = [
      ['/v1/var/', (call, rest) => variables.one(call, rest)],
      ['/v1/job/', (call, rest) => jobs.one(call, rest)],
      ['/v1/allocation/', (call, rest) => allocations.one(call, rest)],
      ['/v1/client/allocation/', (call, rest) => allocations.client(call, rest)],
      ['/v1/client/fs/', (call, rest) => files.one(call, rest)],
      ['/v1/evaluation/', (call, rest) => evaluations.evaluation(call, rest)],
      ['/v1/deployment/', (call, rest) => evaluations.deployment(call, rest)],
      ['/v1/node/', (call, rest) => nodes.one(call, rest)],
      ['/v1/acl/policy/', (call, rest) => acl.policy(call, rest)],
      ['/v1/acl/token/', (call, rest) => acl.token(call, rest)],
      ['/v1/namespace/', (call, rest) => system.namespace(call, rest)],
    ]
  }

  async answer(request: Request): Promise<Answer> {
    const { pathname, search, query } = split(request.path)
    const clean = cleaned(pathname)
    if (clean !== pathname) {
      return { status: 307, headers: { Location: clean.split('/').map(encodeURIComponent).join('/') + search }, body: '' }
    }
    const call = this.#call(request, pathname, query)
    const exact = this.#exact.get(pathname)
    if (exact !== undefined) return answered(call, () => exact(call, ''))
    const below = this.#below.find(([prefix]) => pathname.startsWith(prefix))
    if (below !== undefined) return answered(call, () => below[1](call, pathname.slice(below[0].length)))
    return { status: 404, headers: {}, body: '' }
  }

  #call(request: Request, path: string, query: URLSearchParams): Call {
    const rules = this.#rules
    const token = tokenOf(request)
    return {
      method: request.method,
      path,
      query,
      body: request.body ?? '',
      signal: request.signal,
      token,
      past: request.past ?? false,
      get rights(): Rights {
        const rights = rules.rightsOf(token)
        if (rights === undefined) throw new Refusal(403, 'Permission denied')
        return rights
      },
    }
  }
}

function tokenOf({ headers = {} }: Request): string {
  const found = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
  return found.get('x-nomad-token') ?? /^Bearer (.*)$/i.exec(found.get('authorization') ?? '')?.[1] ?? ''
}

async function answered({ signal }: Call, work: () => Answer | Promise<Answer>): Promise<Answer> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof Refusal) return text(error.status, error.message, error.headers)
    if (error instanceof ConnectionLost || signal?.aborted === true) throw error
    // The leader is lost, or a body has a shape that nobody expected: almost everything is a 500 (facts §3).
    return text(500, (error as Error).message)
  }
}

/** Path and query of a request line, the path decoded once. */
export function split(path: string): { pathname: string; search: string; query: URLSearchParams } {
  const at = path.indexOf('?')
  const raw = at === -1 ? path : path.slice(0, at)
  const search = at === -1 ? '' : path.slice(at)
  try {
    return { pathname: decodeURIComponent(raw), search, query: new URLSearchParams(search) }
  } catch {
    throw new ConnectionLost()
  }
}

// Go's mux sends a path with empty or dotted parts elsewhere; a slash at the end stays.
function cleaned(pathname: string): string {
  const parts: string[] = []
  for (const part of pathname.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '' && part !== '.') parts.push(part)
  }
  return `/${parts.join('/')}${pathname.endsWith('/') && parts.length > 0 ? '/' : ''}`
}
