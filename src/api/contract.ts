// The contract: OpenAPI 3.1, made from the very schemas that requests are checked with and answers are written by.
import swagger from '@fastify/swagger'
import type { HttpApp } from './ports.ts'
import { SECURITY_SCHEMES } from './schemas/access.ts'
import { HOLD_SCHEMAS } from './schemas/holds.ts'
import { LOCK_SCHEMAS } from './schemas/locks.ts'
import { Holder, ProblemDocument } from './schemas/problem.ts'
import { REPORT_SCHEMAS } from './schemas/reports.ts'
import { REQUEST_SCHEMAS } from './schemas/requests.ts'
import { ScopeView } from './schemas/scopes.ts'
import { SEMAPHORE_SCHEMAS } from './schemas/semaphores.ts'
import { SERVICE_SCHEMAS } from './schemas/service.ts'
import { WATCHED_SCHEMAS } from './schemas/watched.ts'

const CONTRACT_VERSION = '0.1.0'

const DESCRIPTION = `Safe restarts on a Nomad cluster: at most so many allocations of a group at once, the next one only when the last one is
healthy again, and an operator can shut the gate.

Durations are Go style strings (\`1m30s\`), times RFC 3339. An unknown field or parameter is refused, not dropped. Every error is a
problem document (RFC 9457) with a \`kind\`; compare by that, never by a text. To wait is not to fail: 429 or 423, with \`Retry-After\`.

A replica with \`--auth none\`, on loopback as a rule, asks nobody who they are; then no operation needs what its \`security\` says.`

/** Before any route: it listens to them being added. */
export async function addContract(app: HttpApp): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Lockkeeper',
        version: CONTRACT_VERSION,
        description: DESCRIPTION,
        license: { name: 'MIT', identifier: 'MIT' } as { name: string },
      },
      servers: [{ url: '/', description: 'Any replica' }],
      security: [],
      components: { securitySchemes: SECURITY_SCHEMES },
      tags: [
        { name: 'holds', description: 'For whoever acts: ask, renew, release' },
        { name: 'requests', description: 'For whoever wants a restart and does not act: Lockkeeper does' },
        { name: 'semaphores', description: 'For operators: who holds, who waits and why' },
        { name: 'locks', description: 'For operators: shut a level, open it again' },
        { name: 'service', description: 'Probes, figures and this contract' },
      ],
    },
    convertConstToEnum: false,
    refResolver: { buildLocalReference: ({ $id }, _base, _fragment, at) => (typeof $id === 'string' ? $id : `def-${at}`) },
  })
  const answers = [SEMAPHORE_SCHEMAS, LOCK_SCHEMAS, WATCHED_SCHEMAS, REPORT_SCHEMAS, SERVICE_SCHEMAS]
  const schemas = [ScopeView, Holder, ProblemDocument, ...[HOLD_SCHEMAS, REQUEST_SCHEMAS, ...answers].flat()]
  for (const schema of schemas) app.addSchema(schema)
}

/** Of an app that is ready. */
export function contractText(app: HttpApp): string {
  return `${JSON.stringify(app.swagger(), null, 2)}\n`
}
