import { formatDuration } from '../../core/duration.ts'
import { levelOf } from '../inputs.ts'
import type { ApiPorts, HttpApp } from '../ports.ts'
import { ANYBODY } from '../schemas/access.ts'
import { problems } from '../schemas/problem.ts'
import { WatchedList, WatchedQuery } from '../schemas/watched.ts'
import { ref } from '../schemas/words.ts'
import { scopeView } from '../views/holds.ts'

export function watchedRoutes(app: HttpApp, { watcher, calls }: ApiPorts): void {
  app.route({
    method: 'GET',
    url: '/v1/watched',
    schema: {
      operationId: 'listWatched',
      summary: 'Which allocations run with their current files',
      description: 'Those of jobs with `lockkeeper_watch` in their meta. Any replica tells about all of them.',
      tags: ['semaphores'],
      security: ANYBODY,
      querystring: WatchedQuery,
      response: { 200: ref(WatchedList), ...problems() },
    },
    handler: async (request, reply) => {
      const { groups, missing } = await watcher.watched(levelOf(request.query), calls.signalOf(reply.raw))
      return {
        groups: groups.map(({ scope, faults, warnings, allocations }) => ({
          scope: scopeView(scope),
          watched: allocations.length,
          current: allocations.filter(({ state }) => state === 'current').length,
          unknown: allocations.filter(({ state }) => state === 'unknown').length,
          allocations: [...allocations],
          faults: [...faults],
          warnings: [...warnings],
        })),
        interval: formatDuration(watcher.intervalMs),
        missing,
      }
    },
  })
}
