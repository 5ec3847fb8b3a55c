import { Problem } from '../core/errors.ts'
import type { Action, Outcome } from '../core/state.ts'
import { durationText, grantOf, problemOf, waitingOf, type Grant, type ServiceAnswer, type Waiting } from './answers.ts'
import type { ServiceCall, ServiceClient } from './client.ts'

/** What is wished for: either an allocation's restart, or a unit in a shared semaphore. */
export interface Wish {
  readonly allocation?: string
  readonly component?: string
  readonly task?: string
  readonly shared?: string
  readonly unit?: string
  readonly action?: Action
  readonly reason: string
  readonly priority?: number
  readonly deadline?: string
}
export type Answer = { readonly kind: 'granted'; readonly grant: Grant } | { readonly kind: 'waiting'; readonly waiting: Waiting }

/** The calls of one asking process. Each throws a Problem; one whose row says `retry` may be repeated, and may have been done. */
export interface Service {
  /** Waits there up to `waitMs`. Repeated with the same key it is the same place in the queue, and the same hold (protocol G1). */
  ask(wish: Wish, key: string, waitMs: number, signal: AbortSignal): Promise<Answer>
  renew(hold: string, lease: string, boundMs: number, signal: AbortSignal): Promise<void>
  release(hold: string, lease: string, outcome: Outcome, signal: AbortSignal): Promise<void>
}

/** How much longer than it may wait an ask is waited for, before another replica is tried. */
const GRACE_MS = 4_000
const RELEASE_MS = 2_000

export function createService(client: ServiceClient): Service {
  async function post(path: string, body: object, boundMs: number, signal: AbortSignal): Promise<ServiceAnswer> {
    const call: ServiceCall = { method: 'POST', path, body, boundMs }
    const answer = await client.call(call, signal)
    if (answer.status < 300 || waitingOf(answer) !== null) return answer
    throw problemOf(answer, 'the address of the service')
  }

  return {
    async ask(wish, key, waitMs, signal) {
      const path = `/v1/holds?wait=${encodeURIComponent(durationText(waitMs))}`
      const answer = await post(path, { ...wish, key }, waitMs + GRACE_MS, signal)
      const waiting = waitingOf(answer)
      if (waiting !== null) return { kind: 'waiting', waiting }
      const grant = grantOf(answer)
      if (grant === null) throw new Problem('service_unavailable', 'the service answers an ask with something unreadable')
      return { kind: 'granted', grant }
    },
    async renew(hold, lease, boundMs, signal) {
      succeeded(await post(`/v1/holds/${encodeURIComponent(hold)}/renew`, { lease }, boundMs, signal))
    },
    async release(hold, lease, outcome, signal) {
      succeeded(await post(`/v1/holds/${encodeURIComponent(hold)}/release`, { lease, outcome }, RELEASE_MS, signal))
    },
  }
}

/** A 200 from something that is no lockkeeper renews nothing. */
function succeeded({ status, body }: ServiceAnswer): void {
  if (status !== 204 && (typeof body !== 'object' || body === null)) {
    throw new Problem('service_unavailable', 'the service answers with something unreadable')
  }
  if (status === 429 || status === 423) throw new Problem('overloaded', `the service answers ${status}`)
}
