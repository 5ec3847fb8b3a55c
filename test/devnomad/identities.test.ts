import { createPublicKey, verify } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { parsePolicy } from '../../src/devnomad/acl/policy.ts'
import { Rights } from '../../src/devnomad/acl/rights.ts'
import { given, World, webJob } from './given.ts'

interface Jwks {
  readonly keys: readonly { readonly kid: string; readonly alg: string; readonly kty: string }[]
}

describe('workload identities', () => {
  let world: World
  afterEach(() => world.close())
  const jwks = (): Promise<Jwks> => world.get('/.well-known/jwks.json')
  const token = async (): Promise<string> => world.nomad.identity((await world.first()).ID, 'app')

  /** Whether one of the published keys has signed it. */
  async function isSigned(jwt: string): Promise<boolean> {
    const [head = '', payload = '', signature = ''] = jwt.split('.')
    const { kid } = JSON.parse(Buffer.from(head, 'base64url').toString()) as { kid: string }
    const key = (await jwks()).keys.find((one) => one.kid === kid)
    if (key === undefined) return false
    const publicKey = createPublicKey({ key: key as never, format: 'jwk' })
    const hash = key.alg === 'RS256' ? 'sha256' : null
    return verify(hash, Buffer.from(`${head}.${payload}`), publicKey, Buffer.from(signature, 'base64url'))
  }

  it('are verified with the published keys, also after a rotation and with another algorithm', async () => {
    world = await given()
    const first = await token()
    expect((await jwks()).keys).toMatchObject([{ kty: 'RSA', alg: 'RS256' }])
    expect(await isSigned(first)).toBe(true)
    const old = (await jwks()).keys[0]?.kid as string
    world.nomad.keyring.rotate('EdDSA')
    const second = await token()
    expect((await jwks()).keys).toMatchObject([{ alg: 'RS256' }, { kty: 'OKP', alg: 'EdDSA' }])
    expect([await isSigned(first), await isSigned(second)]).toEqual([true, true])
    world.nomad.keyring.forget(old)
    expect([await isSigned(first), await isSigned(second)]).toEqual([false, true])
  })

  it('are worth nothing when their key is forgotten, their time is over, or their allocation is', async () => {
    world = new World({ acl: true })
    const job = webJob({ count: 1 })
    const [group] = job.TaskGroups as [{ Tasks: object[] }]
    const Identities = [{ Name: 'lk', Audience: ['lk'], TTL: 60e9 }]
    world.nomad.registerJob({ ...job, TaskGroups: [{ ...group, Tasks: [{ ...group.Tasks[0], Identities }] }] })
    await world.clock.advance(20_000)
    const management = world.nomad.acl.bootstrap() as { SecretID: string }
    const as = async (secret: string, method: string, path: string): Promise<{ status: number; body: string }> =>
      world.nomad.handle({ method, path, headers: { 'x-nomad-token': secret } })
    const [alloc] = JSON.parse((await as(management.SecretID, 'GET', '/v1/job/web/allocations')).body) as { ID: string }[]
    const read = async (secret: string): Promise<number> => (await as(secret, 'GET', '/v1/var/nomad/jobs/web')).status
    const named = world.nomad.identity(alloc?.ID ?? '', 'app', 'lk')
    const plain = world.nomad.identity(alloc?.ID ?? '', 'app')
    expect(await read(named)).toBe(404)
    await world.clock.advance(61_000)
    expect([await read(named), await read(plain)]).toEqual([403, 404])
    const [key] = JSON.parse((await as('', 'GET', '/.well-known/jwks.json')).body).keys as { kid: string }[]
    world.nomad.keyring.rotate()
    world.nomad.keyring.forget(key?.kid ?? '')
    expect(await read(plain)).toBe(403)
    const fresh = world.nomad.identity(alloc?.ID ?? '', 'app')
    expect(await read(fresh)).toBe(404)
    await as(management.SecretID, 'DELETE', '/v1/job/web')
    await world.clock.advance(5_000)
    expect(await read(fresh)).toBe(403)
  })

  it('may list the variables of their own job, group and task without any policy, and no others', async () => {
    world = new World({ acl: true })
    world.nomad.registerJob(webJob({ count: 1 }))
    await world.clock.advance(20_000)
    const management = world.nomad.acl.bootstrap() as { SecretID: string }
    const as = async (secret: string, method: string, path: string, body = ''): Promise<string> =>
      (await world.nomad.handle({ method, path, body, headers: { 'x-nomad-token': secret } })).body
    const own = ['nomad/jobs', 'nomad/jobs/web', 'nomad/jobs/web/g', 'nomad/jobs/web/g/app']
    for (const path of [...own, 'nomad/jobs/web/g/other', 'nomad/jobs/web2', 'else']) {
      await as(management.SecretID, 'PUT', `/v1/var/${path}`, JSON.stringify({ Items: { a: '1' } }))
    }
    const [alloc] = JSON.parse(await as(management.SecretID, 'GET', '/v1/job/web/allocations')) as { ID: string }[]
    const listed = JSON.parse(await as(world.nomad.identity(alloc?.ID ?? '', 'app'), 'GET', '/v1/vars')) as { Path: string }[]
    expect(listed.map(({ Path }) => Path)).toEqual(own)
  })
})

