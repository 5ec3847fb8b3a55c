import { describe, expect, it } from 'vitest'
import { NomadFault } from '../../src/core/nomad-fault.ts'
import type { Call } from '../../src/nomad/client.ts'
import { broken, ended, refused, reply, scripted, silent } from './support.ts'

const READ: Call = { what: 'variable.get', method: 'GET', path: '/v1/var/a' }
const WRITE: Call = { what: 'variable.put', method: 'PUT', path: '/v1/var/a', body: { Items: { a: '1' } } }
const THREE = { NOMAD_ADDR: 'http://a:4646,http://b:4646,http://c:4646' }
const NO_LEADER = reply(500, 'No cluster leader')
const OK = reply(200, {})

const fault = (kind: NomadFault['kind'], maybeDone: boolean, text: string | RegExp = '') =>
  expect.objectContaining({ name: 'NomadFault', kind, maybeDone, message: expect.stringMatching(text) as string }) as Error

describe('where a call goes', () => {
  it('a read finds the server that answers, and later calls go there at once', async () => {
    const { client, requests } = scripted([refused, broken, OK, OK], THREE)
    await client.call(READ)
    await client.call(READ)
    expect(requests.map(({ address }) => address)).toEqual(['http://a:4646', 'http://b:4646', 'http://c:4646', 'http://c:4646'])
  })

  it('two calls that fail at the same server move on by one server, not by two', async () => {
    const { client, requests } = scripted([broken, broken, OK, OK], THREE)
    await Promise.all([client.call(READ), client.call(READ)])
    expect(requests.map(({ address }) => address.slice(7, 8)).join('')).toBe('aabb')
  })

  it('a call that fails late does not lead the others back', async () => {
    const { client, clock, requests } = scripted([silent, refused, refused, OK, OK], THREE)
    const late = client.call(READ)
    await clock.advance(1)
    await client.call(READ)
    await clock.advance(5_000)
    await late
    expect(requests.map(({ address }) => address.slice(7, 8)).join('')).toBe('aabcc')
  })

  it('namespace and region are always sent, and a call may name another namespace', async () => {
    const { client, requests } = scripted([OK, OK], { NOMAD_NAMESPACE: 'ops', NOMAD_REGION: 'eu' })
    await client.call(READ)
    await client.call({ ...READ, namespace: 'web & co', query: { prefix: 'a/' } })
    expect(requests.map(({ path }) => path)).toEqual([
      '/v1/var/a?namespace=ops&region=eu',
      '/v1/var/a?namespace=web+%26+co&region=eu&prefix=a%2F',
    ])
  })

  it('a 404 "No path to node" is the same from every server, so it is asked once', async () => {
    const { client, requests } = scripted([reply(404, 'No path to node')], THREE)
    await expect(client.call(READ)).rejects.toEqual(fault('unavailable', false, /No path to node/))
    expect(requests).toHaveLength(1)
  })
})

