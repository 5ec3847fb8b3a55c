import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { thenIt } from '../api/then.ts'
import { problem, StubService } from '../shim/stub-service.ts'
import { ReplicaUnderTest } from '../support/replica.ts'

const SCRIPT = join(import.meta.dirname, '../../deploy/change-script.sh')
const TOKEN = 'eyJhbGciOi.secret.jwt'

function where(name: string): string | null {
  const found = spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim()
  return found === '' ? null : found
}

const busybox = where('busybox')
/** Shells and clients that this machine has; busybox has a wget of its own. */
const SHELLS = { dash: where('dash'), busybox, sh: where('sh') }
const CLIENTS = { curl: where('curl'), wget: where('wget'), 'busybox wget': busybox }
const PAIRS = Object.entries(SHELLS).flatMap(([shell, shellPath]) =>
  Object.entries(CLIENTS).flatMap(([client, clientPath]) =>
    shellPath === null || clientPath === null ? [] : [[`${shell} with ${client}`, shellPath, clientPath] as const],
  ),
)

const folder = mkdtempSync(join(tmpdir(), 'change-script-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** A PATH on which there is one client, and nothing else but what the script needs. */
function pathWith(client: string | null): string {
  const path = mkdtempSync(join(folder, 'path-'))
  for (const name of ['cat', 'date', 'sed', 'timeout', 'tr']) symlinkSync(where(name) as string, join(path, name))
  if (client !== null) symlinkSync(client, join(path, client.endsWith('curl') ? 'curl' : 'wget'))
  return path
}

interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
  readonly ms: number
}

function script(shell: string, path: string, env: Readonly<Record<string, string>>): Promise<Ended> {
  const words = shell === busybox ? ['sh', SCRIPT] : [SCRIPT]
  const begun = performance.now()
  const child = spawn(shell, words, { env: { PATH: path, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  const written = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk) => (written.stdout += String(chunk)))
  child.stderr.on('data', (chunk) => (written.stderr += String(chunk)))
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, ...written, ms: performance.now() - begun })))
}

let stub: StubService
beforeEach(async () => {
  stub = await new StubService().listen()
})
afterEach(() => stub.close())

const env = (more: Readonly<Record<string, string>> = {}) => ({
  LOCKKEEPER_ADDR: stub.address,
  NOMAD_ALLOC_ID: 'a-1',
  NOMAD_TASK_NAME: 'app',
  ...more,
})

it('there is a shell and a client to try it with', () => {
  expect(PAIRS.length).toBeGreaterThan(0)
})

describe.each(PAIRS)('the script, %s', (_, shell, client) => {
  const path = pathWith(client)
  const run = (more: Readonly<Record<string, string>> = {}) => script(shell, path, env(more))

  it('C3.14 registers the allocation and task, tells what was answered, and returns', async () => {
    const before = Date.now()
    const ended = await run()
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    expect(ended.ms).toBeLessThan(1_000)
    expect(ended.stdout).toContain('"id":"r-1"')
    const [call] = stub.received
    expect(call).toMatchObject({ method: client.endsWith('curl') ? 'PUT' : 'POST', url: '/v1/requests' })
    expect(call?.body).toEqual({
      allocation: 'a-1',
      task: 'app',
      action: 'restart',
      since: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.999Z$/),
      reason: 'a template was rendered anew',
    })
    const since = Date.parse(call?.body['since'] as string)
    expect(since).toBeGreaterThanOrEqual(before)
    expect(since).toBeLessThan(Date.now() + 1_000)
    expect(call?.authorization).toBeUndefined()
  })

  it('says what else it was told, whatever signs are in it', async () => {
    const reason = 'say "hi"\\n & $(exit 3) `x`\n\ttwo lines é'
    await run({ LOCKKEEPER_ACTION: 'signal', LOCKKEEPER_COMPONENT: 'ca"che', LOCKKEEPER_REASON: reason })
    await run({ LOCKKEEPER_ACTION: 'signal', LOCKKEEPER_SIGNAL: 'SIGUSR1' })
    expect(stub.of('request')).toMatchObject([
      { action: 'signal', signal: 'SIGHUP', component: 'ca"che', reason: reason.replace(/[\n\t]/g, ' ') },
      { action: 'signal', signal: 'SIGUSR1' },
    ])
  })

  it('shows the workload identity of the task, and never writes it', async () => {
    writeFileSync(join(path, 'nomad_lockkeeper.jwt'), TOKEN)
    const first = await run({ NOMAD_SECRETS_DIR: path })
    writeFileSync(join(path, 'other'), `${TOKEN}2\n`)
    const second = await run({ NOMAD_SECRETS_DIR: path, LOCKKEEPER_TOKEN_FILE: join(path, 'other') })
    expect(stub.received.map(({ authorization }) => authorization)).toEqual([`Bearer ${TOKEN}`, `Bearer ${TOKEN}2`])
    expect(first.stdout + first.stderr + second.stdout + second.stderr).not.toContain('secret')
  })

  it('asks the next one when a replica is not there, breaks off or shuts down', async () => {
    const other = await new StubService().listen()
    try {
      stub.request = () => problem('shutting_down')
      const addresses = `http://127.0.0.1:1, ${stub.address}/ ${other.address},`
      writeFileSync(join(path, 'addresses'), addresses.replace(',', '\n'))
      expect(await run({ LOCKKEEPER_ADDR: addresses })).toMatchObject({ code: 0 })
      stub.request = () => 'broken'
      expect(await run({ LOCKKEEPER_ADDR: `@${join(path, 'addresses')}` })).toMatchObject({ code: 0 })
      expect(other.of('request')).toHaveLength(2)
    } finally {
      await other.close()
    }
  })

  it('C3.14 a service that is away fails nothing, unless told to', async () => {
    const away = { LOCKKEEPER_ADDR: 'http://127.0.0.1:1' }
    const ended = await run(away)
    expect(ended.code).toBe(0)
    expect(ended.stderr).toContain('lockkeeper: not registered: no replica of the service has taken it')
    expect(await run({ ...away, LOCKKEEPER_FAIL_ON_ERROR: 'true' })).toMatchObject({ code: 1 })
  })
})

