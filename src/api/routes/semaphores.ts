import type { Scope } from '../../core/scope.ts'
import { readLocks, resumeSemaphore } from '../../keeper/operate.ts'
import type { Semaphore } from '../../keeper/semaphore.ts'
import { levelOf, scopeNamed } from '../inputs.ts'
import { asOperator } from '../operator.ts'
import type { ApiPorts, HttpApp } from '../ports.ts'
import { ANYBODY, OPERATOR, REFUSALS } from '../schemas/access.ts'
import { problems } from '../schemas/problem.ts'
import { Resumed, ResumeBody, SemaphoreList, SemaphoresQuery } from '../schemas/semaphores.ts'
import { NoQuery, ref } from '../schemas/words.ts'
import { lockedBy } from '../views/locks.ts'
import { semaphoreView, type Live } from '../views/semaphores.ts'

const tags = ['semaphores']
/** So many idle semaphores are looked at as well; with more, only those with something open (each look asks Nomad for a job). */
const MAX_IDLE_LOOKS = 50
const LOOKS_AT_ONCE = 8

export function semaphoreRoutes(app: HttpApp, ports: ApiPorts): void {
  const { keeper, variables, clock, calls } = ports

  app.route({
    method: 'GET',
    url: '/v1/semaphores',
    schema: {
      operationId: 'listSemaphores',
      summary: 'Who holds, who waits and why',
      tags,
      security: ANYBODY,
      querystring: SemaphoresQuery,
      response: { 200: ref(SemaphoreList), ...problems() },
    },
    handler: async (request, reply) => {
      const level = levelOf(request.query)
      const signal = calls.signalOf(reply.raw)
      const [all, locks] = await Promise.all([keeper.semaphores(level, signal), readLocks(variables, keeper.paths, signal)])
      const lookAtIdle = all.length <= MAX_IDLE_LOOKS
      const locked = (scope: Scope) => (keeper.locks.canList() ? lockedBy(locks, scope, keeper.paths) : keeper.locks.shuts(scope))
      const views = await inTurns(all, async ({ stored, live }) => {
        const { scope } = stored
        const running = live ?? (scope !== null && lookAtIdle ? keeper.registry.ensure(scope) : null)
        return semaphoreView(stored, running === null ? null : await look(running), scope === null ? null : locked(scope))
      })
      return { semaphores: views }
    },
  })

  app.route({
    method: 'POST',
    url: '/v1/semaphores/resume',
    schema: {
      operationId: 'resumeSemaphore',
      summary: 'Let a halted semaphore go on',
      description: 'Its failures are forgotten.',
      tags,
      security: OPERATOR,
      querystring: NoQuery,
      body: ref(ResumeBody),
      response: {
        200: ref(Resumed),
        ...problems(...REFUSALS, 'unknown_semaphore', 'conflict', 'state_unreadable', 'body_too_large'),
      },
    },
    handler: async (request, reply) => {
      const { reason, by, ...named } = request.body
      const scope = scopeNamed(named)
      const why = by === undefined ? reason : `${reason} (${by})`
      const signal = calls.signalOf(reply.raw)
      const { changed } = await asOperator(ports, request.caller, (own) =>
        resumeSemaphore(own, keeper.paths, scope, why, () => clock.wall(), signal),
      )
      return { resumed: changed }
    },
  })
}

/** A job that cannot be read now must not hide the rest of the list. */
async function look(semaphore: Semaphore): Promise<Live> {
  const queue = await semaphore.queue().catch((error: unknown) => (error instanceof Error ? error.message : 'no answer'))
  return { semaphore, queue }
}

async function inTurns<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (let from = 0; from < items.length; from += LOOKS_AT_ONCE)
    results.push(...(await Promise.all(items.slice(from, from + LOOKS_AT_ONCE).map(work))))
  return results
}
