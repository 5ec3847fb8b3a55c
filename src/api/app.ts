// The app: built without listening. What holds for every route is here; what each one does is in routes/.
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import type { Socket } from 'node:net'
import { Problem } from '../core/errors.ts'
import { cut } from '../core/state.ts'
import { addCallers } from './callers.ts'
import { addContract, contractText } from './contract.ts'
import { Methods } from './methods.ts'
import type { ApiPorts, HttpApp } from './ports.ts'
import { documentOf, MAX_BODY_BYTES, problemOf, sendProblem } from './problems.ts'
import { holdRoutes } from './routes/holds.ts'
import { lockRoutes } from './routes/locks.ts'
import { reportRoutes } from './routes/reports.ts'
import { requestRoutes } from './routes/requests.ts'
import { semaphoreRoutes } from './routes/semaphores.ts'
import { serviceRoutes } from './routes/service.ts'
import { watchedRoutes } from './routes/watched.ts'
import { PROBLEM_TYPE } from './schemas/problem.ts'
import { AJV_OPTIONS, invalid } from './validation.ts'

/** Of receiving a request, not of answering it: a long poll may take ten minutes. */
const REQUEST_MS = 30_000
const HEADERS_MS = 15_000
const KEEP_ALIVE_MS = 60_000
/** A dead peer of a long poll is noticed by the kernel's probes, which begin after this. */
const PROBE_MS = 15_000
/** A little more than may wait (keeper), so that probes and operators still get in. */
const MAX_CONNECTIONS = 21_000
const MAX_REQUESTS_PER_SOCKET = 100_000
const MAX_PARAM_LENGTH = 256

/** Every answer is the contract's: also to what no route takes, and to what is no HTTP. */
export async function buildApp(ports: ApiPorts): Promise<HttpApp> {
  const { log, calls, meter } = ports
  const methods = new Methods()
  const fail = (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const { problem, ours } = problemOf(error, request.id)
    if (ours && !reply.raw.destroyed) log.error({ request: request.id, ...faultOf(error) }, 'a request met a fault of ours')
    return sendProblem(reply, problem)
  }
  const app: HttpApp = Fastify({
    logger: false,
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: REQUEST_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxRequestsPerSocket: MAX_REQUESTS_PER_SOCKET,
    forceCloseConnections: 'idle',
    // Its own answer would not be the contract's.
    return503OnClosing: false,
    http: { headersTimeout: HEADERS_MS, keepAlive: true, keepAliveInitialDelay: PROBE_MS },
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH },
    ajv: { customOptions: AJV_OPTIONS },
    schemaErrorFormatter: invalid,
    frameworkErrors: (error, request, reply) => void fail(error, request, reply as unknown as FastifyReply),
    clientErrorHandler: (_, socket) => endSocket(socket),
  })
  app.server.maxConnections = MAX_CONNECTIONS
  app.removeContentTypeParser('text/plain')
  app.setErrorHandler(fail)
  app.setNotFoundHandler((request, reply) => {
    const { method } = request
    const path = request.url.split('?', 1)[0] as string
    const allowed = methods.at(path)
    const shown = cut(path)
    if (allowed.length === 0) throw new Problem('not_found', `there is no ${shown} here; see /openapi.json`)
    void reply.header('allow', allowed.join(', '))
    throw new Problem('method_not_allowed', `${shown} takes ${allowed.join(', ')}, not ${method}`)
  })
  app.addHook('onRoute', ({ url, method }) => methods.add(url, method))
  app.addHook('onRequest', async (request, reply) => {
    void reply.header('cache-control', 'no-store')
    if (calls.refused === null) return
    void reply.header('connection', 'close')
    if (request.url.startsWith('/v1/')) throw calls.refused
  })
  app.addHook('onSend', async (_, reply) => {
    if (calls.refused !== null) void reply.header('connection', 'close')
  })
  app.addHook('onResponse', async (request, reply) => {
    const { method } = request
    const route = request.routeOptions.url ?? 'unknown'
    const status = reply.statusCode
    meter.observeRequest(route, method, status, reply.elapsedTime)
    log.debug({ request: request.id, method, route, status, ms: Math.round(reply.elapsedTime) }, 'answered')
  })

  addCallers(app, ports)
  await addContract(app)
  holdRoutes(app, ports)
  requestRoutes(app, ports)
  semaphoreRoutes(app, ports)
  lockRoutes(app, ports)
  reportRoutes(app, ports)
  watchedRoutes(app, ports)
  let text: string | null = null
  serviceRoutes(app, ports, () => (text ??= contractText(app)))
  return app
}

/** What is no HTTP, or came too slowly. There may be no request to it, so nothing of fastify's is of use. */
function endSocket(socket: Socket): void {
  if (!socket.writable) return void socket.destroy()
  const problem = new Problem(
    'invalid_request',
    'this is not an HTTP/1.1 request, or it came too slowly, or its head is too large',
  )
  const body = JSON.stringify(documentOf(problem))
  const head = `HTTP/1.1 400 Bad Request\r\nContent-Type: ${PROBLEM_TYPE}\r\nContent-Length: ${Buffer.byteLength(body)}`
  socket.end(`${head}\r\nConnection: close\r\n\r\n${body}`)
}

function faultOf(error: unknown): object {
  if (!(error instanceof Error)) return { error: String(error) }
  return { error: String(error), stack: error.stack, ...(error.cause instanceof Error ? { cause: String(error.cause) } : {}) }
}
