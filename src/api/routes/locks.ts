import { Problem } from '../../core/errors.ts'
import { sentenceOf } from '../../keeper/lock-view.ts'
import { lock, readLocks, unlock } from '../../keeper/operate.ts'
import { levelOf, untilOf } from '../inputs.ts'
import { asOperator } from '../operator.ts'
import type { ApiPorts, HttpApp } from '../ports.ts'
import { ANYBODY, OPERATOR, REFUSALS } from '../schemas/access.ts'
import { LevelQuery, LockBody, Locked, LockList, LockView } from '../schemas/locks.ts'
import { problems } from '../schemas/problem.ts'
import { NoQuery, ref } from '../schemas/words.ts'
import { holdView } from '../views/holds.ts'
import { listedLock, lockView } from '../views/locks.ts'

const tags = ['locks']
const UNKNOWN_OPERATOR = 'unknown'

export function lockRoutes(app: HttpApp, ports: ApiPorts): void {
  const { keeper, variables, clock, calls } = ports
  const { paths } = keeper

  app.route({
    method: 'GET',
    url: '/v1/locks',
    schema: {
      operationId: 'listLocks',
      summary: 'Which levels are shut',
      tags,
      security: ANYBODY,
      querystring: NoQuery,
      response: { 200: ref(LockList), ...problems() },
    },
    handler: async (_, reply) => {
      const locks = await readLocks(variables, paths, calls.signalOf(reply.raw))
      return { locks: locks.map((each) => listedLock(each, paths)) }
    },
  })

  app.route({
    method: 'PUT',
    url: '/v1/locks',
    schema: {
      operationId: 'putLock',
      summary: 'Shut a level',
      description: 'None is granted below it from then on. The answer tells what was granted before and goes on.',
      tags,
      security: OPERATOR,
      querystring: NoQuery,
      body: ref(LockBody),
      response: { 200: ref(Locked), ...problems(...REFUSALS, 'conflict', 'body_too_large') },
    },
    handler: async (request, reply) => {
      const { reason, by = UNKNOWN_OPERATOR, until, ...fields } = request.body
      const level = levelOf(fields)
      const wanted = { level, reason, by, until: untilOf(until, clock) }
      const signal = calls.signalOf(reply.raw)
      const inFlight = await asOperator(ports, request.caller, (own) => lock(own, paths, wanted, signal, variables))
      return {
        locked: sentenceOf(level, wanted),
        in_flight: inFlight.map(({ scope, hold }) => holdView(hold, scope, keeper.registry.at(paths.semaphore(scope)))),
      }
    },
  })

  app.route({
    method: 'DELETE',
    url: '/v1/locks',
    schema: {
      operationId: 'deleteLock',
      summary: 'Open a level again',
      description: 'The level is named by the query alone: without any parameter it is the lock on everything.',
      tags,
      security: OPERATOR,
      querystring: LevelQuery,
      response: { 200: ref(LockView), ...problems(...REFUSALS, 'unknown_lock', 'conflict') },
    },
    handler: async (request, reply) => {
      // A level in a body would be overlooked, and the lock on everything be removed instead.
      if (request.body !== undefined)
        throw new Problem('invalid_request', 'this takes no body: name the level by query parameters, as in ?namespace=default')
      const level = levelOf(request.query)
      const signal = calls.signalOf(reply.raw)
      const removed = await asOperator(ports, request.caller, (own) => unlock(own, paths, level, signal))
      return lockView(removed, paths.lock(level))
    },
  })
}
