import { ON_UNAVAILABLE } from '../../core/unavailable.ts'
import type { ApiPorts, HttpApp } from '../ports.ts'
import { ownProblems } from '../schemas/problem.ts'
import { AbsenceCounted, AbsenceReport } from '../schemas/reports.ts'
import { NoQuery, ref } from '../schemas/words.ts'

export function reportRoutes(app: HttpApp, { log, meter }: ApiPorts): void {
  app.route({
    method: 'POST',
    url: '/v1/reports',
    schema: {
      operationId: 'reportAbsences',
      summary: 'Tell what was done while nobody could be asked',
      description: 'For the figures and the log of this replica; nothing is decided from it. Sent twice it is counted twice.',
      tags: ['holds'],
      security: [],
      querystring: NoQuery,
      body: ref(AbsenceReport),
      response: { 200: ref(AbsenceCounted), ...ownProblems('body_too_large') },
    },
    handler: ({ body: { allocation, unavailable } }) => {
      const { jitter = 0, proceed = 0 } = unavailable
      const counts = ON_UNAVAILABLE.map((did) => [did, unavailable[did] ?? 0] as const)
      for (const [did, times] of counts) meter.countUnavailable(did, times)
      const fields = { ...(allocation === undefined ? {} : { allocation }), ...unavailable }
      if (jitter + proceed > 0) log.warn(fields, 'a shim acted without a hold while the service was out of its reach')
      else log.info(fields, 'the service was out of reach of a shim, which did not act')
      return { counted: counts.reduce((sum, [, times]) => sum + times, 0) }
    },
  })
}
