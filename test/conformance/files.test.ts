import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, type Answered } from './exchange.ts'
import { filed } from './jobs.ts'
import { nomadUnderTest, type NomadUnderTest } from './nomad-under-test.ts'

interface File {
  readonly Name: string
  readonly IsDir: boolean
  readonly Size: number
  readonly ModTime: string
}
interface Stub {
  readonly ID: string
  readonly ClientStatus: string
  readonly TaskStates: Record<
    string,
    { State: string; Restarts: number; StartedAt: string; Events: { DisplayMessage: string }[] }
  >
}

describe('the files of an allocation', () => {
  let nomad: NomadUnderTest
  let alloc = ''
  const send = (method: string, path: string, body: unknown = null): Promise<Answered> =>
    nomad.during(ask(nomad.address, { method, path, body }))
  const fs = (what: string, path: string): Promise<Answered> => send('GET', `/v1/client/fs/${what}/${alloc}?path=${path}`)
  const names = async (path: string): Promise<string[]> => ((await fs('ls', path)).body as File[]).map(({ Name }) => Name)
  const first = async (): Promise<Stub> => ((await send('GET', '/v1/job/filed/allocations')).body as Stub[])[0] as Stub
  const set = (v: string): Promise<Answered> => send('PUT', '/v1/var/nomad/jobs/filed', { Items: { v } })
  const modTime = async (path: string): Promise<number> => Date.parse(((await fs('stat', path)).body as File).ModTime)

  beforeAll(async () => {
    nomad = await nomadUnderTest()
    await send('DELETE', '/v1/var/nomad/jobs/filed')
    await send('PUT', '/v1/jobs', { Job: filed })
  })
  afterAll(async () => {
    await send('DELETE', '/v1/job/filed?purge=true')
    await nomad.close()
  })

  it('are not rendered, and the task not started, before the variable is there', async () => {
    const waiting = await nomad.until(first, (one) => eventsOf(one).some((text) => text.startsWith('Missing:')))
    expect(eventsOf(waiting)).toContain('Missing: nomad.var.block(nomad/jobs/filed@default.global)')
    expect(waiting.ClientStatus).toBe('pending')
    await set('1')
    alloc = (await nomad.until(first, (one) => one?.ClientStatus === 'running')).ID
  })

  it('are listed, also those that are secret', async () => {
    expect(await names('/')).toEqual(['alloc', 'app'])
    expect(await names('')).toEqual(['alloc', 'app'])
    expect(await names('/alloc')).toEqual(['data', 'logs', 'tmp'])
    expect(await names('/app')).toEqual(expect.arrayContaining(['local', 'private', 'secrets', 'tmp']))
    expect(await names('app/local')).toEqual(['conf.txt', 'restarts.txt', 'run.sh'])
    expect(await names('/app/secrets')).toEqual(['.nomad-mount', 'api.sock', 'env', 'nomad_lockkeeper.jwt'])
    expect((await fs('ls', '/alloc/data')).body).toEqual([])
  })

  it('say when they were written, to the nanosecond', async () => {
    const { body, status } = await fs('stat', '/app/local/conf.txt')
    expect(status).toBe(200)
    expect(body).toMatchObject({ Name: 'conf.txt', Size: 3, IsDir: false, FileMode: '-rw-r--r--' })
    expect(body).toMatchObject({ ContentType: 'text/plain; charset=utf-8' })
    expect((body as File).ModTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{4,9}Z$/)
    expect((await fs('stat', '/app/secrets/nomad_lockkeeper.jwt')).body).toMatchObject({ IsDir: false })
    expect((await fs('stat', '/app/local/run.sh')).body).toMatchObject({ FileMode: '-rwxr-xr-x' })
    expect((await fs('stat', '/app/local')).body).toMatchObject({ IsDir: true, FileMode: 'drwxrwxrwx' })
  })

  it('may be read unless they are secret, and every refusal is a 200', async () => {
    const text = (body: unknown): object => ({ status: 200, contentType: 'text/plain; charset=utf-8', body })
    expect(await fs('cat', '/app/local/conf.txt')).toMatchObject(text('v=1'))
    const secret = '/app/secrets/nomad_lockkeeper.jwt'
    expect(await fs('cat', secret)).toMatchObject(text(`Reading secret file prohibited: ${secret}`))
    expect(await fs('cat', '/../..')).toMatchObject(text('Path escapes the alloc directory'))
    expect(await fs('cat', '/app/local')).toMatchObject(text('file "/app/local" is a directory'))
    expect(await fs('cat', '')).toMatchObject(text('must provide a file name'))
    expect((await fs('cat', '/app/none')).body).toMatch(/^stat \/.*\/app\/none: no such file or directory$/)
  })

  it('that are not there are 404 with a path of the host, and outside of the allocation is a 500', async () => {
    expect(await fs('ls', '/none')).toMatchObject({ status: 404 })
    expect((await fs('ls', '/none')).body).toMatch(/^open \/.*\/none: no such file or directory$/)
    expect((await fs('stat', '/none')).body).toMatch(/^stat \/.*\/none: no such file or directory$/)
    expect((await fs('ls', '/app/local/conf.txt')).status).toBe(500)
    for (const what of ['ls', 'stat']) {
      expect(await fs(what, '/../..')).toMatchObject({ status: 500, body: 'Path escapes the alloc directory' })
    }
    expect(await fs('stat', '')).toMatchObject({ status: 400, body: 'must provide a file name' })
    const unknown = '11111111-2222-4333-8444-555555555555'
    const answer = await send('GET', `/v1/client/fs/ls/${unknown}?path=/`)
    expect(answer).toMatchObject({ status: 404, body: `Unknown allocation "${unknown}"` })
    expect((await send('GET', '/v1/client/fs/ls/1111?path=/')).status).toBe(500)
  })

  it('are rendered anew five quiet seconds after the variable has changed, and may restart the task', async () => {
    const before = await first()
    const identity = await modTime('/app/secrets/nomad_lockkeeper.jwt')
    await set('2')
    const read = async (): Promise<unknown> => (await fs('cat', '/app/local/conf.txt')).body
    expect(await read()).toBe('v=1')
    await nomad.until(read, (text) => text === 'v=2', 15_000)
    const startOf = (one: Stub): number => Date.parse(one.TaskStates['app']?.StartedAt ?? '')
    const after = await nomad.until(first, (one) => one.TaskStates['app']?.Restarts === 1 && startOf(one) > startOf(before))
    expect(eventsOf(after)).toContain('Template with change_mode restart re-rendered')
    const startedAt = startOf(after)
    expect(await modTime('/app/local/conf.txt')).toBeLessThanOrEqual(startedAt)
    // An identity is written anew before each start.
    const renewed = await modTime('/app/secrets/nomad_lockkeeper.jwt')
    expect(renewed).toBeGreaterThan(identity)
    expect(renewed).toBeLessThanOrEqual(startedAt)
  })
})

const eventsOf = (alloc: Stub | undefined): string[] =>
  alloc?.TaskStates?.['app']?.Events.map(({ DisplayMessage }) => DisplayMessage) ?? []
