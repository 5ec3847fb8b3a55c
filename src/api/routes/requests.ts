import type { Caller } from '../../core/caller.ts'
import type { Scope } from '../../core/scope.ts'
import { levelOf, requestOf, waitOf } from '../inputs.ts'
import { asOperator } from '../operator.ts'
import { demandOwn, permit } from '../permits.ts'
import type { ApiPorts, HttpApp } from '../ports.ts'
import { ANYBODY, REFUSALS, WORKLOAD_OR_OPERATOR } from '../schemas/access.ts'
import { ASK_PROBLEMS, problems } from '../schemas/problem.ts'
import { AskRequest, FollowQuery, RequestList, RequestPath, RequestsQuery, RequestView, Satisfied } from '../schemas/requests.ts'
import { NoQuery, ref } from '../schemas/words.ts'
import { requestView } from '../views/requests.ts'

const tags = ['requests']

export function requestRoutes(app: HttpApp, ports: ApiPorts): void {
  const { keeper, calls } = ports

  /** The request, for those who may. */
  async function requestFor(caller: Caller, id: string, right: 'read' | 'write', signal: AbortSignal) {
    const seen = await keeper.requests.get(id, 0, signal)
    await permit(ports, caller, right, seen.scope, seen.unit, signal)
    return seen
  }

  for (const method of ['PUT', 'POST'] as const)
    app.route({
      method,
      url: '/v1/requests',
      schema: {
        operationId: method === 'PUT' ? 'putRequest' : 'postRequest',
        summary: 'Have an allocation restarted, signalled or replaced, and go away',
        description:
          'It is stored, and acted on when its turn comes. All that is asked of one allocation and semaphore is one request: the ' +
          'strongest action, all tasks, the newest change. POST is the same, for clients that know no PUT (the wget of busybox).',
        tags,
        security: WORKLOAD_OR_OPERATOR,
        querystring: NoQuery,
        body: ref(AskRequest),
        response: {
          200: ref(Satisfied),
          202: ref(RequestView),
          ...problems(...REFUSALS, ...ASK_PROBLEMS),
        },
      },
      handler: async (request, reply) => {
        const { caller } = request
        const asked = requestOf(request.body)
        demandOwn(caller, asked.allocation)
        const signal = calls.signalOf(reply.raw)
        const allowed = (scope: Scope, unit: string) => permit(ports, caller, 'write', scope, unit, signal)
        const answer = await keeper.requests.put(asked, signal, allowed)
        if (answer.kind === 'satisfied') return reply.code(200).send({ satisfied: true })
        const { request: seen, warnings } = answer
        return reply.code(202).send({ ...requestView(seen), ...(warnings.length === 0 ? {} : { warnings: [...warnings] }) })
      },
    })

  app.route({
    method: 'GET',
    url: '/v1/requests',
    schema: {
      operationId: 'listRequests',
      summary: 'Which requests are open, and which ended lately',
      tags,
      security: ANYBODY,
      querystring: RequestsQuery,
      response: { 200: ref(RequestList), ...problems() },
    },
    handler: async (request, reply) => {
      const { wave, ...fields } = request.query
      const seen = await keeper.requests.list(levelOf(fields), wave, calls.signalOf(reply.raw))
      return { requests: seen.map(requestView) }
    },
  })

  app.route({
    method: 'GET',
    url: '/v1/requests/:id',
    schema: {
      operationId: 'getRequest',
      summary: 'Follow a request',
      description: 'What became of a request that has ended is known for a while only.',
      tags,
      security: WORKLOAD_OR_OPERATOR,
      params: RequestPath,
      querystring: FollowQuery,
      response: { 200: ref(RequestView), ...problems(...REFUSALS, 'unknown_request') },
    },
    handler: async (request, reply) => {
      const { caller, params, query } = request
      const signal = calls.signalOf(reply.raw)
      const { id } = await requestFor(caller, params.id, 'read', signal)
      return requestView(await keeper.requests.get(id, waitOf(query.wait), signal))
    },
  })

  app.route({
    method: 'DELETE',
    url: '/v1/requests/:id',
    schema: {
      operationId: 'cancelRequest',
      summary: 'Withdraw a request',
      description: 'One that is acted on already goes on to its end: the answer tells.',
      tags,
      security: WORKLOAD_OR_OPERATOR,
      params: RequestPath,
      querystring: NoQuery,
      response: { 200: ref(RequestView), ...problems(...REFUSALS, 'unknown_request', 'conflict') },
    },
    handler: async (request, reply) => {
      const signal = calls.signalOf(reply.raw)
      const { id, unit } = await requestFor(request.caller, request.params.id, 'write', signal)
      demandOwn(request.caller, unit)
      return requestView(await asOperator(ports, request.caller, (own) => keeper.requests.cancel(id, own, signal)))
    },
  })
}
