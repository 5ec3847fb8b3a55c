import { Type } from 'typebox'
import type { ApiPorts, HttpApp } from '../ports.ts'
import { ANYBODY } from '../schemas/access.ts'
import { ownProblems } from '../schemas/problem.ts'
import { Liveness, ReadinessView } from '../schemas/service.ts'
import { NoQuery, ref, said } from '../schemas/words.ts'

const tags = ['service']
/** A probe gives up after a few seconds; it had better hear what is missing. */
const READY_MS = 3_000

/** `document`: the contract as it is published. */
export function serviceRoutes(app: HttpApp, { keeper, meter, clock, calls }: ApiPorts, document: () => string): void {
  app.route({
    method: 'GET',
    url: '/health/live',
    schema: {
      operationId: 'isLive',
      summary: 'Whether it runs',
      tags,
      security: ANYBODY,
      querystring: NoQuery,
      response: { 200: ref(Liveness), ...ownProblems() },
    },
    handler: () => ({ live: true }),
  })

  app.route({
    method: 'GET',
    url: '/health/ready',
    schema: {
      operationId: 'isReady',
      summary: 'Whether it can grant, and what is missing',
      tags,
      security: ANYBODY,
      querystring: NoQuery,
      response: {
        200: ref(ReadinessView),
        503: { description: 'It cannot', content: { 'application/json': { schema: ref(ReadinessView) } } },
        ...ownProblems(),
      },
    },
    handler: async (_, reply) => {
      const { refused } = calls
      if (refused !== null) return reply.code(503).send({ ready: false, missing: [refused.message] })
      const readiness = await clock.within(READY_MS, calls.signalOf(reply.raw), (signal) => keeper.ready(signal))
      const { ready, missing } = readiness
      return reply.code(ready ? 200 : 503).send({ ready, missing: [...missing] })
    },
  })

  app.route({
    method: 'GET',
    url: '/metrics',
    schema: {
      operationId: 'getMetrics',
      summary: 'Figures for Prometheus',
      tags,
      security: ANYBODY,
      querystring: NoQuery,
      response: {
        200: { description: 'Prometheus text format', content: { 'text/plain': { schema: Type.String() } } },
        ...ownProblems(),
      },
    },
    handler: async (_, reply) => {
      const { contentType, text } = await meter.page()
      return reply.type(contentType).send(text)
    },
  })

  app.route({
    method: 'GET',
    url: '/openapi.json',
    schema: {
      operationId: 'getContract',
      summary: 'This contract',
      tags,
      security: ANYBODY,
      querystring: NoQuery,
      response: {
        200: { description: 'OpenAPI 3.1', content: { 'application/json': { schema: said('The document') } } },
        ...ownProblems(),
      },
    },
    handler: async (_, reply) => reply.type('application/json').send(document()),
  })
}
