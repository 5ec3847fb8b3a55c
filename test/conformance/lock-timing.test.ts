// When locks fall, and Nomad's faults with them: in virtual time, so for the double alone. The seconds were measured.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Answer } from '../../src/devnomad/devnomad.ts'
import { DevNomadClient } from '../support/devnomad-client.ts'

const A = 'aaaaaaaa-0000-4000-8000-000000000001'
const B = 'bbbbbbbb-0000-4000-8000-000000000002'

describe('a lock', () => {
  let client: DevNomadClient
  const lock = (operation: string, path: string, id: string, more: object = {}): Promise<number> =>
    client.ask('PUT', `/v1/var/${path}?lock-${operation}`, { Lock: { ID: id, ...more } }).then((answer) => answer.status)
  const acquire = (path: string, id: string, delay = '1ms'): Promise<number> =>
    lock('acquire', path, id, { TTL: '10s', LockDelay: delay })
  const isLocked = async (path: string): Promise<boolean> => 'Lock' in (await client.get<object>(`/v1/var/${path}`))
  const modifyIndex = async (path: string): Promise<number> =>
    (await client.get<{ ModifyIndex: number }>(`/v1/var/${path}`)).ModifyIndex

  beforeEach(() => {
    client = new DevNomadClient()
  })
  afterEach(() => client.close())

  it('falls two TTL and its delay after the acquire', async () => {
    await acquire('l/a', A)
    await client.clock.advance(20_000)
    expect(await acquire('l/a', B)).toBe(409)
    await client.clock.advance(1)
    expect(await isLocked('l/a')).toBe(false)
    expect(await acquire('l/a', B)).toBe(200)
  })

  it('is not free during its delay', async () => {
    await acquire('l/a', A, '5s')
    await client.clock.advance(24_999)
    expect(await acquire('l/a', B)).toBe(409)
    await client.clock.advance(1)
    expect(await acquire('l/a', B)).toBe(200)
  })

  it('with a delay of zero has one of 15 seconds', async () => {
    await acquire('l/a', A, '0s')
    await client.clock.advance(34_999)
    expect(await isLocked('l/a')).toBe(true)
    await client.clock.advance(1)
    expect(await isLocked('l/a')).toBe(false)
  })

  it('is free at once after a release', async () => {
    await acquire('l/a', A, '15s')
    expect(await lock('release', 'l/a', A)).toBe(200)
    expect(await acquire('l/a', B)).toBe(200)
  })

  it('can be renewed until two TTL have passed, and not later', async () => {
    await acquire('l/a', A, '15s')
    await client.clock.advance(18_000)
    expect(await lock('renew', 'l/a', A)).toBe(200)
    await client.clock.advance(19_999)
    expect(await lock('renew', 'l/a', A)).toBe(200)
    await client.clock.advance(20_000)
    expect(await lock('renew', 'l/a', A)).toBe(409)
  })

  it('that has fallen cannot be renewed, in other words once its delay is over', async () => {
    const renew = (id: string): Promise<Answer> => client.ask('PUT', '/v1/var/l/a?lock-renew', { Lock: { ID: id } })
    await acquire('l/a', A, '15s')
    await client.clock.advance(20_000)
    expect(await renew(A)).toMatchObject({ status: 409, body: 'attempting to modify locked variable' })
    await lock('release', 'l/a', A)
    await acquire('l/a', B, '15s')
    expect(await renew(B)).toMatchObject({ status: 200 })
    await client.clock.advance(15_000)
    expect(await renew(B)).toMatchObject({ status: 409, body: "variable doesn't hold a lock" })
    expect(await renew(A)).toMatchObject({ status: 409, body: "variable doesn't hold a lock" })
  })

  it('changes the ModifyIndex when it is taken, released or expires, not when it is renewed', async () => {
    await acquire('l/a', A)
    const taken = await modifyIndex('l/a')
    await lock('renew', 'l/a', A)
    expect(await modifyIndex('l/a')).toBe(taken)
    await client.clock.advance(20_001)
    expect(await modifyIndex('l/a')).toBeGreaterThan(taken)
  })

  it('is not extended by an acquire with the same ID', async () => {
    await acquire('l/a', A)
    await client.clock.advance(19_000)
    expect(await acquire('l/a', A)).toBe(200)
    await client.clock.advance(1_001)
    expect(await isLocked('l/a')).toBe(false)
  })

  it('taken again under its old ID during the delay is silently undone', async () => {
    await acquire('l/a', A, '15s')
    await client.clock.advance(21_000)
    expect(await acquire('l/a', A, '15s')).toBe(200)
    await client.clock.advance(10_000)
    expect(await lock('renew', 'l/a', A)).toBe(200)
    await client.clock.advance(4_000)
    expect(await isLocked('l/a')).toBe(false)
  })

  it('of somebody else falls to the late expiry of the one before', async () => {
    await acquire('l/a', A, '15s')
    await client.clock.advance(21_000)
    expect(await lock('release', 'l/a', A)).toBe(200)
    expect(await acquire('l/a', B)).toBe(200)
    await client.clock.advance(10_000)
    expect(await lock('renew', 'l/a', B)).toBe(200)
    await client.clock.advance(4_000)
    expect(await lock('renew', 'l/a', B)).toBe(409)
  })

  it('that shares its ID with another never expires', async () => {
    await acquire('l/a', A)
    await acquire('l/b', A)
    await client.clock.advance(600_000)
    expect(await isLocked('l/a')).toBe(false)
    expect(await isLocked('l/b')).toBe(true)
  })

  it('that came with a plain set is immortal', async () => {
    await client.ask('PUT', '/v1/var/l/a', { Items: { a: '1' }, Lock: { ID: A } })
    await client.clock.advance(3_600_000)
    expect(await isLocked('l/a')).toBe(true)
    expect(await lock('renew', 'l/a', A)).toBe(409)
  })

  it('has a TTL of 15 seconds after a set under it', async () => {
    await acquire('l/a', A)
    await client.ask('PUT', '/v1/var/l/a', { Items: { a: '1' }, Lock: { ID: A } })
    expect(await client.get('/v1/var/l/a')).toMatchObject({ Lock: { TTL: '15s', LockDelay: '15s' } })
    await lock('renew', 'l/a', A)
    await client.clock.advance(29_999)
    expect(await isLocked('l/a')).toBe(true)
    // The delay is still that of the acquire.
    await client.clock.advance(2)
    expect(await isLocked('l/a')).toBe(false)
  })

  it('gets two fresh TTL from a new leader', async () => {
    await acquire('l/a', A)
    await client.clock.advance(15_000)
    client.nomad.leader.fail(3_600)
    expect(await lock('renew', 'l/a', A)).toBe(500)
    await client.clock.advance(3_600 + 19_999)
    expect(await isLocked('l/a')).toBe(true)
    await client.clock.advance(2)
    expect(await isLocked('l/a')).toBe(false)
  })

  it('keeps its variable from being deleted', async () => {
    await acquire('l/a', A)
    expect((await client.ask('DELETE', '/v1/var/l/a')).status).toBe(409)
    await lock('release', 'l/a', A)
    expect((await client.ask('DELETE', '/v1/var/l/a')).status).toBe(204)
  })
})
