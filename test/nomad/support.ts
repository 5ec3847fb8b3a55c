import { createNomadClient, type ClientOptions, type Outcome } from '../../src/nomad/client.ts'
import { nomadSettings } from '../../src/nomad/settings.ts'
import { SendFault, type Outgoing, type Reply, type Send } from '../../src/nomad/transport.ts'
import { ManualClock } from '../support/manual-clock.ts'

/** What a scripted server does with one request. */
export type Step = (request: Outgoing) => Reply | Promise<Reply>

export function reply(status: number, body: unknown = '', headers: Record<string, string> = {}): Step {
  const known = status < 500 && status !== 403 ? { 'x-nomad-index': '7', 'x-nomad-knownleader': 'true' } : {}
  const all: Record<string, string> = { ...known, ...headers }
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return () => ({ status, headers: (name) => all[name.toLowerCase()] ?? null, body: text })
}
export const refused: Step = () => {
  throw new SendFault('not_sent', 'connect ECONNREFUSED 127.0.0.1:4646')
}
export const broken: Step = () => {
  throw new SendFault('unknown', 'UND_ERR_SOCKET: other side closed')
}
export const silent: Step = ({ signal }) =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))

/** A client before a server that answers by script, one step a request; more requests than steps fail the test. */
export function scripted(steps: Step[], env: Record<string, string> = {}, more: Partial<ClientOptions> = {}) {
  const clock = new ManualClock()
  const requests: Outgoing[] = []
  const outcomes: [string, string, Outcome, number][] = []
  const send: Send = async (request) => {
    requests.push(request)
    const step = steps.shift()
    if (step === undefined) throw new Error('a request too many')
    return step(request)
  }
  const client = createNomadClient({
    send,
    clock,
    settings: nomadSettings(env),
    readTokenFile: () => Promise.reject(new Error('no file')),
    random: () => 0,
    observe: (...seen) => outcomes.push(seen),
    ...more,
  })
  return { client, clock, requests, outcomes, steps }
}

/** How a promise ended, as a value: a failure is part of what is tested. */
export async function ended<T>(work: Promise<T>): Promise<{ value: T } | { error: unknown }> {
  return work.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  )
}

/** The query of a request, without what every request has. */
export function queryOf({ path }: Outgoing): Record<string, string> {
  const query = Object.fromEntries(new URLSearchParams(path.split('?')[1]))
  delete query['namespace']
  return query
}
