import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { Keyring } from '../../src/devnomad/acl/keyring.ts'
import { createIdentities } from '../../src/nomad/identities.ts'
import { thenRejects } from '../support/then-rejects.ts'
import { settle } from '../support/manual-clock.ts'
import { reply, scripted, silent, type Step } from './support.ts'

const ME = { namespace: 'default', job: 'a:b/c', group: 'api', task: 'app', allocation: 'alloc-1' }
const SECOND = 1_000

/** A keyring, a server that publishes it, and what verifies by it. A step more is an answer before those of the keyring. */
function given(first: Step[] = []) {
  // An RSA key takes its time.
  const keyring = new Keyring(randomUUID, 'EdDSA')
  const life = new AbortController()
  const published: Step = (request) => reply(200, { keys: keyring.published })(request)
  const { client, clock, requests, steps } = scripted([...first, ...Array.from({ length: 20 }, () => published)])
  const seconds = () => Math.floor(clock.wall() / SECOND)
  const claims = (more: object = {}) => ({
    aud: 'lockkeeper',
    iat: seconds(),
    nbf: seconds(),
    exp: seconds() + 3_600,
    nomad_namespace: ME.namespace,
    nomad_job_id: ME.job,
    nomad_task: ME.task,
    nomad_allocation_id: ME.allocation,
    sub: `global:${ME.namespace}:${ME.job}:${ME.group}:${ME.task}:lockkeeper`,
    ...more,
  })
  const token = (more: object = {}) => keyring.sign(claims(more))
  const identities = createIdentities(client, clock, life.signal)
  return { keyring, token, claims, identities, clock, requests, steps, life, seconds }
}

describe('an identity', () => {
  it.each(['RS256', 'EdDSA'] as const)('that is signed with %s tells who the workload is', async (algorithm) => {
    const { identities, keyring, token } = given()
    keyring.rotate(algorithm)
    expect(await identities.workload(token())).toEqual(ME)
  })

  it('for several audiences, or without an expiry, is as good', async () => {
    const { identities, token } = given()
    expect(await identities.workload(token({ aud: ['consul.io', 'lockkeeper'] }))).toEqual(ME)
    expect(await identities.workload(token({ exp: undefined }))).toEqual(ME)
  })

  it('may differ from our clock by ten seconds, and not by more', async () => {
    const { identities, token, seconds } = given()
    for (const good of [{ exp: seconds() - 9 }, { nbf: seconds() + 9 }])
      expect(await identities.workload(token(good))).toEqual(ME)
    await thenRejects(identities.workload(token({ exp: seconds() - 11 })), 'unauthorized', 'it has expired')
    await thenRejects(identities.workload(token({ nbf: seconds() + 11 })), 'unauthorized', 'claim nbf')
  })

  it.each([
    [{ aud: 'nomadproject.io' }, 'audience lockkeeper'],
    [{ aud: ['lockkeeper2', 'lock'] }, 'audience lockkeeper'],
    [{ aud: undefined }, 'audience lockkeeper'],
    [{ nomad_task: undefined }, 'lacks the claim nomad_task'],
    [{ nomad_allocation_id: '' }, 'lacks the claim nomad_allocation_id'],
    [{ nomad_namespace: 7 }, 'lacks the claim nomad_namespace'],
    [{ sub: undefined }, 'lacks the claim sub'],
    [{ sub: 'global:default:other:api:app:lockkeeper' }, 'its subject'],
    [{ exp: 'tomorrow' }, 'claim exp'],
  ])('with %j is refused', async (more, text) => {
    const { identities, token } = given()
    await thenRejects(identities.workload(token(more)), 'unauthorized', text)
  })
})

