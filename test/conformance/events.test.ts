// The event stream, over HTTP: what it says, to whom, and how it ends.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, type Answered } from './exchange.ts'
import { hasAcl, nomadUnderTest, type NomadUnderTest } from './nomad-under-test.ts'

interface Line {
  readonly Index?: number
  readonly Events?: readonly {
    readonly Topic: string
    readonly Type: string
    readonly Key: string
    readonly Namespace: string
    readonly Payload: {
      readonly Deleted: boolean
      readonly Metadata: { readonly Lock?: { readonly ID: string }; readonly Path: string }
    }
  }[]
}

const ID = 'aaaaaaaa-0000-4000-8000-0000000000e1'

describe.skipIf(!hasAcl)('the event stream', () => {
  let nomad: NomadUnderTest
  let lister = ''
  const send = (method: string, path: string, body: unknown = null, token = nomad.token): Promise<Answered> =>
    nomad.during(ask(nomad.address, { method, path, body }, token))

  /** The lines that come until `enough`, or until nothing has come for a while. */
  async function lines(query: string, token: string, enough: (lines: readonly Line[]) => boolean): Promise<Line[]> {
    const control = new AbortController()
    const headers = { 'x-nomad-token': token }
    const answer = await nomad.during(fetch(`${nomad.address}/v1/event/stream${query}`, { headers, signal: control.signal }))
    expect(answer.status).toBe(200)
    const found: Line[] = []
    let rest = ''
    const quiet = setTimeout(() => control.abort(), 1_000)
    try {
      for await (const chunk of answer.body ?? []) {
        rest += Buffer.from(chunk as Uint8Array).toString()
        const whole = rest.split('\n')
        rest = whole.pop() ?? ''
        found.push(...whole.filter((line) => line !== '').map((line) => JSON.parse(line) as Line))
        if (enough(found)) break
      }
    } catch (error) {
      if (!control.signal.aborted) throw error
    } finally {
      clearTimeout(quiet)
      control.abort()
    }
    return found
  }
  const eventsOf = (all: readonly Line[]) => all.flatMap(({ Events }) => Events ?? [])

  beforeAll(async () => {
    nomad = await nomadUnderTest({ acl: true })
    const Rules = 'namespace "default" { variables { path "ev/*" { capabilities = ["list"] } } }'
    await send('PUT', '/v1/acl/policy/ev', { Name: 'ev', Rules })
    const { body } = await send('PUT', '/v1/acl/token', { Name: 'ev', Type: 'client', Policies: ['ev'] })
    lister = (body as { SecretID: string }).SecretID
    await send('PUT', '/v1/var/ev/a', { Items: { a: '1' } })
    await send('PUT', '/v1/var/ev/a?lock-acquire', { Lock: { ID, TTL: '10s', LockDelay: '1ms' } })
    await send('PUT', '/v1/var/ev/a?lock-release', { Lock: { ID } })
    await send('PUT', '/v1/var/elsewhere', { Items: { a: '1' } })
    await send('DELETE', '/v1/var/ev/a')
    await send('DELETE', '/v1/var/elsewhere')
  })
  afterAll(async () => {
    await send('DELETE', '/v1/acl/policy/ev')
    await nomad.close()
  })

  it('begins with a heartbeat and replays what is remembered, also the ID of a lock to who may only list', async () => {
    const all = await lines('?topic=Variable:ev/a', lister, (found) => eventsOf(found).length >= 4)
    expect(all[0]).toEqual({})
    const events = eventsOf(all)
    const indexes = all.flatMap(({ Index }) => Index ?? [])
    expect(indexes).toEqual(indexes.toSorted((a, b) => a - b))
    expect(events.slice(-4)).toMatchObject([
      { Topic: 'Variable', Type: 'VariableUpdated', Key: 'ev/a', Namespace: 'default', Payload: { Deleted: false } },
      { Payload: { Deleted: false, Metadata: { Path: 'ev/a', Lock: { ID, TTL: '10s', LockDelay: '1ms' } } } },
      { Payload: { Deleted: false } },
      { Payload: { Deleted: true } },
    ])
    expect(events.at(-2)?.Payload.Metadata).not.toHaveProperty('Lock')
    expect(events.at(-2)?.Payload.Metadata).not.toHaveProperty('Items')
  })

  it('shows a path to nobody who may not list it', async () => {
    const all = await lines('?topic=Variable', lister, () => false)
    expect(eventsOf(all).map(({ Key }) => Key)).not.toContain('elsewhere')
    const everything = await lines('?topic=Variable', nomad.token, (found) =>
      eventsOf(found).some(({ Key }) => Key === 'elsewhere'),
    )
    expect(eventsOf(everything).map(({ Key }) => Key)).toContain('elsewhere')
  })

  it('begins at an index', async () => {
    const first = await lines('?topic=Variable:ev/a', lister, (found) => eventsOf(found).length >= 4)
    const from = first.at(-2)?.Index ?? 0
    const all = await lines(`?topic=Variable:ev/a&index=${from}`, lister, (found) => eventsOf(found).length >= 2)
    expect(all.flatMap(({ Index }) => Index ?? [])).toEqual([from, first.at(-1)?.Index])
  })

  it('is 200 and silence for who may not listen', async () => {
    expect(await lines('?topic=Variable', '', () => false)).toEqual([])
    expect(await lines('?topic=Node', lister, () => false)).toEqual([])
    expect(await lines('?topic=Variable&namespace=none', lister, () => false)).toEqual([])
  })

  it('refuses an index that is none', async () => {
    const answer = await send('GET', '/v1/event/stream?topic=Variable&index=x')
    expect(answer).toMatchObject({ status: 400, body: 'Unable to parse index: strconv.Atoi: parsing "x": invalid syntax' })
  })
})
