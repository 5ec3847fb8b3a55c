import { afterEach, beforeEach, expect, it } from 'vitest'
import { systemClock } from '../../src/keeper/clock.ts'
import { problem, StubService } from '../shim/stub-service.ts'
import { called } from './called.ts'

let stub: StubService
beforeEach(async () => {
  stub = await new StubService().listen()
})
afterEach(() => stub.close())

const status = (...words: string[]) => called(['status', ...words], { LOCKKEEPER_ADDR: stub.address })

const SEMAPHORE = {
  scope: { namespace: 'default', job: 'web', group: 'api' },
  path: 'lockkeeper/semaphores/default/web/api',
  grants: 17,
  holds: [
    {
      hold: 'h-1',
      unit: 'a-1',
      place: 'web.api[0]',
      node: 'node-1',
      tasks: [],
      action: 'restart',
      reason: 'new certificate',
      actor: 'a-1',
      token: 17,
      slot: 0,
      phase: 'observing',
      outcome: 'done',
      since: '2026-01-01T00:00:00Z',
      phase_since: '2026-01-01T00:00:10Z',
      was_up: true,
    },
  ],
  queue: [
    { unit: 'a-2', place: 'web.api[1]', position: 1, kind: 'full', detail: '1 of 1 slots are taken', priority: 0 },
    { unit: 'a-30', place: 'web.api[2]', position: 2, kind: 'full', detail: '1 of 1 slots are taken', priority: 0 },
  ],
  failures: [],
  halted: null,
  locked: null,
  policy: { max_parallel: { value: 1, from: 'update' } },
}
const NOTHING_WATCHED = { groups: [], interval: '30s', missing: [] }
function shows(semaphores: unknown[], locks: unknown[] = [], watched: object = NOTHING_WATCHED): void {
  const bodyOf = (path: string) =>
    path.startsWith('/v1/locks') ? { locks } : path.startsWith('/v1/watched') ? watched : { semaphores }
  stub.get = (path) => ({ status: 200, body: bodyOf(path) })
}

it('shows who holds since when, and who waits in which place and why', async () => {
  shows([SEMAPHORE])
  const clock = { ...systemClock, wall: () => Date.parse('2026-01-01T00:01:25.300Z') }
  const ended = await called(['status'], { LOCKKEEPER_ADDR: stub.address }, { clock })
  expect(ended).toMatchObject({ code: 0, stderr: '' })
  expect(ended.stdout).toBe(
    [
      'default/web/api  1 of 1 held, 2 waiting, newest token 17',
      '  holds',
      '    a-1  observing (done) for 1m15s  slot 0  node-1  restart: new certificate  hold h-1',
      '  queue',
      '    1  a-2   full  1 of 1 slots are taken',
      '    2  a-30  full  1 of 1 slots are taken',
      '',
    ].join('\n'),
  )
})

it('says why nothing moves: halted, locked, wrong policy, a state that cannot be read', async () => {
  const shut = {
    ...SEMAPHORE,
    holds: [],
    queue: [],
    halted: { since: '2026-01-01T00:00:00Z', reason: 'a-1 failed' },
    locked: 'everything is locked by ada: fire',
    policy_faults: ['max_parallel is no amount'],
    failures: [
      { unit: 'a-1', place: 'web.api[0]', token: 3, slot: 0, reason: 'not healthy in time', at: '2026-01-01T00:00:00Z' },
    ],
  }
  const broken = {
    scope: null,
    path: 'lockkeeper/semaphores/x',
    grants: null,
    holds: [],
    queue: [],
    unreadable: 'it is not JSON',
  }
  shows([shut, broken], [{ path: 'lockkeeper/locks', reason: 'fire', by: 'ada', until: '2099-01-01T00:00:00Z' }])
  const { stdout } = await status()
  for (const text of [
    'operator locks',
    '    lockkeeper/locks  by ada  until 2099-01-01T00:00:00Z  fire',
    ': a-1 failed',
    'everything is locked by ada: fire',
    'its policy is wrong, so nobody goes: max_parallel is no amount',
    'not healthy in time',
    'its state cannot be read, so it stays shut: it is not JSON',
  ])
    expect(stdout).toContain(text)
})

