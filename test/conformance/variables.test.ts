import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, expanded, recorded, type Answered } from './exchange.ts'
import { nomadUnderTest, type NomadUnderTest } from './nomad-under-test.ts'

// The recording's first write took this index. Ours takes another one; from there on, every answer's must be as far away.
const FIRST_RECORDED = 12
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

describe('variables answer as a real Nomad did, one exchange after the other', () => {
  let nomad: NomadUnderTest
  let shift: number | undefined
  /** Those of variables, by the recorded ones: a real Nomad may have written something of its own between two of ours. */
  const indexes = new Map<number, number>()

  beforeAll(async () => {
    nomad = await nomadUnderTest()
  })
  afterAll(() => nomad.close())

  for (const [at, { name, request, response }] of recorded('variables').entries()) {
    it(`${at}: ${name}`, async () => {
      const indexHere = (index: number): number => indexes.get(index) ?? index + (shift ?? 0)
      const path = request.path.replace(/cas=(\d{2,})/, (_, index: string) => `cas=${indexHere(Number(index))}`)
      const answer = await nomad.during(ask(nomad.address, { ...request, path }))
      if (shift === undefined && answer.status === 200) shift = Number(answer.nomadIndex) - FIRST_RECORDED
      const [there, here] = [response.body, answer.body].map((body) => (body as { ModifyIndex?: number } | null)?.ModifyIndex)
      if (there !== undefined && here !== undefined) indexes.set(there, here)
      expect(shown(answer, nomad.real)).toEqual(shown(asHere(response, shift ?? 0), nomad.real))
    })
  }

  it("the body's namespace wins over that of the query, but for a renewal", async () => {
    const send = (method: string, query: string, body: unknown = null): Promise<Answered> =>
      ask(nomad.address, { method, path: `/v1/var/t/other${query}`, body })
    const Lock = { ID: 'aaaaaaaa-0000-4000-8000-0000000000aa', TTL: '10s' }
    const body = { Namespace: 'other', Items: { a: '1' } }
    expect(await send('PUT', '?namespace=default', body)).toMatchObject({ status: 200, body: { Namespace: 'other' } })
    expect(await send('PUT', '?namespace=default&lock-acquire', { ...body, Lock })).toMatchObject({ status: 200 })
    expect(await send('PUT', '?namespace=default&lock-renew', { ...body, Lock })).toMatchObject({ status: 404 })
    expect(await send('PUT', '?namespace=other&lock-renew', { Namespace: 'default', Lock })).toMatchObject({ status: 200 })
    expect(await send('PUT', '?lock-release', { Namespace: 'other', Lock })).toMatchObject({ status: 200 })
    expect((await send('GET', '')).status).toBe(404)
    expect((await send('DELETE', '?namespace=other')).status).toBe(204)
  })

  it('a page of a list names the next one in its header', async () => {
    const first = await ask(nomad.address, { method: 'GET', path: '/v1/vars?prefix=t/&per_page=2', body: null })
    expect(first.nextToken).toBe('default.t/cas')
    const path = `/v1/vars?prefix=t/&per_page=100&next_token=${first.nextToken}`
    const second = await ask(nomad.address, { method: 'GET', path, body: null })
    expect((second.body as { Path: string }[]).map(({ Path }) => Path)[0]).toBe('t/cas')
    expect(second.nextToken).toBeNull()
  })
})

type Comparable = Omit<Answered, 'nextToken'>

function asHere(response: Comparable, shift: number): Comparable {
  const moved = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(moved)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([key, one]) => [key, /^(Create|Modify)Index$/.test(key) && one > 0 ? one + shift : moved(one)]),
    )
  }
  const { nomadIndex } = response
  const index = nomadIndex !== null && Number(nomadIndex) >= FIRST_RECORDED ? String(Number(nomadIndex) + shift) : nomadIndex
  return { ...response, nomadIndex: index, body: moved(expanded(response.body)) }
}

// Times and made-up lock IDs differ; that they are there does not. A lock ID that a request named is one of aaaa… or bbbb….
// A real Nomad has entries of its own between ours: there, an index is just an index.
function shown({ status, contentType, nomadIndex, body }: Comparable, loose: boolean): object {
  const plain = (key: string, value: unknown): unknown => {
    if (/^(Create|Modify)Time$/.test(key)) return value === 0 ? 0 : 'a time'
    if (/^(Create|Modify)Index$/.test(key)) return loose && value !== 0 ? 'an index' : value
    if (key === 'ID' && typeof value === 'string' && UUID.test(value) && !/^(a{8}|b{8})-/.test(value)) return 'an ID'
    return value
  }
  const index = loose && Number(nomadIndex) > 0 ? 'an index' : nomadIndex
  return { status, contentType, nomadIndex: index, body: JSON.parse(JSON.stringify(body, plain)) }
}
