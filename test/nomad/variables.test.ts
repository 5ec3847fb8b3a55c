import { describe, expect, it } from 'vitest'
import type { NomadFault } from '../../src/core/nomad-fault.ts'
import { createVariables } from '../../src/nomad/variables.ts'
import { ended, queryOf, reply, scripted, type Step } from './support.ts'

const ID = 'aaaaaaaa-0000-4000-8000-000000000001'
const LOCK = { id: ID, ttlMs: 10_000, delayMs: 1 }

/** Answers as a real Nomad gave them (but for the times, which no double can hold). */
const META = { CreateTime: 1795970293040249, ModifyTime: 1795970293045857, Namespace: 'default', Path: 't/cas' }
const CURRENT = { CreateIndex: 37, Items: { s: '3' }, ModifyIndex: 39, ...META }
const NOTHING = { CreateIndex: 0, CreateTime: 0, ModifyIndex: 0, ModifyTime: 0, Namespace: 'default', Path: 't/cas' }
const HELD = { TTL: '10s', LockDelay: '1ms', ID }
const text = (status: number, body: string) => reply(status, body, { 'content-type': 'text/plain; charset=utf-8' })

function variables(...steps: Step[]) {
  const { client, requests } = scripted(steps)
  const last = () => {
    const request = requests.at(-1)
    if (request === undefined) throw new Error('nothing was sent')
    const { method, path, body } = request
    return {
      method,
      path: path.split('?')[0],
      query: queryOf(request),
      body: body === undefined ? null : (JSON.parse(body) as unknown),
    }
  }
  return { variables: createVariables(client), requests, last }
}
const fault = async (work: Promise<unknown>) => {
  const { kind, maybeDone } = ((await ended(work)) as { error: NomadFault }).error
  return { kind, maybeDone }
}

describe('reading', () => {
  it('a variable comes with its items and the index to wait from', async () => {
    const { variables: vars, last } = variables(reply(200, CURRENT, { 'x-nomad-index': '39' }))
    expect(await vars.get('t/cas')).toEqual({
      index: 39,
      variable: { path: 't/cas', createIndex: 37, modifyIndex: 39, items: { s: '3' } },
    })
    expect(last()).toEqual({ method: 'GET', path: '/v1/var/t/cas', query: {}, body: null })
  })

  it('a missing variable is null, with the index of the table', async () => {
    const { variables: vars } = variables(text(404, 'variable not found'))
    expect(await vars.get('t/none')).toEqual({ index: 7, variable: null })
  })

  it('a 404 of something else is no missing variable', async () => {
    const { variables: vars } = variables(text(404, '404 page not found'))
    expect(await fault(vars.get('t/none'))).toEqual({ kind: 'rejected', maybeDone: false })
  })

  it('a variable that was locked without items has none, and a lock that is shown is left out', async () => {
    const { variables: vars } = variables(reply(200, { CreateIndex: 35, ModifyIndex: 35, ...META, Lock: HELD }))
    const { variable } = await vars.get('t/cas')
    expect(variable).toEqual({ path: 't/cas', createIndex: 35, modifyIndex: 35, items: {} })
  })

  it('a path keeps its slashes and loses nothing else', async () => {
    const { variables: vars, last } = variables(text(404, 'variable not found'))
    await vars.get('a/~b/c?d#e')
    expect(last().path).toBe('/v1/var/a/~b/c%3Fd%23e')
  })

  it('a list waits on its first page only, follows the pages, and its index is the smallest', async () => {
    const page = (path: string, index: string, next: Record<string, string>) =>
      reply(200, [{ CreateIndex: 1, ModifyIndex: 2, ...META, Path: path }], { 'x-nomad-index': index, ...next })
    const { variables: vars, requests } = variables(
      page('t/a', '52', { 'x-nomad-nexttoken': 'default.t/b' }),
      page('t/b', '51', { 'x-nomad-nexttoken': 'default.t/c' }),
      page('t/c', '60', {}),
    )
    const { index, variables: found } = await vars.list('t/', { index: 50, waitMs: 30_000 })
    expect([index, found.map(({ path }) => path)]).toEqual([51, ['t/a', 't/b', 't/c']])
    expect(requests.map(queryOf)).toEqual([
      { prefix: 't/', index: '50', wait: '30s' },
      { prefix: 't/', next_token: 'default.t/b' },
      { prefix: 't/', next_token: 'default.t/c' },
    ])
  })

  it('an empty list has an index too', async () => {
    const { variables: vars } = variables(reply(200, []))
    expect(await vars.list('zz')).toEqual({ index: 7, variables: [] })
  })
})