it.each(Object.values(CLIENTS).filter((client) => client !== null))(
  'C3.14 a service that never answers blocks nothing: %s',
  async (client) => {
    stub.request = () => null
    const frozen = await script((SHELLS.dash ?? SHELLS.sh) as string, pathWith(client), env())
    expect(frozen.code).toBe(0)
    expect(frozen.ms).toBeLessThan(5_000)
  },
)

describe('without what it needs', () => {
  const shell = (SHELLS.dash ?? SHELLS.sh) as string

  it.each([
    ['no client', () => script(shell, pathWith(null), env()), 'neither curl nor wget is there'],
    ['no task around it', () => script(shell, pathWith(CLIENTS.curl), {}), 'NOMAD_ALLOC_ID is not set'],
    [
      'a file of addresses that is not there yet',
      () => script(shell, pathWith(CLIENTS.curl), env({ LOCKKEEPER_ADDR: '@/no/such/file' })),
      'no replica',
    ],
  ])('%s: it says so, and fails nothing', async (_, run, text) => {
    const ended = await run()
    expect(ended.code).toBe(0)
    expect(ended.stderr).toContain(text)
    expect(stub.received).toEqual([])
  })
})

describe('the script and the service', () => {
  let replica: ReplicaUnderTest
  let allocations: string[]
  beforeAll(async () => {
    replica = await ReplicaUnderTest.start()
    allocations = await replica.job('web', { meta: { lockkeeper_wait_for_deployment: 'false' } })
  })
  afterAll(async () => {
    await replica.close()
    await thenIt.keepsTheContract(replica.seen)
  })

  it.each(PAIRS)('C3.14 run again while it waits it gets the same request: %s', async (_, shell, client) => {
    await replica.ask('PUT', '/v1/locks', { body: { reason: 'it shall wait' } })
    const own = env({ LOCKKEEPER_ADDR: replica.replica.address, NOMAD_ALLOC_ID: allocations[0] as string })
    const runs = [await script(shell, pathWith(client), own), await script(shell, pathWith(client), own)]
    const ids = runs.map(({ stdout }) => /"id":"([^"]+)"/.exec(stdout)?.[1])
    expect(runs.map(({ code, stderr }) => [code, stderr])).toEqual(Array.from(runs, () => [0, '']))
    expect(ids[0]).toBeDefined()
    expect(ids[1]).toBe(ids[0])
    expect((await replica.ask('GET', '/v1/requests')).body['requests']).toMatchObject([
      { id: ids[0], tasks: ['app'], state: 'waiting' },
    ])
  })
})
