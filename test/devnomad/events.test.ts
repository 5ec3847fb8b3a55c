import { afterEach, describe, expect, it } from 'vitest'
import { settle } from '../support/manual-clock.ts'
import { given, webJob, World } from './given.ts'

interface Line {
  readonly Index?: number
  readonly Events?: readonly { readonly Topic: string; readonly Type: string; readonly Key: string; readonly Payload: object }[]
}

describe('the event stream', () => {
  let world: World
  const leaving: AbortController[] = []
  afterEach(async () => {
    for (const one of leaving.splice(0)) one.abort()
    await settle()
    await world.close()
  })
  const set = (path: string) => world.ask('PUT', `/v1/var/${path}`, { Items: { a: '1' } })

  /** Listens until it ends; what has come so far. */
  async function listen(query: string): Promise<{ lines: Line[]; over: () => boolean }> {
    const caller = new AbortController()
    leaving.push(caller)
    const { stream } = await world.ask('GET', `/v1/event/stream${query}`, undefined, caller.signal)
    const lines: Line[] = []
    let over = false
    void (async () => {
      for await (const text of stream ?? []) lines.push(JSON.parse(text) as Line)
      over = true
    })()
    await settle()
    return { lines, over: () => over }
  }

  it('tells of jobs, evaluations, allocations, deployments and nodes', async () => {
    world = await given(webJob({ count: 1 }))
    const { lines } = await listen('')
    const topics = new Set(lines.flatMap(({ Events }) => Events ?? []).map(({ Topic }) => Topic))
    expect(topics).toEqual(new Set(['Node', 'Job', 'Evaluation', 'Allocation', 'Deployment']))
    const allocations = lines.flatMap(({ Events }) => Events ?? []).filter(({ Topic }) => Topic === 'Allocation')
    expect(allocations.at(-1)?.Payload).toMatchObject({ Allocation: { ClientStatus: 'running', JobID: 'web' } })
    expect(allocations[0]?.Payload).toMatchObject({ Allocation: { ClientStatus: 'pending' } })
  })

  it('beats every 30 seconds, and tells at once', async () => {
    world = new World()
    const { lines } = await listen('?topic=Variable')
    expect(lines).toEqual([{}])
    await world.clock.advance(30_000)
    expect(lines).toEqual([{}, {}])
    await set('a')
    await settle()
    expect(lines[2]?.Events).toMatchObject([{ Topic: 'Variable', Key: 'a' }])
  })

  it('may end without an error, and its successor may have a gap', async () => {
    world = new World()
    const before = await listen('?topic=Variable')
    await set('a')
    await settle()
    world.nomad.endEventStreams({ forget: true })
    await settle()
    expect(before.over()).toBe(true)
    await set('b')
    const after = await listen(`?topic=Variable&index=${before.lines[1]?.Index}`)
    expect(after.lines.slice(1).map(({ Events }) => Events?.[0]?.Key)).toEqual(['b'])
  })

  it('forgets the oldest without a word, and begins with the last for who asks for the future', async () => {
    world = new World({ eventBufferSize: 3 })
    for (const path of ['a', 'b', 'c', 'd', 'e']) await set(path)
    const keys = async (query: string): Promise<unknown[]> =>
      (await listen(query)).lines.slice(1).map(({ Events }) => Events?.[0]?.Key)
    expect(await keys('?topic=Variable&index=1')).toEqual(['c', 'd', 'e'])
    expect(await keys('?topic=Variable&index=999999')).toEqual(['e'])
  })

  it('ends when its token is taken away', async () => {
    world = new World({ acl: true })
    const management = world.nomad.acl.bootstrap() as { SecretID: string }
    world.nomad.acl.putPolicy({
      Name: 'l',
      Description: '',
      Rules: 'namespace "default" { variables { path "*" { capabilities = ["list"] } } }',
      JobACL: null,
    })
    const token = world.nomad.acl.putToken({ Name: 'l', Type: 'client', Policies: ['l'] })
    const caller = new AbortController()
    leaving.push(caller)
    const headers = { 'X-Nomad-Token': token.SecretID }
    const { stream } = await world.nomad.handle({
      method: 'GET',
      path: '/v1/event/stream?topic=Variable',
      headers,
      signal: caller.signal,
    })
    const write = (path: string) =>
      world.nomad.handle({
        method: 'PUT',
        path: `/v1/var/${path}`,
        headers: { 'X-Nomad-Token': management.SecretID },
        body: '{"Items":{"a":"1"}}',
      })
    const seen: string[] = []
    const reading = (async () => {
      for await (const text of stream ?? []) seen.push(text)
    })()
    await write('a')
    await settle()
    world.nomad.acl.deleteToken(token)
    await write('b')
    await reading
    expect(seen).toHaveLength(2)
  })
})
