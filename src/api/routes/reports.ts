import { Problem } from '../../core/errors.ts'
import { ON_UNAVAILABLE } from '../../core/unavailable.ts'
import { demandOwn } from '../permits.ts'
import type { ApiPorts, HttpApp } from '../ports.ts'
import { REFUSALS, WORKLOAD } from '../schemas/access.ts'
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
      security: WORKLOAD,
      querystring: NoQuery,
      body: ref(AbsenceReport),
      response: { 200: ref(AbsenceCounted), ...ownProblems(...REFUSALS, 'body_too_large') },
    },
    handler: ({ caller, body: { allocation, unavailable } }) => {
      // Nothing is done with its token, so nobody would ever look whether it is one.
      if (caller.kind === 'operator') throw new Problem('forbidden', 'this is for workloads: send no X-Nomad-Token')
      if (allocation !== undefined) demandOwn(caller, allocation)
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
