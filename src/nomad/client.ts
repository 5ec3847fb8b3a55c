// Room nomad: the only room that knows Nomad's HTTP API. It implements the ports Variables and Cluster; what it knows of
// Nomad was measured (facts). It takes core's values, keeper's types, undici, and time as a Clock.
// This file: one request function; what is repeated, where, and when an answer counts.
import { formatDuration } from '../core/duration.ts'
import { NomadFault } from '../core/nomad-fault.ts'
import type { Blocking, Clock, Log } from '../keeper/ports.ts'
import { judge, sentence, type Answer } from './answers.ts'
import type { NomadSettings } from './settings.ts'
import { tokenSource, type ReadTokenFile } from './token.ts'
import { SendFault, type Outgoing, type Reply, type Send } from './transport.ts'

export interface Call {
  /** Its name in metrics, logs and faults: `variable.put`. Never a path, so that no ID gets there. */
  readonly what: string
  readonly method: Outgoing['method']
  /** Encoded, without a query. */
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  /** Where another than that of the settings is meant. */
  readonly namespace?: string
  readonly body?: object
  readonly blocking?: Blocking | undefined
  /** A larger answer is not read to its end: NomadFault `too_large`. */
  readonly maxBytes?: number
  /** Of all that is tried for this call; nothing of it is sent after that. */
  readonly boundMs?: number
  /** Somebody else's token, for this call only. It is never read again. */
  readonly token?: string | undefined
  /** A secret of the body that must not come back in a fault's text. */
  readonly secret?: string
  /** The answer must carry an index; without one it is no answer of a server (see `indexFault`). */
  readonly indexed?: boolean
  /** Answers besides 2xx that the caller understands. */
  readonly meant?: (status: number, text: string) => boolean
}

/** How one exchange ended, for metrics. `timeout`: its bound, `aborted`: the caller. */
export type Outcome = 'answered' | 'denied' | 'rejected' | 'busy' | 'unavailable' | 'timeout' | 'aborted'

export interface ClientOptions {
  readonly send: Send
  readonly clock: Clock
  readonly settings: NomadSettings
  readonly readTokenFile: ReadTokenFile
  /** Chance for the back-off, 0 ≤ x < 1; handed in, so that a run can be repeated. */
  readonly random: () => number
  /** Bound of one exchange. Well under the shortest TTL of a lock (10 s): a stalled leader keeps a call for 10.6 s (facts §2). */
  readonly requestMs?: number
  readonly log?: Log
  readonly observe?: (method: string, what: string, outcome: Outcome, ms: number) => void
}

export interface NomadClient {
  readonly namespace: string
  /** An answer that is fine or `meant`; else throws NomadFault, or the reason of `signal`. A GET is tried at every address, again
   *  with a back-off, up to `max(4, twice the addresses)` times; a blocking one that ran out of its bound is not. Anything else is
   *  repeated only when it certainly reached nobody, or after a 403 with a newer token: else the fault says `maybeDone`. */
  call(call: Call, signal?: AbortSignal): Promise<Answer>
}

interface Failure {
  readonly fault: NomadFault
  readonly outcome: Outcome
  /** Whether another address may do better. */
  readonly move: boolean
  /** Whether the call may be repeated, though it writes. */
  readonly harmless: boolean
}

const BACKOFF_MS = { first: 100, most: 1_000 }

