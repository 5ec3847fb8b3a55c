// Needs a Nomad with ACLs: of a real one, the management's token.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, recorded, type Answered } from './exchange.ts'
import { identified } from './jobs.ts'
import { hasAcl, nomadUnderTest, type NomadUnderTest } from './nomad-under-test.ts'
import { shapeOf } from './shape.ts'

const LK = `namespace "default" {
  capabilities = ["read-job", "alloc-lifecycle"]
  variables { path "lockkeeper/*" { capabilities = ["read", "list", "write", "destroy"] } }
}`
const RO = `namespace "default" { variables { path "lockkeeper/*" { capabilities = ["read", "list"] } } }`
const WO = `namespace "default" { variables { path "wo/*" { capabilities = ["write"] } } }`

interface RecordedJob {
  readonly TaskGroups: readonly { readonly Constraints: unknown; readonly Services: readonly object[] }[]
}

/** A recorded job without what the double leaves out: the constraints that Nomad adds by itself, the host network of a
 *  port, and the namespace that each service repeats. */
function shown(job: RecordedJob): object {
  const TaskGroups = job.TaskGroups.map(({ Constraints: _constraints, Services, ...group }) => ({
    ...group,
    Networks: null,
    Services: Services.map(({ Namespace: _namespace, ...service }: { Namespace?: string }) => service),
  }))
  return { ...job, TaskGroups }
}

