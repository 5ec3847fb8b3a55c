import { parse } from './arguments.ts'
import type { Verb } from './io.ts'
import { serveSettings } from './settings.ts'
import { untilSignal } from './until-signal.ts'

const help = `Runs one replica of the service. Any number of them may run; they keep no state of their own.

usage: lockkeeper serve [flags]

  --listen HOST:PORT    where to listen (LOCKKEEPER_LISTEN, 127.0.0.1:4650); :PORT for all addresses
  --auth HOW            identity: workloads show their identity, operators their Nomad token; none: nobody is asked
                        (LOCKKEEPER_AUTH, none on loopback, else identity). none elsewhere has to be said twice
  --prefix PATH         under which the service keeps its variables in Nomad (LOCKKEEPER_PREFIX, lockkeeper)
  --lease-ttl DURATION  how long a lease lasts without a renewal, 10s or more (LOCKKEEPER_LEASE_TTL, 15s)
  --name NAME           of this replica, for people (LOCKKEEPER_NAME, the name of this host)
  --log-level LEVEL     trace, debug, info, warn, error, fatal or silent (LOCKKEEPER_LOG_LEVEL, info)

Nomad is found as the Nomad CLI finds it: NOMAD_ADDR (several with commas between them), NOMAD_TOKEN or NOMAD_TOKEN_FILE,
NOMAD_NAMESPACE (of the service's own variables), NOMAD_REGION, NOMAD_CACERT, NOMAD_CAPATH, NOMAD_CLIENT_CERT,
NOMAD_CLIENT_KEY, NOMAD_TLS_SERVER_NAME, NOMAD_SKIP_VERIFY.

SIGTERM or SIGINT: no new grants, those who wait are sent to another replica, then the end with exit code 0. A second
signal ends at once; what was left undone another replica finishes.
`

const OPTIONS = {
  listen: { type: 'string' },
  auth: { type: 'string', multiple: true },
  prefix: { type: 'string' },
  'lease-ttl': { type: 'string' },
  name: { type: 'string' },
  'log-level': { type: 'string' },
  json: { type: 'boolean', default: false },
} as const

export const verb: Verb = {
  help,
  async run(words, env, io) {
    const { values } = parse(words, OPTIONS)
    const settings = serveSettings(env, values)
    const { startReplica } = await import('../server.ts')
    return await untilSignal('lockkeeper serve', () => startReplica(settings), io)
  },
}
