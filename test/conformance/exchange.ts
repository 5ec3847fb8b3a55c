import { readFileSync } from 'node:fs'

/** One request to a real Nomad, and what it answered. */
export interface Exchange {
  readonly name: string
  /** Whose token it was sent with. */
  readonly who?: string
  readonly request: { readonly method: string; readonly path: string; readonly body: unknown }
  readonly response: {
    readonly status: number
    readonly contentType: string | null
    readonly nomadIndex: string | null
    readonly body: unknown
  }
}

export interface Answered {
  readonly status: number
  readonly contentType: string | null
  readonly nomadIndex: string | null
  readonly nextToken: string | null
  readonly body: unknown
}

export function recorded(file: string): Exchange[] {
  const text = readFileSync(new URL(`recorded/${file}.json`, import.meta.url), 'utf8')
  return (JSON.parse(text) as { exchanges: Exchange[] }).exchanges
}

/** With the token of the management, where there is one, unless said otherwise. */
export async function ask(
  address: string,
  request: Exchange['request'],
  token = process.env['LOCKKEEPER_TEST_NOMAD_TOKEN'] ?? '',
): Promise<Answered> {
  const { method, path } = request
  const body = typeof request.body === 'string' ? request.body : JSON.stringify(expanded(request.body))
  // The recording was made without compression: a compressed 409 has no Content-Type at all (measured).
  const headers = { 'accept-encoding': 'identity', ...(token === '' ? {} : { 'x-nomad-token': token }) }
  const init: RequestInit = { method, headers, redirect: 'manual', ...(request.body === null ? {} : { body }) }
  const answer = await fetch(address + path, init)
  const text = await answer.text()
  return {
    status: answer.status,
    contentType: answer.headers.get('content-type'),
    nomadIndex: answer.headers.get('x-nomad-index'),
    nextToken: answer.headers.get('x-nomad-nexttoken'),
    body: parsed(text),
  }
}

/** The recording writes long strings as `{repeat, times}`. */
export function expanded(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(expanded)
  if (typeof value !== 'object' || value === null) return value
  if ('repeat' in value && 'times' in value) return String(value.repeat).repeat(Number(value.times))
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, expanded(one)]))
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
