import { readFile, readdir } from 'node:fs/promises'
import type { IncomingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { Pool, buildConnector, type Dispatcher } from 'undici'
import type { TlsSettings } from './settings.ts'

export interface Outgoing {
  readonly method: 'GET' | 'PUT' | 'DELETE'
  /** One of the addresses of NomadSettings. */
  readonly address: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Of the reply's body, where less than usual is meant: the rest is never received. */
  readonly maxBytes?: number
  readonly signal: AbortSignal
}
export interface Reply {
  readonly status: number
  readonly headers: (name: string) => string | null
  readonly body: string
}
/** One HTTP exchange, sent at most once; redirects are not followed. Rejects soon after `signal` aborts, and with a SendFault
 *  when there is no reply. A simulation brings its own. */
export type Send = (request: Outgoing) => Promise<Reply>

/** There is no reply. `not_sent`: the request certainly reached nobody (no connection was made). `unknown`: it may have been
 *  executed. `too_large`: it was, and the reply is larger than we read. Holds a text and no cause: undici's errors carry what
 *  was received, and that may be a secret. */
export class SendFault extends Error {
  readonly what: 'not_sent' | 'unknown' | 'too_large'

  constructor(what: SendFault['what'], text: string) {
    super(text)
    this.name = 'SendFault'
    this.what = what
  }
}

export interface TransportOptions {
  readonly tls: TlsSettings
  /** Connections per address. A blocking query keeps one for as long as it waits; when all are taken, calls queue and their
   *  bound runs: keep the number of blocking queries well below. Nomad itself refuses the 101st of a host (facts §3). */
  readonly connections?: number
  readonly maxBodyBytes?: number
  /** Shorter than a request's bound, so that a dead address is known as `not_sent` before the bound ends. */
  readonly connectMs?: number
}

export interface Transport {
  readonly send: Send
  /** Ends at once: what is under way rejects as `unknown`. */
  readonly close: () => Promise<void>
}

/** HTTP/1.1 over undici. No retry of undici's is used (it repeats writes), and none of its timeouts but that of the connect:
 *  they are coarse, and shorter than a blocking query may be. Bounds are the caller's signals. */
export function undiciSend(options: TransportOptions): Transport {
  const { tls, connections = 10, maxBodyBytes = 64 * 1024 * 1024, connectMs = 2_000 } = options
  const pools = new Map<string, Pool>()

  const open = (address: string) => {
    const socketPath = address.startsWith('unix://') ? decodeURIComponent(new URL(address).pathname) : null
    return new Pool(socketPath === null ? address : 'http://localhost', {
      connections,
      allowH2: false,
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: 30_000,
      maxResponseSize: maxBodyBytes,
      connect: connector(tls, socketPath, connectMs),
    })
  }

  /** On undici's lowest level: its streams and its handling of signals cost more than the rest of an exchange, and it does not look at
   *  the signal of a call that waits for a connection until it gets one (measured). Such a call is given up here at once, and undici
   *  drops it, unsent, when its turn comes. */
  function exchange({ method, address, path, headers, body, maxBytes = Infinity, signal }: Outgoing): Promise<Reply> {
    let pool = pools.get(address)
    if (pool === undefined) pools.set(address, (pool = open(address)))
    return new Promise<Reply>((resolve, reject) => {
      const chunks: Buffer[] = []
      let head: { readonly status: number; readonly fields: IncomingHttpHeaders } = { status: 0, fields: {} }
      let control: Dispatcher.DispatchController | null = null
      let size = 0
      const giveUp = (why: Error) => {
        reject(why)
        control?.abort(why)
      }
      const stop = () => giveUp(STOPPED)
      const ended = (tell: () => void) => {
        signal.removeEventListener('abort', stop)
        tell()
      }
      if (signal.aborted) return stop()
      signal.addEventListener('abort', stop, { once: true })
      pool.dispatch(
        { method, path, headers: { ...headers }, body: body ?? null },
        {
          onRequestStart(controller) {
            control = controller
            if (signal.aborted) stop()
          },
          onResponseStart: (_, status, fields) => void (head = { status, fields }),
          onResponseData(_, chunk) {
            size += chunk.length
            if (size > maxBytes) giveUp(TOO_LARGE)
            else chunks.push(chunk)
          },
          onResponseEnd: () =>
            ended(() => resolve({ status: head.status, headers: (name) => fieldOf(head.fields, name), body: textIn(chunks) })),
          onResponseError: (_, error) => ended(() => reject(error)),
        },
      )
    })
  }

  const send: Send = async (request) => {
    try {
      return await exchange(request)
    } catch (error) {
      if (request.signal.aborted) throw request.signal.reason
      if (error instanceof SendFault) throw error
      const large = codeOf(error) === 'UND_ERR_RES_EXCEEDED_MAX_SIZE'
      throw new SendFault(large ? 'too_large' : 'unknown', textOf(error))
    }
  }

  return {
    send,
    close: async () => {
      const ending = [...pools.values()]
      pools.clear()
      await Promise.all(ending.map((pool) => pool.destroy()))
    },
  }
}

/** Made once: an abort without a reason makes an exception with a stack each time. */
const STOPPED = new Error('aborted')
const TOO_LARGE = new SendFault('too_large', 'the reply is larger than was asked for')

function fieldOf(headers: IncomingHttpHeaders, name: string): string | null {
  const value = headers[name.toLowerCase()]
  return (Array.isArray(value) ? value[0] : value) ?? null
}

function textIn(chunks: readonly Buffer[]): string {
  return (chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)).toString()
}

/** The only place that knows for certain that nothing was sent: whatever fails here failed before the request. */
function connector(tls: TlsSettings, socketPath: string | null, timeout: number): buildConnector.connector {
  return (target, callback) => {
    const fail = (error: unknown) => callback(new SendFault('not_sent', textOf(error)), null)
    const connect = (secure: object) =>
      buildConnector({ ...secure, allowH2: false, timeout, socketPath })(target, (...[error, socket]) => {
        if (error === null) callback(null, socket)
        else fail(error)
      })
    if (target.protocol === 'https:') secureOptions(tls).then(connect, fail)
    else connect({})
  }
}

async function secureOptions(tls: TlsSettings): Promise<object> {
  const { caFile, caDirectory, clientCertificate, clientKey, serverName, skipVerify } = tls
  const files = caFile === undefined ? [] : [caFile]
  if (caDirectory !== undefined && caFile === undefined)
    for (const entry of await readdir(caDirectory, { withFileTypes: true }))
      if (!entry.isDirectory()) files.push(join(caDirectory, entry.name))
  const ca = await Promise.all(files.map((file) => readFile(file, 'utf8')))
  return {
    ...(ca.length === 0 ? {} : { ca }),
    ...(clientCertificate === undefined ? {} : { cert: await readFile(clientCertificate, 'utf8') }),
    ...(clientKey === undefined ? {} : { key: await readFile(clientKey, 'utf8') }),
    ...(serverName === undefined ? {} : { servername: serverName }),
    rejectUnauthorized: !skipVerify,
  }
}

function codeOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : ''
}

/** `ECONNREFUSED: connect ECONNREFUSED 127.0.0.1:4646`; of the several errors of a host with several addresses, all. */
function textOf(error: unknown): string {
  if (error instanceof AggregateError) return [...new Set(error.errors.map(textOf))].join('; ')
  if (!(error instanceof Error)) return 'no reply'
  const code = codeOf(error)
  return code === '' || error.message.includes(code) ? error.message : `${code}: ${error.message}`
}