describe('check and set', () => {
  it('a put sends the items, the expected index, and never a lock', async () => {
    const { variables: vars, last } = variables(reply(200, CURRENT))
    expect(await vars.put('t/cas', { s: '3' }, 37)).toEqual({ kind: 'written', index: 39, createIndex: 37 })
    expect(last()).toEqual({
      method: 'PUT',
      path: '/v1/var/t/cas',
      query: { cas: '37' },
      body: { Path: 't/cas', Items: { s: '3' } },
    })
  })

  it('a conflict brings what is there now', async () => {
    const { variables: vars } = variables(text(409, JSON.stringify(CURRENT)), text(409, JSON.stringify(CURRENT)))
    const current = { path: 't/cas', createIndex: 37, modifyIndex: 39, items: { s: '3' } }
    expect(await vars.put('t/cas', { s: '4' }, 37)).toEqual({ kind: 'conflict', current })
    expect(await vars.remove('t/cas', 37)).toEqual({ kind: 'conflict', current })
  })

  it('a conflict with nothing there, or with a lock at that very index, brings null', async () => {
    const { variables: vars } = variables(text(409, JSON.stringify(NOTHING)), text(409, JSON.stringify(NOTHING)))
    expect(await vars.put('t/cas', { s: '4' }, 39)).toEqual({ kind: 'conflict', current: null })
    expect(await vars.remove('t/cas', 39)).toEqual({ kind: 'conflict', current: null })
  })

  it('a conflict whose content the token may not read is denied, not an empty variable', async () => {
    const { Items: _, ...redacted } = CURRENT
    const { variables: vars } = variables(text(409, JSON.stringify(redacted)))
    expect(await fault(vars.put('t/cas', { s: '4' }, 37))).toEqual({ kind: 'denied', maybeDone: false })
  })

  it('a removal is a 204 with an index', async () => {
    const { variables: vars, last } = variables(reply(204))
    expect(await vars.remove('t/cas', 39)).toEqual({ kind: 'removed', index: 7 })
    expect(last()).toEqual({ method: 'DELETE', path: '/v1/var/t/cas', query: { cas: '39' }, body: null })
  })

  it('a success that says nothing, as an agent gives that shuts down, may or may not have been done', async () => {
    const nothing = reply(200, 'null', { 'x-nomad-index': '0' })
    const none = reply(204, '', { 'x-nomad-index': '0' })
    const { variables: vars } = variables(nothing, none, nothing, nothing, nothing, text(409, 'cas error: no'))
    const doubt = { kind: 'unavailable', maybeDone: true }
    expect(await fault(vars.put('t/cas', { s: '4' }, 37))).toEqual(doubt)
    expect(await fault(vars.remove('t/cas', 37))).toEqual(doubt)
    expect(await fault(vars.acquire('t/one', LOCK, {}))).toEqual(doubt)
    expect(await fault(vars.renew('t/one', ID))).toEqual(doubt)
    expect(await fault(vars.release('t/one', ID))).toEqual(doubt)
    expect(await fault(vars.put('t/cas', { s: '4' }, 37))).toEqual(doubt)
  })
})