describe('what is repeated', () => {
  it('M1: of a call with a bound nothing is sent after it, however often it is tried', async () => {
    const { client, clock, requests } = scripted([refused, refused, refused, OK])
    const work = ended(client.call({ ...WRITE, boundMs: 120 }))
    await clock.advance(5_000)
    expect(await work).toMatchObject({ error: fault('unavailable', false) })
    expect(requests.length).toBeLessThan(4)
    const other = scripted([silent])
    const late = ended(other.client.call({ ...WRITE, boundMs: 8_000 }))
    await other.clock.advance(7_999)
    expect(other.clock.pending).toBeGreaterThan(0)
    await other.clock.advance(1)
    expect(await late).toMatchObject({ error: fault('unavailable', true, /within 8000 ms/) })
  })

  it('a read is tried again with a growing pause, four times in all', async () => {
    const { client, clock, requests } = scripted([NO_LEADER, broken, NO_LEADER, NO_LEADER])
    const work = ended(client.call(READ))
    for (const [wait, sent] of [
      [0, 1],
      [49, 1],
      [1, 2],
      [99, 2],
      [1, 3],
      [199, 3],
      [1, 4],
    ] as const) {
      await clock.advance(wait)
      expect(requests).toHaveLength(sent)
    }
    expect(await work).toEqual({ error: fault('unavailable', false, 'variable.get: Nomad answers 500 No cluster leader') })
    expect(clock.pending).toBe(0)
  })

  it('chance makes the pause up to twice as long', async () => {
    const { client, clock, requests } = scripted([refused, OK], {}, { random: () => 0.98 })
    const work = client.call(READ)
    await clock.advance(98)
    expect(requests).toHaveLength(1)
    await clock.advance(1)
    await work
  })

  it('with several servers the pause comes only after all have failed', async () => {
    const { client, clock, requests } = scripted([refused, refused, refused, OK], THREE)
    const work = client.call(READ)
    await clock.advance(0)
    expect(requests).toHaveLength(3)
    await clock.advance(50)
    await work
  })

  it('a write that reached nobody goes to the next server', async () => {
    const { client, requests } = scripted([refused, reply(429, 'Your IP is issuing too many'), OK], THREE)
    await client.call(WRITE)
    expect(requests.map(({ body }) => body)).toEqual(Array(3).fill('{"Items":{"a":"1"}}'))
  })

  it('a write that reached nobody at all says that it was not done', async () => {
    const { client, clock, requests } = scripted(Array(6).fill(refused), THREE)
    const work = ended(client.call(WRITE))
    await clock.advance(50)
    expect(await work).toEqual({ error: fault('unavailable', false, /ECONNREFUSED/) })
    expect(requests).toHaveLength(6)
  })

  it.each([
    ['the connection broke', broken],
    ['there was no leader', NO_LEADER],
    ['the leader went away', reply(500, 'rpc error: EOF')],
    ['the leader could not be reached', reply(500, 'rpc error: failed to get conn: dial tcp: connection refused')],
    ['leadership was lost', reply(500, 'raft apply failed: leadership lost while committing log')],
    ['a proxy gave up', reply(502, 'Bad Gateway')],
  ])('a write is never sent twice once it may have been done: %s', async (_, step) => {
    const { client, requests } = scripted([step], THREE)
    await expect(client.call(WRITE)).rejects.toEqual(fault('unavailable', true))
    expect(requests).toHaveLength(1)
  })

  it('after a write that failed so, the next call goes to the next server', async () => {
    const { client, requests } = scripted([NO_LEADER, OK], THREE)
    await ended(client.call(WRITE))
    await client.call(WRITE)
    expect(requests[1]?.address).toBe('http://b:4646')
  })

  it('what Nomad finds wrong is not asked again', async () => {
    const { client, requests } = scripted([
      reply(400, 'RPC Error:: 400,RPC Error:: 400,variable should not contain lock definition'),
      reply(500, 'rpc error: rpc error: 1 error occurred:\n\t* missing lock ID\n\n'),
      reply(500, 'rpc error: alloc lookup failed'),
    ])
    await expect(client.call(WRITE)).rejects.toEqual(fault('rejected', false, /400 variable should not contain lock definition$/))
    await expect(client.call(WRITE)).rejects.toEqual(fault('rejected', true, /500 1 error occurred: \* missing lock ID$/))
    await expect(client.call(READ)).rejects.toEqual(fault('rejected', false))
    expect(requests).toHaveLength(3)
  })
})

describe('bounds', () => {
  it('a call without an answer ends after 5 s; a write says that it may have been done', async () => {
    const { client, clock, outcomes } = scripted([silent])
    const work = ended(client.call(WRITE))
    await clock.advance(4_999)
    expect(outcomes).toEqual([])
    await clock.advance(1)
    expect(await work).toEqual({ error: fault('unavailable', true, 'no answer from Nomad within 5000 ms') })
    expect(outcomes).toEqual([['PUT', 'variable.put', 'timeout', 5_000]])
  })

  it('a read that ran out of its bound is asked elsewhere', async () => {
    const { client, clock, requests } = scripted([silent, OK], THREE, { requestMs: 2_000 })
    const work = client.call(READ)
    await clock.advance(2_000)
    await work
    expect(requests[1]?.address).toBe('http://b:4646')
  })

  it('a blocking query may take its wait, a sixteenth more and 5 s, and is not repeated then', async () => {
    const { client, clock, requests } = scripted([silent])
    const work = ended(client.call({ ...READ, blocking: { index: 41, waitMs: 32_000 } }))
    await clock.advance(38_999)
    expect(requests[0]?.path).toBe('/v1/var/a?namespace=default&index=41&wait=32s')
    expect(clock.pending).toBe(1)
    await clock.advance(1)
    expect(await work).toEqual({ error: fault('unavailable', false) })
  })

  it('the caller who gives up gets back the reason it gave, and no timer is left', async () => {
    const { client, clock, outcomes } = scripted([silent])
    const control = new AbortController()
    const work = ended(client.call(WRITE, control.signal))
    await clock.advance(10)
    control.abort('enough')
    expect(await work).toEqual({ error: 'enough' })
    expect(clock.pending).toBe(0)
    expect(outcomes).toEqual([['PUT', 'variable.put', 'aborted', 10]])
  })

  it('the caller may give up during the pause, and before anything was sent', async () => {
    const { client, clock, requests } = scripted([refused])
    const control = new AbortController()
    const work = ended(client.call(READ, control.signal))
    await clock.advance(10)
    control.abort('enough')
    expect(await work).toEqual({ error: 'enough' })
    expect(await ended(client.call(READ, control.signal))).toEqual({ error: 'enough' })
    expect(requests).toHaveLength(1)
    expect(clock.pending).toBe(0)
  })
})

