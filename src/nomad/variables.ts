import { formatDuration } from '../core/duration.ts'
import { NomadFault } from '../core/nomad-fault.ts'
import type { Removed, Variable, VariableMeta, Variables, Written } from '../keeper/ports.ts'
import { bodyOf, type Answer } from './answers.ts'
import type { Call, NomadClient } from './client.ts'
import { shape, shapes, type Shape } from './shape.ts'

export interface NomadVariables extends Variables {
  /** The same variables under somebody else's token: what Nomad lets an operator do decides (design §7). */
  withToken(token: string): NomadVariables
}

/** Nomad Variables over HTTP (facts §1, §2). Three things never happen here: a `Lock` in a plain set (it would never expire), a
 *  LockDelay of 0 (it would mean 15 s), a write that is sent twice.
 *
 *  Where it ends: the 409 of a *locked* variable tells nothing but its path. So `conflict` with `current: null` means "nothing is
 *  there", or "it is there at the very index you named, and locked": whoever writes or removes variables that may be locked
 *  releases first. A conflict whose content the token may not read is NomadFault `denied`. */
export function createVariables(client: NomadClient, token?: string): NomadVariables {
  const call = (request: Omit<Call, 'token'>, signal?: AbortSignal) => client.call({ ...request, token }, signal)

  const lock = (operation: 'acquire' | 'renew' | 'release', path: string, id: string, body: object) =>
    ({
      what: `variable.${operation}`,
      method: 'PUT',
      path: urlOf(path),
      query: { [`lock-${operation}`]: '' },
      body: { Path: path, ...body },
      secret: id,
    }) as const

  return {
    withToken: (other) => createVariables(client, other),

    async get(path, blocking, signal) {
      const what = 'variable.get'
      const meant = (status: number, text: string) => status === 404 && text.includes('variable not found')
      const answer = await call({ what, method: 'GET', path: urlOf(path), blocking, indexed: true, meant }, signal)
      const index = indexOf(answer)
      return { index, variable: answer.status === 404 ? null : variableOf(shape(bodyOf(answer), what)) }
    },

    /** One page, so one snapshot, unless the server insists on more. Then the smallest index of the pages counts: what was
     *  committed up to it is on every page, while a later one may have missed what came before its place. */
    async list(prefix, blocking, signal) {
      const what = 'variable.list'
      const variables: VariableMeta[] = []
      let index = Number.POSITIVE_INFINITY
      let next: string | null = null
      do {
        const query: Record<string, string> = { prefix, ...(next === null ? {} : { next_token: next }) }
        const wait = next === null ? blocking : undefined
        const answer: Answer = await call({ what, method: 'GET', path: '/v1/vars', query, blocking: wait, indexed: true }, signal)
        variables.push(...shapes(bodyOf(answer), what).map(metaOf))
        index = Math.min(index, indexOf(answer))
        next = answer.nextToken
      } while (next !== null && next !== '')
      return { index, variables }
    },

    async put(path, items, cas, signal) {
      const query = { cas: String(cas) }
      const body = { Path: path, Items: items }
      const answer = await call({ what: 'variable.put', method: 'PUT', path: urlOf(path), query, body, meant: conflict }, signal)
      return answer.status === 409 ? { kind: 'conflict', current: currentOf(answer) } : written(answer)
    },

    async remove(path, cas, signal): Promise<Removed> {
      const query = { cas: String(cas) }
      const answer = await call({ what: 'variable.remove', method: 'DELETE', path: urlOf(path), query, meant: conflict }, signal)
      if (answer.status === 409) return { kind: 'conflict', current: currentOf(answer) }
      if (answer.index === null || answer.index === 0) throw unreadable(answer)
      return { kind: 'removed', index: answer.index }
    },

    async acquire(path, { id, ttlMs, delayMs }, items, signal) {
      const times = { TTL: formatDuration(ttlMs), LockDelay: formatDuration(Math.max(1, delayMs)) }
      const body = { Items: items, Lock: { ID: id, ...times } }
      const answer = await call({ ...lock('acquire', path, id, body), meant: conflict }, signal)
      return answer.status === 409 ? { kind: 'taken' } : { kind: 'acquired', index: written(answer).index }
    },

    async renew(path, id, signal) {
      const meant = (status: number, text: string) => conflict(status) || (status === 404 && GONE.test(text))
      const answer = await call({ ...lock('renew', path, id, { Lock: { ID: id } }), meant }, signal)
      if (answer.status !== 200) return 'lost'
      written(answer)
      return 'renewed'
    },

    async release(path, id, signal) {
      const meant = (status: number, text: string) => conflict(status) || (status !== 200 && GONE.test(text))
      const answer = await call({ ...lock('release', path, id, { Lock: { ID: id } }), meant }, signal)
      return answer.status === 200 ? { kind: 'released', index: written(answer).index } : { kind: 'not_held' }
    },
  }
}

/** A 500 of a release, a 404 or 409 of a renew; through a follower with `rpc error: ` before it. */
const GONE = /variable doesn't (hold a lock|exist)/

const conflict = (status: number) => status === 409

function urlOf(path: string): string {
  return `/v1/var/${path.split('/').map(encodeURIComponent).join('/')}`
}

function indexOf(answer: Answer): number {
  return answer.index ?? 0
}

function metaOf(from: Shape): VariableMeta {
  return { path: from.text('Path'), createIndex: from.count('CreateIndex'), modifyIndex: from.count('ModifyIndex') }
}

function variableOf(from: Shape): Variable {
  return { ...metaOf(from), items: from.texts('Items') }
}

/** A 200 of a write counts only with the variable in it: an agent that is shutting down says 200 to everything. */
function written(answer: Answer): Extract<Written, { kind: 'written' }> {
  const meta = tried(answer, () => metaOf(shape(bodyOf(answer), answer.what)))
  if (meta.modifyIndex === 0) throw unreadable(answer)
  return { kind: 'written', index: meta.modifyIndex, createIndex: meta.createIndex }
}

function currentOf(answer: Answer): Variable | null {
  const from = tried(answer, () => shape(bodyOf(answer), answer.what))
  if (tried(answer, () => from.count('ModifyIndex')) === 0) return null
  // Without the right to read, the conflict comes without Items (source: makeVariablesApplyResponse).
  if (from.optional('Items') === null)
    throw new NomadFault('denied', `${answer.what}: the token may write this variable but not read it`)
  return tried(answer, () => variableOf(from))
}

function tried<T>(answer: Answer, read: () => T): T {
  try {
    return read()
  } catch {
    throw unreadable(answer)
  }
}

/** Nomad may have written: whoever called looks. */
function unreadable(answer: Answer): NomadFault {
  return new NomadFault('unavailable', `${answer.what}: Nomad's answer ${answer.status} says nothing`)
}