describe('a policy', () => {
  it('of ours is understood', () => {
    const folder = new URL('../../deploy/acl/', import.meta.url)
    const files = readdirSync(folder).filter((name) => name.endsWith('.policy.hcl'))
    expect(files.length).toBeGreaterThan(0)
    for (const name of files) {
      expect(parsePolicy(readFileSync(new URL(name, folder), 'utf8')).namespaces.length, name).toBeGreaterThan(0)
    }
  })

  it("on variables of a namespace is one on those whose name is its beginning, where Nomad asks for any: Nomad's own fault", () => {
    const rules = parsePolicy('namespace "team2" { variables { path "*" { capabilities = ["list"] } } }')
    const rights = new Rights(false, [rules])
    expect([rights.anyVariable('team2'), rights.anyVariable('team'), rights.anyVariable('team22')]).toEqual([true, true, false])
    expect(rights.variable('team', 'a', 'list')).toBe(false)
  })

  it('gives what its closest rule says', async () => {
    const world = new World({ acl: true })
    const rules = `
      # comments are allowed
      namespace "default" { policy = "read" }
      namespace "team-*" { capabilities = ["submit-job"] }
      namespace "team-x" { capabilities = ["deny"] }
      namespace "default" {
        variables {
          path "a/*" { capabilities = ["read"] }
          path "a/b/*" { capabilities = ["write"] }
          path "a/b/c" { capabilities = ["deny"] }
        }
      }
      node { policy = "read" }
      agent { policy = "deny" }`
    world.nomad.acl.putPolicy({ Name: 'p', Description: '', Rules: rules, JobACL: null })
    const { SecretID } = world.nomad.acl.putToken({ Name: 'p', Type: 'client', Policies: ['p'] })
    const rights = world.nomad.acl.rightsOf(SecretID)
    const variable = (path: string): boolean[] =>
      (['read', 'list', 'write', 'destroy'] as const).map((one) => rights?.variable('default', path, one) ?? false)
    expect(variable('a/x')).toEqual([true, true, false, false])
    expect(variable('a/b/x')).toEqual([false, false, true, false])
    expect(variable('a/b/c')).toEqual([false, false, false, false])
    expect(variable('b')).toEqual([false, false, false, false])
    expect([rights?.namespace('default', 'read-job'), rights?.namespace('default', 'submit-job')]).toEqual([true, false])
    expect([rights?.namespace('team-y', 'submit-job'), rights?.namespace('team-x', 'submit-job')]).toEqual([true, false])
    expect([rights?.level('node', 'read'), rights?.level('node', 'write'), rights?.level('agent', 'read')]).toEqual([
      true,
      false,
      false,
    ])
    await world.close()
  })
})
