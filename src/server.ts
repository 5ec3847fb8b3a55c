// The composition root of a replica: the only place where nomad, keeper, api and metrics meet.
import { randomInt, randomUUID } from 'node:crypto'
import { pino, type DestinationStream, type LevelWithSilent } from 'pino'
import { buildApp } from './api/app.ts'
import { Calls } from './api/calls.ts'
import { systemClock } from './keeper/clock.ts'
import { Keeper } from './keeper/keeper.ts'
import type { Clock, Log, NewId } from './keeper/ports.ts'
import { Watcher } from './keeper/watching/watcher.ts'
import { authOf, isLoopback, listenAddress, type Auth, type Listen } from './listen.ts'
import { createMetrics } from './metrics.ts'
import { createActions } from './nomad/actions.ts'
import { createNomadClient } from './nomad/client.ts'
import { createFiles } from './nomad/files.ts'
import { createCluster } from './nomad/cluster.ts'
import { createIdentities } from './nomad/identities.ts'
import type { NomadSettings } from './nomad/settings.ts'
import { readTokenFile } from './nomad/token.ts'
import { undiciSend } from './nomad/transport.ts'
import { createVariables } from './nomad/variables.ts'

const DEFAULT_LISTEN = '127.0.0.1:4650'
/** Connections that may wait to be accepted, if the system lets them (somaxconn). With Node's 511 some of a fleet that asks within a
 *  second are reset. */
const BACKLOG = 4_096

export interface ReplicaSettings {
  /** `host:port`, `[::1]:4650`, `:4650` for all addresses; port 0 takes a free one. */
  readonly listen?: string
  /** Each time that it was said (listen.ts); left out: `none` on loopback, `identity` elsewhere. */
  readonly auth?: readonly Auth[]
  readonly prefix: string
  readonly leaseTtlMs: number
  /** Name of this replica, for people. */
  readonly name: string
  readonly nomad: NomadSettings
  readonly logLevel: LevelWithSilent
}

/** The world around it; what is left out is the real one. */
export interface ReplicaIo {
  readonly clock?: Clock
  readonly newId?: NewId
  /** Chance for back-offs, 0 ≤ x < 1. */
  readonly random?: () => number
  /** Where the log goes, a JSON object a line; stdout if left out. */
  readonly logTo?: DestinationStream
}

export interface RunningReplica {
  /** `http://127.0.0.1:4650` */
  readonly address: string
  readonly keeper: Keeper
  /** Not ready, nothing new is begun, waiters are sent to another replica, leases are given back, connections are closed. Takes at
   *  most 10 s: what is left then is cut off, and another replica finishes it. May be called again. */
  close(): Promise<void>
}

const CLOSE_MS = 10_000
/** Secrets, should they ever get into what is logged. Bodies never are. */
const REDACT = ['authorization', 'x-nomad-token', 'lease', 'lockId'].flatMap((name) => [`["${name}"]`, `*["${name}"]`])
/** Blocking queries keep a connection each: the list, and up to four semaphores; the rest is for calls. */
const NOMAD_CONNECTIONS = 32

/** Starts a replica. Resolves when it listens; it is ready once Nomad answers. Rejects when it cannot listen there, or may
 *  not without asking who calls. */
export async function startReplica(settings: ReplicaSettings, io: ReplicaIo = {}): Promise<RunningReplica> {
  const { clock = systemClock, newId = randomUUID, random = anyFraction } = io
  const listen = listenAddress(settings.listen ?? DEFAULT_LISTEN)
  const auth = authOf(settings.auth ?? [], listen)
  const log = logger(settings, io.logTo)
  const metrics = createMetrics()
  const transport = undiciSend({ tls: settings.nomad.tls, connections: NOMAD_CONNECTIONS })
  const client = createNomadClient({
    send: transport.send,
    clock,
    settings: settings.nomad,
    readTokenFile,
    random,
    log,
    observe: (...seen) => metrics.observeNomad(...seen),
  })
  const variables = createVariables(client)
  const ports = { variables, cluster: createCluster(client), actions: createActions(client), clock, newId, log, meter: metrics }
  const { prefix, name, leaseTtlMs } = settings
  const keeper = new Keeper(ports, { prefix, name, leaseTtlMs, namespace: settings.nomad.namespace })
  metrics.watch(keeper.registry)
  const { paths, replica, registry } = keeper
  const watcher = new Watcher({
    ...ports,
    paths,
    replica,
    files: createFiles(client),
    snapshot: () => registry.snapshot,
    request: (input, signal) => keeper.requests.put(input, signal),
  })
  metrics.watchFiles(watcher)
  const calls = new Calls()
  const operatorVariables = (token: string | null) => (token === null ? variables : variables.withToken(token))
  const life = new AbortController()
  const identities = auth === 'identity' ? createIdentities(client, clock, life.signal) : null
  const app = await buildApp({
    keeper,
    watcher,
    variables,
    operatorVariables,
    identities,
    clock,
    log,
    meter: metrics,
    calls,
  })

  let closing: Promise<void> | null = null
  const close = (): Promise<void> => (closing ??= shutDown())
  async function shutDown(): Promise<void> {
    log.info({}, 'shutting down: not ready, nothing new is begun, waiters are sent to another replica')
    calls.refuse()
    life.abort(calls.refused)
    // It listens no more from here; the connections of waiters stay until they have their answer.
    const closed = app.close()
    const rest = watcher
      .stop()
      .then(() => keeper.stop())
      .finally(() => calls.end())
    await within(clock, CLOSE_MS, Promise.all([rest, closed]), () => log.warn({}, 'cut off what did not end in time'))
    app.server.closeAllConnections()
    await transport.close()
    log.info({}, 'shut down')
  }

  try {
    await app.listen({ ...listen, backlog: BACKLOG })
  } catch (error) {
    await Promise.allSettled([app.close(), transport.close()])
    throw error
  }
  const address = app.listeningOrigin
  announce(log, address, listen, auth)
  await keeper.start()
  watcher.start()
  return { address, keeper, close }
}

/** 0 ≤ x < 1. */
function anyFraction(): number {
  return randomInt(2 ** 32) / 2 ** 32
}

function announce(log: Log, address: string, { host }: Listen, auth: Auth): void {
  const who =
    auth === 'identity'
      ? 'workloads show their identity, operators their Nomad token'
      : 'nobody is asked who they are: whoever reaches this port may ask, renew and lock'
  log.info({ address, auth }, `listening on ${address}; ${who}`)
  if (isLoopback(host)) return
  if (auth === 'none') log.warn({ address }, `${address} is not on loopback, and nobody is asked who they are`)
}

function logger({ name, logLevel }: ReplicaSettings, to: DestinationStream | undefined): Log {
  const options = { level: logLevel, base: { replica: name }, redact: { paths: REDACT, censor: '…' } }
  return to === undefined ? pino(options) : pino(options, to)
}

/** Waits for the work, but not longer than `ms`. Its failure is as good as its end: it is being shut down. */
async function within(clock: Clock, ms: number, work: Promise<unknown>, late: () => void): Promise<void> {
  const done = new AbortController()
  const over = work.then(
    () => done.abort(),
    () => done.abort(),
  )
  await Promise.race([over, clock.sleep(ms, done.signal).then(late, () => undefined)])
  done.abort()
}