/** Retries are a loop over the Clock, not p-retry: that waits on real timers, and a simulation runs this client in virtual time. */
export function createNomadClient(options: ClientOptions): NomadClient {
  const { send, clock, settings, random, requestMs = 5_000, log, observe } = options
  const { addresses, namespace, region } = settings
  const tokens = tokenSource(settings.token, options.readTokenFile, clock, log)
  const tries = Math.max(4, 2 * addresses.length)
  /** The address that worked last. Shared by all calls: one finds out, all move. */
  let current = 0

  async function call(call: Call, signal?: AbortSignal): Promise<Answer> {
    let renewed = false
    const endsAt = call.boundMs === undefined ? Infinity : clock.now() + call.boundMs
    for (let count = 1; ; count++) {
      signal?.throwIfAborted()
      const token = call.token ?? (await tokens.current())
      const at = current
      const ended = await exchange(call, at, token, Math.min(boundOf(call), Math.max(1, endsAt - clock.now())), signal)
      if (!('fault' in ended)) return ended
      const { fault, outcome, move, harmless } = ended
      if (move && current === at && addresses.length > 1) {
        current = (at + 1) % addresses.length
        log?.info({ what: call.what, from: addresses[at], to: addresses[current], fault: fault.message }, 'Nomad: next address')
      }
      if (outcome === 'denied' && call.token === undefined && !renewed) {
        renewed = true
        if ((await tokens.another(token)) !== null && clock.now() < endsAt) continue
      }
      if (!harmless || count >= tries) throw fault
      // A whole round of addresses has failed: only then is waiting worth more than trying the next.
      if (count % addresses.length === 0) await clock.sleep(backoff(count / addresses.length), signal)
      if (clock.now() >= endsAt) throw fault
    }
  }

  function backoff(round: number): number {
    return Math.min(BACKOFF_MS.most, BACKOFF_MS.first * 2 ** (round - 1)) * (0.5 + random() / 2)
  }

  async function exchange(
    call: Call,
    at: number,
    token: string | null,
    boundMs: number,
    signal?: AbortSignal,
  ): Promise<Answer | Failure> {
    const { method, what } = call
    const started = clock.now()
    const observed = (outcome: Outcome) => observe?.(method, what, outcome, clock.now() - started)
    let bound: AbortSignal | undefined
    let ended: Answer | Failure
    try {
      const reply = await clock.within(boundMs, signal, (within) => {
        bound = within
        return send(outgoing(call, addresses[at] as string, token, within))
      })
      ended = answer(call, reply, token)
    } catch (error) {
      if (signal?.aborted === true) {
        observed('aborted')
        throw signal.reason
      }
      ended = failed(call, error, bound?.aborted === true ? boundMs : null, token)
    }
    observed('fault' in ended ? ended.outcome : 'answered')
    return ended
  }

  function boundOf({ blocking, boundMs }: Call): number {
    if (boundMs !== undefined) return boundMs
    // A blocking query waits up to a sixteenth longer than it was told (source: structs.JitterFraction).
    return blocking === undefined ? requestMs : blocking.waitMs + blocking.waitMs / 16 + requestMs
  }

  function outgoing(call: Call, address: string, token: string | null, signal: AbortSignal): Outgoing {
    const { method, body, blocking } = call
    const query = {
      namespace: call.namespace ?? namespace,
      ...(region === undefined ? {} : { region }),
      ...call.query,
      ...(blocking === undefined ? {} : { index: String(blocking.index), wait: formatDuration(Math.max(1, blocking.waitMs)) }),
    }
    const headers = {
      accept: 'application/json',
      ...(token === null ? {} : { 'x-nomad-token': token }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    }
    const path = `${call.path}?${new URLSearchParams(query).toString()}`
    const most = call.maxBytes === undefined ? {} : { maxBytes: call.maxBytes }
    return { method, address, path, headers, signal, ...most, ...(body === undefined ? {} : { body: JSON.stringify(body) }) }
  }

  function answer(call: Call, reply: Reply, token: string | null): Answer | Failure {
    const { status, body: text } = reply
    const { what } = call
    const verdict = call.meant?.(status, text) === true ? 'fine' : judge(status, text)
    if (verdict === 'fine') {
      const index = indexOf(reply)
      const fault = call.indexed === true && status < 500 ? indexFault(reply, index) : null
      if (fault !== null) return failure(call, 'unavailable', `${what}: ${fault}`, 'unavailable')
      return { what, status, index, nextToken: reply.headers('x-nomad-nexttoken'), text }
    }
    const said = `${what}: Nomad answers ${status} ${sentence(text, secretsOf(call, token))}`
    if (verdict === 'busy') return failure(call, 'busy', said, 'unavailable', 'not_sent')
    if (verdict === 'ailing') return failure(call, 'unavailable', said, 'unavailable')
    if (verdict === 'cut_off') return { ...failure(call, 'unavailable', said, 'unavailable'), move: false, harmless: false }
    return failure(call, verdict, said, verdict, status >= 500 ? 'unknown' : 'not_done')
  }

  function failed(call: Call, error: unknown, boundMs: number | null, token: string | null): Failure {
    const { what } = call
    if (boundMs !== null) return failure(call, 'timeout', `${what}: no answer from Nomad within ${boundMs} ms`, 'unavailable')
    const known = error instanceof SendFault ? error.what : 'unknown'
    if (known === 'too_large') return failure(call, 'rejected', `${what}: Nomad's answer is too large`, 'too_large')
    const said = sentence(error instanceof Error ? error.message : 'no reply', secretsOf(call, token))
    return failure(call, 'unavailable', `${what}: no answer from Nomad: ${said}`, 'unavailable', known)
  }

  return { namespace, call }
}

/** `done`: what is known about a write when it failed so. */
function failure(
  { method, blocking }: Call,
  outcome: Outcome,
  text: string,
  kind: NomadFault['kind'],
  done: 'not_sent' | 'not_done' | 'unknown' = 'unknown',
): Failure {
  const read = method === 'GET'
  const fault = new NomadFault(kind, text, !read && done === 'unknown')
  const again = kind === 'unavailable' && !(outcome === 'timeout' && blocking !== undefined)
  return { fault, outcome, move: kind === 'unavailable', harmless: again && (read || done === 'not_sent') }
}

function secretsOf(call: Call, token: string | null): string[] {
  return [token, call.secret].filter((secret) => typeof secret === 'string')
}

function indexOf(reply: Reply): number | null {
  const found = reply.headers('x-nomad-index')
  return found !== null && /^\d+$/.test(found) ? Number(found) : null
}

/** A client agent that is shutting down answers every call with a success and nothing in it: an empty list, a missing variable, a
 *  write that never was, without a leader (source: client/rpc.go, "shutdownCh: return nil"). Index 0 alone proves nothing: it
 *  is that of a table that was never written, and measured with a leader. */
function indexFault(reply: Reply, index: number | null): string | null {
  if (reply.headers('x-nomad-knownleader') === 'false') return 'who answered knows no leader'
  return index === null ? 'an answer without an index comes from no server' : null
}