describe('the keys', () => {
  it('are asked for once, for however many calls at once', async () => {
    const { identities, token, requests, clock } = given()
    await Promise.all([1, 2, 3].map(() => identities.workload(token())))
    await clock.advance(60 * SECOND)
    await identities.workload(token())
    expect(requests.map(({ path }) => path)).toEqual(['/.well-known/jwks.json?namespace=default'])
    expect(clock.pending).toBe(0)
  })

  it('are asked for again at once for a key that is unknown', async () => {
    const { identities, keyring, token, clock, requests } = given()
    const old = token()
    await identities.workload(old)
    await clock.advance(10 * SECOND)
    keyring.rotate()
    expect(await identities.workload(token())).toEqual(ME)
    expect(await identities.workload(old)).toEqual(ME)
    expect(requests).toHaveLength(2)
  })

  it('are asked for every two seconds at most, whatever keys the tokens name, and a new one is found all the same', async () => {
    const { identities, keyring, token, claims, clock, requests } = given()
    await identities.workload(token())
    const forged = Array.from({ length: 5 }, () =>
      identities.workload(new Keyring(randomUUID).sign(claims())).catch((error: Error) => error.message),
    )
    await clock.advance(1_900)
    expect(requests).toHaveLength(1)
    keyring.rotate()
    const good = identities.workload(token())
    await clock.advance(100)
    expect(await good).toEqual(ME)
    for (const text of await Promise.all(forged)) expect(text).toContain('none of the keys that Nomad publishes')
    expect(requests).toHaveLength(2)
  })

  it('that are on their way do not count for a key that may be newer', async () => {
    let answer = () => {}
    const { identities, keyring, token, clock, requests, steps } = given()
    const early = identities.workload(token())
    await early
    await clock.advance(10 * SECOND)
    steps.unshift((request) => {
      const then = reply(200, { keys: keyring.published })(request)
      return new Promise((resolve) => (answer = () => resolve(then)))
    })
    keyring.rotate()
    const second = identities.workload(token())
    await settle()
    await clock.advance(3 * SECOND)
    keyring.rotate()
    const third = identities.workload(token())
    answer()
    await clock.advance(0)
    expect([await second, await third]).toEqual([ME, ME])
    expect(requests).toHaveLength(3)
  })

  it('that are known go on while Nomad does not answer; for others nothing can be told', async () => {
    const { identities, keyring, token, clock, steps } = given()
    const old = token()
    await identities.workload(old)
    steps.unshift(...Array.from({ length: 8 }, () => silent))
    await clock.advance(10 * SECOND)
    keyring.rotate()
    const unknown = identities.workload(token())
    const refused = thenRejects(unknown, 'nomad_unavailable', 'keys')
    await settle()
    expect(await identities.workload(old)).toEqual(ME)
    await clock.advance(5 * SECOND)
    await refused
  })

  it('that are old are asked for again: one that Nomad has withdrawn is worth nothing', async () => {
    const { identities, keyring, token, clock } = given()
    const old = token({ exp: undefined })
    await identities.workload(old)
    const [withdrawn] = keyring.published as [{ kid: string }]
    keyring.rotate()
    keyring.forget(withdrawn.kid)
    await clock.advance(301 * SECOND)
    const refused = thenRejects(identities.workload(old), 'unauthorized', 'none of the keys')
    await clock.advance(2 * SECOND)
    await refused
  })

  it('that are old go on, without delay for those who come later, while Nomad does not answer', async () => {
    const { identities, token, clock, steps } = given()
    const old = token({ exp: undefined })
    await identities.workload(old)
    await clock.advance(301 * SECOND)
    steps.unshift(...Array.from({ length: 8 }, () => silent))
    const first = identities.workload(old)
    await settle()
    expect(await identities.workload(old)).toEqual(ME)
    await clock.advance(5 * SECOND)
    expect(await first).toEqual(ME)
  })

  it.each([
    ['none', reply(200, { keys: [] })],
    ['no JSON', reply(200, '')],
    ['no keys', reply(200, { keys: 'many' })],
    ['a refusal', reply(500, 'no such thing')],
  ])('that cannot be read are no answer of Nomad: %s', async (_, step) => {
    const { identities, token, clock } = given([step])
    await thenRejects(identities.workload(token()), 'nomad_unavailable', 'keys that identities are signed with')
    await clock.advance(2 * SECOND)
    expect(await identities.workload(token())).toEqual(ME)
  })

  it('are not waited for when the replica ends', async () => {
    const { identities, token, life } = given([silent])
    const call = identities.workload(token())
    await settle()
    life.abort(new Error('over'))
    await expect(call).rejects.toThrow('over')
  })
})