describe.skipIf(!hasAcl)('with ACLs', () => {
  let nomad: NomadUnderTest
  const tokens = new Map<string, string>([
    ['none', ''],
    ['bad', '11111111-2222-4333-8444-555555555555'],
  ])
  const as = (who: string, method: string, path: string, body: unknown = null): Promise<Answered> =>
    nomad.during(ask(nomad.address, { method, path, body }, tokens.get(who)))
  const policy = (name: string, rules: string, JobACL: object | null = null): Promise<Answered> =>
    as('mgmt', 'PUT', `/v1/acl/policy/${name}`, { Name: name, Description: '', Rules: rules, JobACL })
  const token = async (name: string, ...policies: string[]): Promise<void> => {
    const { body } = await as('mgmt', 'PUT', '/v1/acl/token', { Name: name, Type: 'client', Policies: policies })
    tokens.set(name, (body as { SecretID: string }).SecretID)
  }
  const running = async (): Promise<string> => {
    const all = await nomad.until(
      async () => (await as('mgmt', 'GET', '/v1/job/chk/allocations')).body as { ID: string; ClientStatus: string }[],
      ([one]) => one?.ClientStatus === 'running',
    )
    return all[0]?.ID as string
  }

  beforeAll(async () => {
    nomad = await nomadUnderTest({ acl: true })
    tokens.set('mgmt', nomad.token)
    await policy('lk', LK)
    await policy('ro', RO)
    await policy('wo', WO)
    await token('lk', 'lk')
    await token('ro', 'ro')
    await token('wo', 'wo')
    await as('mgmt', 'DELETE', '/v1/var/lockkeeper/wi')
    await as('mgmt', 'PUT', '/v1/var/t/one', { Items: { a: '1' } })
    await as('mgmt', 'PUT', '/v1/var/nomad/jobs/chk', { Items: { v: '1' } })
    await as('mgmt', 'PUT', '/v1/jobs', { Job: identified })
    const alloc = await running()
    const jwt = await nomad.until(
      () => nomad.identity(alloc, 'app', 'lockkeeper'),
      (text) => text.startsWith('ey'),
    )
    tokens.set('wi', jwt)
  })
  afterAll(async () => {
    const ID = 'aaaaaaaa-0000-4000-8000-00000000000'
    await as('mgmt', 'PUT', '/v1/var/lockkeeper/x?lock-release', { Lock: { ID: `${ID}a` } })
    await as('mgmt', 'PUT', '/v1/var/lockkeeper/wi?lock-release', { Lock: { ID: `${ID}c` } })
    await as('mgmt', 'DELETE', '/v1/job/chk?purge=true')
    for (const path of ['lockkeeper/x', 'lockkeeper/wi', 't/one', 'nomad/jobs/chk', 'wo/x']) {
      await as('mgmt', 'DELETE', `/v1/var/${path}`)
    }
    for (const name of ['lk', 'ro', 'wo', 'wi']) await as('mgmt', 'DELETE', `/v1/acl/policy/${name}`)
    await nomad.close()
  })

  for (const { name, who = 'none', request, response } of recorded('acl')) {
    it(`answers as recorded: ${name}`, async () => {
      if (name === 'wi with policy acquire') {
        const rules = LK.replace('"alloc-lifecycle"', '"list-jobs"')
        await policy('wi', rules, { Namespace: 'default', JobID: 'chk' })
      }
      if (name === 'malformed token') tokens.set('bad', 'nonsense')
      const answer = await as(who, request.method, request.path, request.body)
      expect({ status: answer.status, contentType: answer.contentType }, JSON.stringify(answer.body)).toEqual({
        status: response.status,
        contentType: response.contentType,
      })
      const index = (text: string | null): string => (text === null || text === '0' ? String(text) : 'an index')
      expect(index(answer.nomadIndex)).toBe(index(response.nomadIndex))
      if (name === 'wi with policy read job') expect(shapeOf(answer.body)).toContainShape(shown(response.body as RecordedJob))
      else if (typeof response.body === 'string') expect(answer.body).toBe(response.body)
      else expect(shapeOf(answer.body)).toContainShape(response.body)
      if (who !== 'mgmt' && request.method === 'GET') expect(JSON.stringify(answer.body)).not.toContain('"Lock"')
    })
  }

  it('the published keys have an index of their own', async () => {
    const index = async (): Promise<number> => Number((await as('none', 'GET', '/.well-known/jwks.json')).nomadIndex)
    const before = await index()
    expect(before).toBeGreaterThan(0)
    const written = await as('mgmt', 'PUT', '/v1/var/t/one', { Items: { a: '1' } })
    expect(before).toBeLessThan(Number(written.nomadIndex))
    expect(await index()).toBe(before)
  })

  it('who may write but not read learns of a conflict, not of the content', async () => {
    await as('mgmt', 'PUT', '/v1/var/wo/x', { Items: { a: 'secret' } })
    const conflict = await as('wo', 'PUT', '/v1/var/wo/x?cas=0', { Items: { a: '1' } })
    expect(conflict).toMatchObject({ status: 409, body: { Path: 'wo/x' } })
    expect(conflict.body).not.toHaveProperty('Items')
    expect((conflict.body as { ModifyIndex: number }).ModifyIndex).toBeGreaterThan(0)
    expect((await as('wo', 'GET', '/v1/var/wo/x')).status).toBe(403)
    expect((await as('wo', 'DELETE', '/v1/var/wo/x')).status).toBe(403)
  })

  it('a set may create a lock, and its answer shows it to who named its ID', async () => {
    const set = { Items: { a: '1' }, Lock: { ID: 'aaaaaaaa-0000-4000-8000-00000000000d' } }
    expect((await as('lk', 'PUT', '/v1/var/lockkeeper/own', set)).body).toHaveProperty('Lock')
    await as('lk', 'PUT', '/v1/var/lockkeeper/own?lock-release', { Lock: set.Lock })
    await as('lk', 'DELETE', '/v1/var/lockkeeper/own')
  })

  it('without any right on its namespace an allocation is unknown, with a 500', async () => {
    const alloc = await running()
    const answer = await as('ro', 'GET', `/v1/allocation/${alloc}`)
    expect(answer).toMatchObject({ status: 500, body: `Unknown allocation "${alloc}"` })
    expect((await as('lk', 'GET', `/v1/allocation/${alloc}`)).status).toBe(200)
  })

  it('each call needs its right', async () => {
    const alloc = await running()
    const [node] = (await as('mgmt', 'GET', '/v1/nodes')).body as { ID: string }[]
    const statuses = async (who: string): Promise<number[]> => {
      const paths = ['/v1/jobs', '/v1/jobs?namespace=*', '/v1/job/chk', '/v1/job/chk/allocations', '/v1/job/chk/deployments']
      const more = ['/v1/allocations', '/v1/nodes', `/v1/node/${node?.ID}`, '/v1/agent/self', '/v1/operator/autopilot/health']
      const last = ['/v1/namespace/default', '/v1/status/leader', `/v1/client/allocation/${alloc}/checks`]
      const found: number[] = []
      for (const path of [...paths, ...more, ...last]) found.push((await as(who, 'GET', path)).status)
      return found
    }
    expect(await statuses('none')).toEqual([403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 403, 200, 403])
    expect(await statuses('lk')).toEqual([403, 403, 200, 200, 200, 200, 403, 403, 403, 403, 200, 200, 200])
    expect(await statuses('mgmt')).toEqual(Array(13).fill(200))
    const writes = async (who: string): Promise<number[]> => {
      const drain = await as(who, 'PUT', `/v1/node/${node?.ID}/drain`, { DrainSpec: null })
      const register = await as(who, 'PUT', '/v1/jobs', { Job: identified })
      const restart = await as(who, 'PUT', `/v1/client/allocation/${alloc}/restart`, { TaskName: 'none' })
      return [drain.status, register.status, restart.status]
    }
    expect(await writes('none')).toEqual([403, 403, 403])
    expect(await writes('lk')).toEqual([403, 403, 500])
  })

  it('files are for who may read them, their names and dates too', async () => {
    const alloc = await running()
    for (const what of ['ls', 'stat']) {
      const path = `/v1/client/fs/${what}/${alloc}?path=/app/local`
      expect(await as('lk', 'GET', path)).toMatchObject({ status: 403, body: 'Permission denied' })
      expect((await as('mgmt', 'GET', path)).status).toBe(200)
    }
  })

  it('only what may be seen is in a list of namespaces, and nobody needs a right to ask', async () => {
    expect((await as('none', 'GET', '/v1/namespaces')).body).toEqual([])
    expect((await as('lk', 'GET', '/v1/namespaces')).body).toMatchObject([{ Name: 'default' }])
  })

  it('tokens and policies are for the management; one may ask who one is', async () => {
    expect((await as('lk', 'GET', '/v1/acl/token/self')).body).toMatchObject({ Name: 'lk', Policies: ['lk'] })
    expect((await as('none', 'GET', '/v1/acl/token/self')).body).toMatchObject({ AccessorID: 'anonymous' })
    expect(await as('bad', 'GET', '/v1/acl/token/self')).toMatchObject({ status: 500 })
    tokens.set('bad', '11111111-2222-4333-8444-555555555555')
    expect((await as('bad', 'GET', '/v1/acl/token/self')).status).toBe(403)
    expect((await as('lk', 'PUT', '/v1/acl/token', { Type: 'management' })).status).toBe(403)
    expect((await as('lk', 'PUT', '/v1/acl/policy/z', { Name: 'z', Rules: LK })).status).toBe(403)
    expect((await as('none', 'POST', '/v1/acl/bootstrap')).status).toBe(400)
    const bad = await policy('bad', 'namespace "default" { capabilities = ["x"] }')
    expect(bad.status).toBe(400)
    expect(bad.body).toContain("failed to parse rules: Invalid namespace capability 'x'")
    const none = await as('mgmt', 'PUT', '/v1/acl/token', { Name: 'x', Type: 'client' })
    expect(none).toMatchObject({
      status: 400,
      body: 'token 0 invalid: 1 error occurred:\n\t* client token missing policies or roles\n\n',
    })
  })
})
