import type { Caller } from '../../core/caller.ts'
import { formatDuration } from '../../core/duration.ts'
import type { Scope } from '../../core/scope.ts'
import { releaseByForce } from '../../keeper/operate.ts'
import { askOf, waitOf } from '../inputs.ts'
import { asOperator } from '../operator.ts'
import { demandOwn, permit } from '../permits.ts'
import type { ApiPorts, HttpApp } from '../ports.ts'
import { OPERATOR, WORKLOAD_OR_OPERATOR, REFUSALS } from '../schemas/access.ts'
import { ASK_PROBLEMS, problems } from '../schemas/problem.ts'
import { Satisfied } from '../schemas/requests.ts'
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

export function holdRoutes(app: HttpApp, ports: ApiPorts): void {
  const { keeper, clock, calls } = ports

  /** The hold, for those who may. */
  async function holdFor(caller: Caller, id: string, right: 'read' | 'write', signal: AbortSignal) {
    const found = await keeper.hold(id, signal)
    await permit(ports, caller, right, found.semaphore.scope, found.hold.unit, signal)
    return found
  }

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
      security: WORKLOAD_OR_OPERATOR,
      querystring: WaitQuery,
      body: ref(AskHold),
      response: {
        200: ref(Satisfied),
        201: ref(GrantedHold),
        ...problems(...REFUSALS, ...ASK_PROBLEMS, 'locked', 'halted', 'window', 'deployment', 'too_soon', 'full', 'overloaded'),
      },
    },
    handler: async (request, reply) => {
      const { caller, body, query } = request
      const ask = askOf(body)
      demandOwn(caller, ask.allocation ?? ask.unit ?? '')
      const signal = calls.signalOf(reply.raw)
      const allowed = (scope: Scope, unit: string) => permit(ports, caller, 'write', scope, unit, signal)
      const answer = await keeper.acquire(ask, waitOf(query.wait), signal, allowed)
      if (answer.kind === 'satisfied') return reply.code(200).send({ satisfied: true })
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
      security: WORKLOAD_OR_OPERATOR,
      params: HoldPath,
      querystring: NoQuery,
      body: ref(LeaseBody),
      response: {
        200: ref(RenewedHold),
        ...problems(...REFUSALS, 'unknown_hold', 'lease_lost', 'not_holder', 'already_released', 'body_too_large'),
      },
    },
    handler: async (request, reply) => {
      const signal = calls.signalOf(reply.raw)
      const { id } = (await holdFor(request.caller, request.params.hold, 'write', signal)).hold
      const { hold } = await keeper.renew(id, request.body.lease, signal)
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
      security: WORKLOAD_OR_OPERATOR,
      params: HoldPath,
      querystring: NoQuery,
      body: ref(ReleaseBody),
      response: {
        200: ref(ReleasedHold),
        ...problems(
          ...REFUSALS,
          'unknown_hold',
          'lease_lost',
          'not_holder',
          'already_released',
          'state_unreadable',
          'body_too_large',
        ),
      },
    },
    handler: async (request, reply) => {
      const signal = calls.signalOf(reply.raw)
      const { lease, outcome = 'done' } = request.body
      const { id } = (await holdFor(request.caller, request.params.hold, 'write', signal)).hold
      return await keeper.release(id, lease, outcome, signal)
    },
  })

  app.route({
    method: 'GET',
    url: '/v1/holds/:hold',
    schema: {
      operationId: 'getHold',
      summary: 'Look at a hold',
      tags,
      security: WORKLOAD_OR_OPERATOR,
      params: HoldPath,
      querystring: NoQuery,
      response: { 200: ref(HoldView), ...problems(...REFUSALS, 'unknown_hold') },
    },
    handler: async (request, reply) => {
      const signal = calls.signalOf(reply.raw)
      // What this replica remembers may be a moment old; whoever looks wants to know what is.
      await keeper.registry.refresh(signal)
      const { hold, semaphore } = await holdFor(request.caller, request.params.hold, 'read', signal)
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
      security: OPERATOR,
      params: HoldPath,
      querystring: NoQuery,
      body: ref(ForceBody),
      response: {
        200: ref(ForcedRelease),
        ...problems(...REFUSALS, 'unknown_hold', 'unknown_semaphore', 'conflict', 'state_unreadable', 'body_too_large'),
      },
    },
    handler: async (request, reply) => {
      const { reason, by } = request.body
      const why = by === undefined ? reason : `${reason} (${by})`
      const signal = calls.signalOf(reply.raw)
      const wall = () => clock.wall()
      const { hold, scope } = await asOperator(ports, request.caller, (own) =>
        releaseByForce(own, keeper.paths, request.params.hold, why, wall, signal),
      )
      return { hold: hold.id, scope: scopeView(scope), unit: hold.unit, warning: WARNING }
    },
  })
}