describe('tokens', () => {
  const FILE = { NOMAD_TOKEN_FILE: '/secrets/token', NOMAD_TOKEN: 'old-copy' }
  const tokens = (requests: readonly { headers: Readonly<Record<string, string>> }[]) =>
    requests.map(({ headers }) => headers['x-nomad-token'])
  const file = (...contents: string[]) => {
    let reads = 0
    const readTokenFile = () => Promise.resolve(contents[Math.min(reads++, contents.length - 1)] as string)
    return { readTokenFile, reads: () => reads }
  }

  it('a token of the environment is sent, and none when there is none', async () => {
    const { client, requests } = scripted([OK], { NOMAD_TOKEN: 'secret' })
    await client.call(READ)
    const without = scripted([OK])
    await without.client.call(READ)
    expect(tokens([...requests, ...without.requests])).toEqual(['secret', undefined])
  })

  it('a token file is read at most once a second, and a new token is used from then on', async () => {
    const { readTokenFile, reads } = file('one\n', 'two\n')
    const { client, clock, requests } = scripted([OK, OK, OK], FILE, { readTokenFile })
    await client.call(READ)
    await clock.advance(999)
    await client.call(READ)
    expect(reads()).toBe(1)
    await clock.advance(1)
    await client.call(READ)
    expect(tokens(requests)).toEqual(['one', 'one', 'two'])
  })

  it('a file that is empty for a moment leaves the token as it is', async () => {
    const { readTokenFile } = file('one', '', 'half a token')
    const { client, clock, requests } = scripted([OK, OK, OK], FILE, { readTokenFile })
    for (let call = 0; call < 3; call++) {
      await client.call(READ)
      await clock.advance(1_000)
    }
    expect(tokens(requests)).toEqual(['one', 'one', 'one'])
  })

  it('without any token in the file a call is denied, and nothing is sent', async () => {
    const { client, requests } = scripted([], FILE)
    await expect(client.call(READ)).rejects.toEqual(fault('denied', false, /NOMAD_TOKEN_FILE/))
    expect(requests).toEqual([])
  })

  it('after a 403 the file is read at once, and the call, a write too, goes out once more with the new token', async () => {
    const { readTokenFile } = file('one', 'two')
    const { client, requests } = scripted([reply(403, 'Permission denied'), OK], FILE, { readTokenFile })
    await client.call(WRITE)
    expect(tokens(requests)).toEqual(['one', 'two'])
  })

  it('a 403 with the newest token is denied, after one repetition at most', async () => {
    const same = file('one')
    const first = scripted([reply(403, 'Permission denied')], FILE, same)
    await expect(first.client.call(WRITE)).rejects.toEqual(
      fault('denied', false, 'variable.put: Nomad answers 403 Permission denied'),
    )
    const changing = file('one', 'two', 'three')
    const second = scripted([reply(403), reply(403)], FILE, changing)
    await expect(second.client.call(WRITE)).rejects.toEqual(fault('denied', false))
  })

  it("somebody else's token is used as it is", async () => {
    const { readTokenFile, reads } = file('one')
    const { client, requests } = scripted([reply(403)], FILE, { readTokenFile })
    await expect(client.call({ ...WRITE, token: 'theirs' })).rejects.toEqual(fault('denied', false))
    expect([tokens(requests), reads()]).toEqual([['theirs'], 0])
  })
})

describe('what is believed and told', () => {
  it('an agent that is shutting down and says 200 to everything is not believed', async () => {
    const empty = reply(200, '[]', { 'x-nomad-index': '0', 'x-nomad-knownleader': 'false' })
    const { client, requests } = scripted([empty, reply(200, '[7]')], THREE)
    const answer = await client.call({ ...READ, indexed: true })
    expect([answer.text, requests.length]).toEqual(['[7]', 2])
  })

  it('index 0 with a leader is that of a table that was never written', async () => {
    const { client } = scripted([reply(200, '[]', { 'x-nomad-index': '0' })])
    expect((await client.call({ ...READ, indexed: true })).index).toBe(0)
  })

  it('a fault never shows a token or a lock ID, and is cut', async () => {
    const { client } = scripted([reply(400, `token SECRET lock LOCK ${'x'.repeat(1_000)}`)], { NOMAD_TOKEN: 'SECRET' })
    const { error } = (await ended(client.call({ ...WRITE, secret: 'LOCK' }))) as { error: NomadFault }
    expect(error.message).toMatch(/^variable.put: Nomad answers 400 token … lock … x+…$/)
    expect(error.message.length).toBeLessThan(340)
    expect(error.cause).toBeUndefined()
  })

  it('every exchange is observed by its name, with how it ended and how long it took', async () => {
    const { client, clock, outcomes } = scripted([refused, reply(429), reply(403)])
    const work = ended(client.call(READ))
    await clock.advance(1_000)
    await work
    expect(outcomes.map(([, what, outcome]) => `${what} ${outcome}`)).toEqual([
      'variable.get unavailable',
      'variable.get busy',
      'variable.get denied',
    ])
  })
})
