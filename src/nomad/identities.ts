import { createLocalJWKSet, errors, jwtVerify, type JSONWebKeySet, type JWTPayload } from 'jose'
import { groupInSubject, type Workload } from '../core/caller.ts'
import { Problem } from '../core/errors.ts'
import type { Clock, Identities } from '../keeper/ports.ts'
import { bodyOf } from './answers.ts'
import type { NomadClient } from './client.ts'
import { shape } from './shape.ts'

const AUDIENCE = 'lockkeeper'
/** What Nomad signs with: RS256, and EdDSA with keys of before Nomad 1.7. Never what the token itself asks for. */
const ALGORITHMS = ['RS256', 'EdDSA']
/** By how much the clocks of Nomad's servers and ours may differ. */
const LEEWAY_S = 10
/** Between two questions for the keys, however many tokens name one that is unknown. */
const PAUSE_MS = 2_000
/** Keys that are older are asked for again: one that Nomad has withdrawn is trusted no longer than this, if Nomad answers. */
const OLD_MS = 5 * 60_000
const FETCH_MS = 5_000

interface Keys {
  readonly find: ReturnType<typeof createLocalJWKSet>
  /** Monotonic time before which they were asked for. */
  readonly at: number
}

/** Verifies workload identities by the keys that Nomad publishes. While Nomad does not answer, the keys that are known go on.
 *  `life`: ends the question for the keys; a single caller that goes away does not end what others share. */
export function createIdentities(client: NomadClient, clock: Clock, life: AbortSignal): Identities {
  let known: Keys | null = null
  let asking: Promise<Keys> | null = null
  let askedAt = Number.NEGATIVE_INFINITY

  async function ask(): Promise<Keys> {
    const pause = askedAt + PAUSE_MS - clock.now()
    if (pause > 0) await clock.sleep(pause, life)
    const at = (askedAt = clock.now())
    try {
      const call = { what: 'keys', method: 'GET', path: '/.well-known/jwks.json' } as const
      const answer = await clock.within(FETCH_MS, life, (signal) => client.call(call, signal))
      const set = bodyOf(answer)
      // An agent that is shutting down answers everything with a success and nothing in it.
      if (shape(set, 'keys').list('keys').length === 0) throw new Error('there are none')
      return (known = { find: createLocalJWKSet(set as JSONWebKeySet), at })
    } catch (error) {
      const why = error instanceof Error ? error.message : 'no answer'
      throw new Problem('nomad_unavailable', `Nomad does not tell the keys that identities are signed with: ${why}`, {}, error)
    }
  }

  /** Keys that were asked for at `notBefore` or later; many callers share one question. */
  async function keysSince(notBefore: number): Promise<Keys> {
    let keys = known
    while (keys === null || keys.at < notBefore) keys = await (asking ??= ask().finally(() => (asking = null)))
    return keys
  }

  async function currentKeys(): Promise<Keys> {
    const newest = known
    if (newest === null) return await keysSince(Number.NEGATIVE_INFINITY)
    // Asked, not answered: a Nomad that is away is not asked again by everybody.
    return clock.now() - askedAt > OLD_MS ? await keysSince(clock.now()).catch(() => newest) : newest
  }

  async function claimsOf(token: string, { find }: Keys): Promise<JWTPayload> {
    const currentDate = new Date(clock.wall())
    const options = { algorithms: ALGORITHMS, audience: AUDIENCE, clockTolerance: LEEWAY_S, currentDate }
    return (await jwtVerify(token, find, options)).payload
  }

  return {
    async workload(token) {
      const from = clock.now()
      try {
        const keys = await currentKeys()
        const claims = await claimsOf(token, keys).catch(async (error: unknown) => {
          if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
          // A refusal is given only on keys that were asked for after the call: Nomad may just have made a new one.
          return await claimsOf(token, await keysSince(from))
        })
        return workloadOf(claims)
      } catch (error) {
        life.throwIfAborted()
        throw error instanceof Problem ? error : unauthorized(faultOf(error))
      }
    },
  }
}

function workloadOf(claims: JWTPayload): Workload {
  const text = (name: string) => {
    const value = claims[name]
    if (typeof value !== 'string' || value === '') throw unauthorized(`it lacks the claim ${name} of a task's identity`)
    return value
  }
  const [namespace, job, task] = [text('nomad_namespace'), text('nomad_job_id'), text('nomad_task')]
  const group = groupInSubject(text('sub'), { namespace, job, task })
  if (group === null) throw unauthorized('its subject is not that of the task which its other claims name')
  return { namespace, job, group, task, allocation: text('nomad_allocation_id') }
}

/** In our own words: those of the library may quote the token. */
function faultOf(error: unknown): string {
  if (error instanceof errors.JWTExpired) return 'it has expired; read its file again, Nomad renews it'
  if (error instanceof errors.JWTClaimValidationFailed)
    return error.claim === 'aud' ? `it is not for the audience ${AUDIENCE}` : `its claim ${error.claim} does not hold now`
  if (error instanceof errors.JOSEAlgNotAllowed) return `it is not signed by ${ALGORITHMS.join(' or ')}`
  if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys)
    return 'it names none of the keys that Nomad publishes'
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'its signature is not that of the key which it names'
  return 'it is no JWT that can be read; a Nomad token goes into X-Nomad-Token'
}

function unauthorized(why: string): Problem {
  return new Problem('unauthorized', `the identity in the header Authorization is not valid: ${why}`)
}
