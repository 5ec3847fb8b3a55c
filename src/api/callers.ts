// Who calls: a workload by its identity, an operator by a Nomad token. What each may call stands in the contract (`security`).
import type { FastifyRequest } from 'fastify'
import type { Caller } from '../core/caller.ts'
import { Problem } from '../core/errors.ts'
import type { ApiPorts, HttpApp } from './ports.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Known before the body is read. `anyone` on routes that ask nobody, and everywhere when nobody is asked (`--auth none`). */
    caller: Caller
  }
}

const ANYONE: Caller = { kind: 'anyone' }
const TOKEN = /^[\x21-\x7e]{1,8192}$/
const BEARER = /^Bearer +([\x21-\x7e]+)$/i

/** Before any route. One that does not say who may call it is refused when it is added. */
export function addCallers(app: HttpApp, { identities }: ApiPorts): void {
  app.decorateRequest('caller')
  app.addHook('onRoute', ({ url, schema }) => {
    if (schema?.security === undefined) throw new Error(`route ${url} does not say who may call it`)
  })
  app.addHook('onRequest', async (request) => {
    request.caller = await callerOf(request)
  })

  async function callerOf(request: FastifyRequest): Promise<Caller> {
    const allowed = request.routeOptions.schema?.security?.flatMap(Object.keys) ?? []
    if (allowed.length === 0) return ANYONE
    const { authorization, 'x-nomad-token': header } = request.headers
    const token = tokenOf(header)
    if (identities === null) return token === null ? ANYONE : { kind: 'operator', token }
    if (token !== null && authorization !== undefined)
      throw new Problem('invalid_request', 'send either Authorization or X-Nomad-Token, not both: they may be two callers')
    if (token !== null) return { kind: 'operator', token }
    if (authorization === undefined)
      throw new Problem('unauthorized', HOW[allowed.includes('workload') ? 'workload' : 'operator'])
    const [, jwt] = BEARER.exec(authorization) ?? []
    if (jwt === undefined) throw new Problem('unauthorized', `the header Authorization is not of the form Bearer TOKEN`)
    const workload = await identities.workload(jwt)
    if (!allowed.includes('workload')) throw new Problem('forbidden', `this is for operators: ${HOW.operator}`)
    return { kind: 'workload', ...workload }
  }
}

const HOW = {
  workload:
    'send the workload identity of the task as Authorization: Bearer (an identity block with aud = ["lockkeeper"] and file = true), ' +
    'or a Nomad token as X-Nomad-Token',
  operator: 'send a Nomad token as X-Nomad-Token',
}

/** The operator's token; null: none was sent. It is never put into a text. */
function tokenOf(header: string | string[] | undefined): string | null {
  if (header === undefined || header === '') return null
  if (typeof header === 'string' && TOKEN.test(header)) return header
  throw new Problem('invalid_request', 'the header X-Nomad-Token holds characters that no token has')
}
