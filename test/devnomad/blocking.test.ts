import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Answer } from '../../src/devnomad/devnomad.ts'
import { DevNomadClient, isOver } from '../support/devnomad-client.ts'
import { settle } from '../support/manual-clock.ts'

describe('a blocking query', () => {
  let client: DevNomadClient
  const set = (path: string): Promise<Answer> => client.ask('PUT', `/v1/var/${path}`, { Items: { a: '1' } })
  const index = (answer: Answer): number => Number(answer.headers['X-Nomad-Index'])
  const wait = (path: string, from: number, signal?: AbortSignal): Promise<Answer> =>
    client.ask('GET', `${path}${path.includes('?') ? '&' : '?'}index=${from}&wait=60s`, undefined, signal)
  const A = 'aaaaaaaa-0000-4000-8000-000000000001'

  beforeEach(() => {
    client = new DevNomadClient()
  })
  afterEach(() => client.close())

  it('for a list wakes on any write of any variable', async () => {
    await set('a')
    const waiting = wait('/v1/vars?prefix=b', index(await client.ask('GET', '/v1/vars?prefix=b')))
    expect(await isOver(waiting)).toBe(false)
    const written = await client.ask('PUT', '/v1/var/elsewhere?namespace=other', { Items: { a: '1' } })
    const answer = await waiting
    expect(answer.body).toBe('[]')
    expect(index(answer)).toBe(index(written))
  })

  it('for a variable wakes on set, acquire, release and expiry, and not on a renewal or a stranger', async () => {
    let seen = index(await set('a'))
    const wakes = async (work: () => Promise<unknown>): Promise<boolean> => {
      const caller = new AbortController()
      const waiting = wait('/v1/var/a', seen, caller.signal)
      expect(await isOver(waiting)).toBe(false)
      await work()
      const woken = await isOver(waiting)
      if (woken) seen = index(await waiting)
      caller.abort()
      return woken
    }
    const lock =
      (operation: string): (() => Promise<Answer>) =>
      () =>
        client.ask('PUT', `/v1/var/a?lock-${operation}`, { Lock: { ID: A, TTL: '10s', LockDelay: '1ms' } })
    const release = (): Promise<Answer> => client.ask('PUT', '/v1/var/a?lock-release', { Lock: { ID: A } })
    expect(await wakes(() => set('a'))).toBe(true)
    expect(await wakes(() => set('stranger'))).toBe(false)
    expect(await wakes(lock('acquire'))).toBe(true)
    expect(await wakes(lock('renew'))).toBe(false)
    expect(await wakes(release)).toBe(true)
    expect(await wakes(lock('acquire'))).toBe(true)
    expect(await wakes(() => client.clock.advance(20_001))).toBe(true)
  })

  it('for a missing variable wakes on any write in the table', async () => {
    await set('a')
    const missing = await client.ask('GET', '/v1/var/none')
    const waiting = wait('/v1/var/none', index(missing))
    await set('b')
    expect((await waiting).status).toBe(404)
  })

  it('answers after its wait and up to a sixteenth more', async () => {
    const waiting = wait('/v1/vars', index(await set('a')))
    await client.clock.advance(59_999)
    expect(await isOver(waiting)).toBe(false)
    await client.clock.advance(3_751)
    expect((await waiting).status).toBe(200)
  })

  it('fails when the leader is lost', async () => {
    const waiting = wait('/v1/vars', index(await set('a')))
    expect(await isOver(waiting)).toBe(false)
    client.nomad.leader.fail(1_000)
    expect(await waiting).toMatchObject({ status: 500, body: 'rpc error: EOF' })
  })

  it('ends when its caller gives up, and leaves nothing behind', async () => {
    const caller = new AbortController()
    const waiting = wait('/v1/vars', index(await set('a')), caller.signal)
    expect(await isOver(waiting)).toBe(false)
    caller.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    await settle()
    expect(client.clock.pending).toBe(0)
  })

  it('fails when everything closes', async () => {
    const waiting = wait('/v1/vars', index(await set('a')))
    const failed = expect(waiting).rejects.toMatchObject({ code: 'ECONNRESET' })
    client.nomad.close()
    await failed
  })
})