it('says for watched files how many allocations run with them as they are, which do not, and why', async () => {
  const open = (n: number, state: string, detail: string) => ({
    allocation: `a-${n}`,
    place: `web.api[${n}]`,
    node: 'n',
    state,
    detail,
  })
  const current = { ...open(0, 'current', ''), node: 'm' }
  const group = {
    scope: { namespace: 'default', job: 'web', group: 'api' },
    watched: 4,
    current: 1,
    unknown: 1,
    allocations: [
      current,
      open(1, 'changed', 'secrets/app.env changed'),
      open(2, 'unknown', 'the client of its node gives no answer'),
      open(3, 'found_out', 'local/x: new again after each act'),
    ],
    faults: ['lockkeeper_watch in task log meta: a path is empty'],
    warnings: ['template local/b.env of task app has env = true'],
  }
  const missing = ['files in namespace ops cannot be seen: the token has no right read-fs there']
  shows([], [], { groups: [group], interval: '30s', missing })
  expect((await status()).stdout).toBe(
    [
      'nothing is held and nobody waits',
      '',
      'watched files',
      '  files in namespace ops cannot be seen: the token has no right read-fs there',
      '  default/web/api  1 of 4 converged, 1 unknown',
      '    not watched: lockkeeper_watch in task log meta: a path is empty',
      '    template local/b.env of task app has env = true',
      '    a-1  changed    n  secrets/app.env changed',
      '    a-2  unknown    n  the client of its node gives no answer',
      '    a-3  found_out  n  local/x: new again after each act',
      '',
    ].join('\n'),
  )
})

it('names twenty allocations of a group at most', async () => {
  const allocations = Array.from({ length: 25 }, (_, n) => ({ allocation: `a-${n}`, node: 'n', state: 'changed', detail: 'x' }))
  const group = { scope: { shared: 'x' }, watched: 25, current: 0, unknown: 0, allocations, faults: [], warnings: [] }
  shows([], [], { groups: [group], interval: '30s', missing: [] })
  expect((await status()).stdout).toContain('    and 5 more\n')
})

it('asks for the level that was named', async () => {
  shows([])
  const ended = await status('--job', 'a/b', '--group', 'api')
  expect(ended.stdout).toBe('nothing is held and nobody waits\n')
  expect(stub.received[0]?.url).toBe('/v1/semaphores?namespace=default&job=a%2Fb&group=api')
})

it('with --json gives what the service answers', async () => {
  shows([SEMAPHORE], [])
  expect(JSON.parse((await status('--json')).stdout)).toEqual({ semaphores: [SEMAPHORE], locks: [], watched: NOTHING_WATCHED })
})

it('shows colours only on a terminal, and not where NO_COLOR is set', async () => {
  shows([SEMAPHORE])
  const written: string[] = []
  const stdout = { write: (text: string) => void written.push(text), isTTY: true }
  const env = { LOCKKEEPER_ADDR: stub.address }
  await called(['status'], env, { stdout })
  await called(['status'], { ...env, NO_COLOR: '1' }, { stdout })
  expect(written.map((text) => text.includes('\u001b['))).toEqual([true, false])
  expect((await status()).stdout).not.toContain('\u001b[')
})

it('a text from elsewhere cannot steer the terminal', async () => {
  shows([], [{ path: 'lockkeeper/locks', reason: '\u001b[2Jgone\r\n', by: 'x\u0007' }])
  const { stdout } = await status()
  for (const sign of ['\u001b', '\u0007', '\r']) expect(stdout).not.toContain(sign)
  expect(stdout.trim().split('\n')).toHaveLength(4)
})

it('says when the service cannot be reached, or is none', async () => {
  const nobody = await called(['status'], { LOCKKEEPER_ADDR: 'http://127.0.0.1:1' })
  expect(nobody).toMatchObject({ code: 6, stdout: '' })
  expect(nobody.stderr).toMatch(/^lockkeeper status: no replica of the service answers [^\n]*\n$/)
  stub.get = () => problem('nomad_unavailable', 'no leader')
  expect(await status()).toMatchObject({ code: 6, stderr: 'lockkeeper status: no leader\n' })
  stub.get = () => ({ status: 200, body: 'hello' })
  expect(await status()).toMatchObject({ code: 6 })
})
