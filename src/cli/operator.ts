import { NomadFault } from '../core/nomad-fault.ts'
import { paths as pathsOf, type Paths } from '../keeper/paths.ts'
import type { Variables } from '../keeper/ports.ts'
import { createNomadClient, type NomadClient } from '../nomad/client.ts'
import type { NomadSettings } from '../nomad/settings.ts'
import { readTokenFile } from '../nomad/token.ts'
import { undiciSend } from '../nomad/transport.ts'
import { createVariables } from '../nomad/variables.ts'
import { invalid } from './arguments.ts'
import type { Env, Io } from './io.ts'
import { operatorSettings } from './settings.ts'

export const NOMAD_HELP = `Goes directly to Nomad, so the service need not run, and your Nomad token decides what you may do: NOMAD_ADDR, NOMAD_TOKEN,
NOMAD_CACERT and so on, as the Nomad CLI; NOMAD_NAMESPACE says where the variables of the service are (default).
  --prefix PATH      under which the service keeps them (LOCKKEEPER_PREFIX, lockkeeper)
`

/** What an operator works with, for as long as the work takes. */
export interface Operator {
  readonly variables: Variables
  readonly paths: Paths
  readonly namespace: string
  /** Never aborts: each call is bounded, and Ctrl-C ends the process. */
  readonly signal: AbortSignal
}

/** Runs `work` with the variables of the service, under the operator's own token. */
export async function operate<T>(
  env: Env,
  prefix: string | undefined,
  io: Io,
  work: (operator: Operator) => Promise<T>,
): Promise<T> {
  const settings = operatorSettings(env, prefix)
  const { signal } = new AbortController()
  return await withNomad(settings.nomad, io, (client) =>
    work({ variables: createVariables(client), paths: pathsOf(settings.prefix), namespace: client.namespace, signal }),
  )
}

/** Runs `work` with Nomad's API, under the operator's own token. */
export async function withNomad<T>(
  settings: NomadSettings,
  { clock, random }: Io,
  work: (client: NomadClient) => Promise<T>,
): Promise<T> {
  const transport = undiciSend({ tls: settings.tls })
  try {
    return await work(createNomadClient({ send: transport.send, clock, settings, readTokenFile, random }))
  } finally {
    await transport.close()
  }
}

/** Throws when the service has never run on these variables: a lock in the wrong place would shut nothing, and say that it did. */
export async function checkPlace({ variables, paths, namespace, signal }: Operator): Promise<void> {
  // A token that may not read it can tell nothing either way.
  const seen = await variables.get(paths.sentinel, undefined, signal).then(
    ({ variable }) => variable !== null,
    (error: unknown) => {
      if (error instanceof NomadFault && error.kind === 'denied') return true
      throw error
    },
  )
  if (seen) return
  throw invalid(
    `${paths.sentinel} is not there, so no lockkeeper has run with its variables in namespace ${namespace} under ${paths.prefix}: ` +
      'set NOMAD_NAMESPACE and --prefix as the service has them, or say --anyway if it will run there later',
  )
}