describe('locks', () => {
  it('an acquire names its own lock ID, TTL and delay, and returns the index that shows the lease alive', async () => {
    const { variables: vars, last } = variables(reply(200, { ...CURRENT, Lock: HELD }))
    expect(await vars.acquire('t/one', { id: ID, ttlMs: 90_000, delayMs: 1 }, { a: '1' })).toEqual({
      kind: 'acquired',
      index: 39,
    })
    expect(last()).toEqual({
      method: 'PUT',
      path: '/v1/var/t/one',
      query: { 'lock-acquire': '' },
      body: { Path: 't/one', Items: { a: '1' }, Lock: { ID, TTL: '1m30s', LockDelay: '1ms' } },
    })
  })

  it('a delay of nothing is sent as 1 ms, for 0 would mean 15 s', async () => {
    const { variables: vars, last } = variables(reply(200, CURRENT))
    await vars.acquire('t/one', { ...LOCK, delayMs: 0 }, {})
    expect(last().body).toMatchObject({ Lock: { LockDelay: '1ms' } })
  })

  it('a lock of somebody else is taken', async () => {
    const { variables: vars } = variables(text(409, JSON.stringify(NOTHING)))
    expect(await vars.acquire('t/one', LOCK, {})).toEqual({ kind: 'taken' })
  })

  it('a renew sends the ID alone', async () => {
    const { variables: vars, last } = variables(reply(200, { CreateIndex: 12, ModifyIndex: 15, ...META, Lock: HELD }))
    expect(await vars.renew('t/one', ID)).toBe('renewed')
    expect(last()).toMatchObject({ query: { 'lock-renew': '' }, body: { Path: 't/one', Lock: { ID } } })
  })

  it.each([
    [409, 'attempting to modify locked variable'],
    [409, "variable doesn't hold a lock"],
    [404, "variable doesn't exist"],
  ])('a renew that is answered %i %s has lost the lock', async (status, body) => {
    const { variables: vars } = variables(text(status, body))
    expect(await vars.renew('t/one', ID)).toBe('lost')
  })

  it('a renew that Nomad finds wrong, or a 404 of something else, has not lost the lock', async () => {
    const { variables: vars } = variables(
      text(500, '1 error occurred:\n\t* missing lock ID\n\n'),
      text(404, '404 page not found'),
    )
    expect((await fault(vars.renew('t/one', ''))).kind).toBe('rejected')
    expect((await fault(vars.renew('t/one', ID))).kind).toBe('rejected')
  })

  it('a release carries no items', async () => {
    const { variables: vars, last } = variables(reply(200, { CreateIndex: 12, ModifyIndex: 23, ...META }))
    expect(await vars.release('t/one', ID)).toEqual({ kind: 'released', index: 23 })
    expect(last()).toMatchObject({ query: { 'lock-release': '' }, body: { Path: 't/one', Lock: { ID } } })
  })

  it.each([
    [409, JSON.stringify(NOTHING)],
    [500, "variable doesn't hold a lock"],
    [500, "variable doesn't exist"],
    [500, "rpc error: variable doesn't exist"],
  ])('a release that is answered %i %s had nothing to release', async (status, body) => {
    const { variables: vars } = variables(text(status, body))
    expect(await vars.release('t/one', ID)).toEqual({ kind: 'not_held' })
  })

  it('a release without a leader may or may not have been done', async () => {
    const { variables: vars } = variables(text(500, 'No cluster leader'))
    expect(await fault(vars.release('t/one', ID))).toEqual({ kind: 'unavailable', maybeDone: true })
  })
})

it("an operator's token is used for the operator's calls only", async () => {
  const { variables: vars, requests } = variables(reply(200, CURRENT), reply(200, CURRENT))
  await vars.withToken('theirs').put('t/cas', { s: '1' }, 0)
  await vars.put('t/cas', { s: '1' }, 0)
  expect(requests.map(({ headers }) => headers['x-nomad-token'])).toEqual(['theirs', undefined])
})
