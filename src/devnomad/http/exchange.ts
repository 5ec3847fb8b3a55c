// Room http: what goes in and out, and which URL means what. The rules are in the other rooms.
// This file: requests and answers as values; the server and the simulations both speak these.

import type { Rights } from '../acl/rights.ts'
import { Refusal } from '../refusal.ts'

export interface Request {
  readonly method: string
  /** With the query string, as it stands in the request line. */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal?: AbortSignal
  /** Set inside, when a deposed leader answers. */
  readonly past?: boolean
}

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** Comes after the body, until it ends or the caller's signal aborts. */
  readonly stream?: AsyncIterable<string>
}

/** A request that is addressed to a handler: the path without its query is decoded once, as Nomad does. */
export interface Call {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly body: string
  readonly signal: AbortSignal | undefined
  /** The token as it was sent; empty: none. */
  readonly token: string
  /** Throws a 403 when the token is not known. */
  readonly rights: Rights
  /** A deposed leader answers. */
  readonly past: boolean
}

const JSON_TYPE = 'application/json'
export const TEXT_TYPE = 'text/plain; charset=utf-8'

export function json(value: unknown, headers: Record<string, string> = {}, status = 200): Answer {
  return { status, headers: { 'Content-Type': JSON_TYPE, ...headers }, body: JSON.stringify(value) }
}

/** Nomad's errors are plain text, and almost everything unexpected is a 500 (facts §3). */
export function text(status: number, body: string, headers: Record<string, string> = {}): Answer {
  return { status, headers: { 'Content-Type': TEXT_TYPE, ...headers }, body }
}

/** Headers of a write. */
export const atIndex = (index: number): Record<string, string> => ({ 'X-Nomad-Index': String(index) })

/** Headers of a read. */
export const meta = (index: number): Record<string, string> => ({
  ...atIndex(index),
  'X-Nomad-KnownLeader': 'true',
  'X-Nomad-LastContact': '0',
})

/** Refuses who may not: 403, in the same words for every reason (facts §3). */
export function demand(allowed: boolean, headers: Record<string, string> = {}): void {
  if (!allowed) throw new Refusal(403, 'Permission denied', headers)
}

/** What a client sees when the connection breaks. */
export class ConnectionLost extends Error {
  readonly code = 'ECONNRESET'

  constructor() {
    super('read ECONNRESET')
    this.name = 'ConnectionLost'
  }
}

export function namespaceOf(call: Call): string {
  return call.query.get('namespace') || 'default'
}

/** The JSON body, with Nomad's (Go's) words for what is wrong with it. To Go `null` is an object that says nothing. */
export function bodyOf<T>(call: Call): T {
  if (call.body === '') throw new Refusal(400, 'Request body is empty')
  try {
    return (JSON.parse(call.body) ?? {}) as T
  } catch (error) {
    const cut = String(error).includes('end of JSON') || String(error).includes('Unterminated')
    throw new Refusal(400, cut ? 'unexpected EOF' : 'invalid character looking for beginning of value')
  }
}
