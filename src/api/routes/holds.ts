import { formatDuration } from '../../core/duration.ts'
import { releaseByForce } from '../../keeper/operate.ts'
import { askOf, tokenOf, waitOf } from '../inputs.ts'
import { asOperator, OPERATOR_HEADERS } from '../operator.ts'
import type { ApiPorts, HttpApp } from '../ports.ts'
import { problems } from '../schemas/problem.ts'
import { NoQuery, ref } from '../schemas/words.ts'
import {
  AskHold,
  ForceBody,
  ForcedRelease,
  GrantedHold,
  HoldPath,
  HoldView,
  LeaseBody,
  ReleaseBody,
  ReleasedHold,
  RenewedHold,
  WaitQuery,
} from '../schemas/holds.ts'
import { holdView, scopeView, waitingProblem } from '../views/holds.ts'

const tags = ['holds']
const WARNING = 'the slot is free, but the client may still act: nothing can take that from it'

export function holdRoutes(app: HttpApp, { keeper, operatorVariables, clock, calls }: ApiPorts): void {
  app.route({
    method: 'POST',
    url: '/v1/holds',
    schema: {
      operationId: 'askHold',
      summary: 'Ask for a hold, and wait for it',
      description:
        'Asked again with the same unit and key it is the same request, and the same hold with a new lease. ' +
        'A request that waits keeps its place for a few seconds after its answer.',
      tags,
      security: [],
      querystring: WaitQuery,
      body: ref(AskHold),
      response: {
        201: ref(GrantedHold),
        ...problems(
          'unsupported_job',
          'unknown_allocation',
          'allocation_finished',
          'conflict',
          'state_unreadable',
          'body_too_large',
          'locked',
          'halted',
          'window',
          'deployment',
          'too_soon',
          'full',
          'overloaded',
        ),
      },
    },
    handler: async (request, reply) => {
      const ask = askOf(request.body)
      const answer = await keeper.acquire(ask, waitOf(request.query.wait), calls.signalOf(reply.raw))
      if (answer.kind === 'waiting') throw waitingProblem(answer)
      const { hold, lease } = answer
      const { leaseTtlMs } = keeper
      return reply.code(201).send({
        hold: hold.id,
        lease,
        token: hold.token,
        slot: hold.slot,
        ttl: formatDuration(leaseTtlMs),
        renew_every: formatDuration(leaseTtlMs / 3),
        scope: scopeView(answer.scope),
        unit: hold.unit,
      })
    },
  })

  app.route({
    method: 'POST',
    url: '/v1/holds/:hold/renew',
    schema: {
      operationId: 'renewHold',
      summary: 'Keep a hold',
      description: 'Renew once before you act. 409 means that you must not act any more.',
      tags,
      security: [],
      params: HoldPath,
      querystring: NoQuery,
      body: ref(LeaseBody),
      response: {
        200: ref(RenewedHold),
        ...problems('unknown_hold', 'lease_lost', 'not_holder', 'already_released', 'body_too_large'),
      },
    },
    handler: async (request, reply) => {
      const { hold } = await keeper.renew(request.params.hold, request.body.lease, calls.signalOf(reply.raw))
      return { phase: hold.phase, valid_for: formatDuration(keeper.leaseTtlMs) }
    },
  })

  app.route({
    method: 'POST',
    url: '/v1/holds/:hold/release',
    schema: {
      operationId: 'releaseHold',
      summary: 'End your part of a hold',
      description: 'From here the health gate decides when the next one may go.',
      tags,
      security: [],
      params: HoldPath,
      querystring: NoQuery,
      body: ref(ReleaseBody),
      response: {
        200: ref(ReleasedHold),
        ...problems('unknown_hold', 'lease_lost', 'not_holder', 'already_released', 'state_unreadable', 'body_too_large'),
      },
    },
    handler: async (request, reply) => {
      const { lease, outcome = 'done' } = request.body
      return await keeper.release(request.params.hold, lease, outcome, calls.signalOf(reply.raw))
    },
  })

  app.route({
    method: 'GET',
    url: '/v1/holds/:hold',
    schema: {
      operationId: 'getHold',
      summary: 'Look at a hold',
      tags,
      security: [],
      params: HoldPath,
      querystring: NoQuery,
      response: { 200: ref(HoldView), ...problems('unknown_hold') },
    },
    handler: async (request, reply) => {
      const signal = calls.signalOf(reply.raw)
      // What this replica remembers may be a moment old; whoever looks wants to know what is.
      await keeper.registry.refresh(signal)
      const { hold, semaphore } = await keeper.hold(request.params.hold, signal)
      return holdView(hold, semaphore.scope, semaphore)
    },
  })

  app.route({
    method: 'DELETE',
    url: '/v1/holds/:hold',
    schema: {
      operationId: 'forceRelease',
      summary: 'End somebody’s hold by force',
      description:
        'For operators, when an actor is known to be gone for good. The slot is free at once, without the health gate.',
      tags,
      security: [],
      params: HoldPath,
      querystring: NoQuery,
      headers: OPERATOR_HEADERS,
      body: ref(ForceBody),
      response: {
        200: ref(ForcedRelease),
        ...problems('forbidden', 'unknown_hold', 'unknown_semaphore', 'conflict', 'state_unreadable', 'body_too_large'),
      },
    },
    handler: async (request, reply) => {
      const token = tokenOf(request.headers['x-nomad-token'])
      const { reason, by } = request.body
      const why = by === undefined ? reason : `${reason} (${by})`
      const signal = calls.signalOf(reply.raw)
      const wall = () => clock.wall()
      const { hold, scope } = await asOperator(token, () =>
        releaseByForce(operatorVariables(token), keeper.paths, request.params.hold, why, wall, signal),
      )
      return { hold: hold.id, scope: scopeView(scope), unit: hold.unit, warning: WARNING }
    },
  })
}
