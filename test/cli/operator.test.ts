import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { emptyState, type Hold, type State } from '../../src/core/state.ts'
import { DevNomad, type Listening } from '../../src/devnomad/devnomad.ts'
import { systemClock } from '../../src/keeper/clock.ts'
import { paths } from '../../src/keeper/paths.ts'
import { readSemaphore, semaphoreItems, type Items } from '../../src/keeper/records.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { sequentialIds } from '../support/sequential-ids.ts'
import { called, type Called } from './called.ts'

const SCOPE = { namespace: 'default', job: 'web', group: 'api' }
const AT = paths('lockkeeper')
let nomad: DevNomad
let listening: Listening

beforeEach(async () => {
  nomad = new DevNomad({ clock: systemClock, newId: sequentialIds() })
  listening = await nomad.listen()
  await put(AT.sentinel, { about: 'test' })
})
afterEach(async () => {
  nomad.close()
  await listening.close()
})

const call = (...argv: string[]) => called(argv, { NOMAD_ADDR: listening.address, USER: 'ada' })

async function put(path: string, items: Items): Promise<void> {
  const body = JSON.stringify({ Path: path, Items: items })
  const { status, body: text } = await nomad.handle({ method: 'PUT', path: `/v1/var/${path}`, body })
  expect(status, text).toBe(200)
}
async function read(path: string): Promise<Items | null> {
  const { status, body } = await nomad.handle({ method: 'GET', path: `/v1/var/${path}` })
  return status === 404 ? null : (JSON.parse(body) as { Items: Items }).Items
}
const stored = async () => readSemaphore((await read(AT.semaphore(SCOPE))) as Items) as State
const json = ({ stdout }: Called) => JSON.parse(stdout) as Record<string, unknown>

const HOLD: Hold = {
  id: 'h-1',
  key: 'k',
  token: 4,
  slot: 0,
  unit: 'a-1',
  place: 'web.api[0]',
  tasks: [],
  managed: false,
  action: 'restart',
  reason: 'new certificate',
  actor: 'a-1',
  lease: { path: 'lockkeeper/leases/x', index: 5, proof: 'p' },
  request: null,
  adopted: 0,
  phase: 'observing',
  outcome: 'done',
  grantedAt: Date.UTC(2026, 0, 1),
  phaseSince: Date.UTC(2026, 0, 1),
  wasUp: true,
  baseline: {},
}
const givenHold = () => put(AT.semaphore(SCOPE), semaphoreItems({ ...emptyState(SCOPE, 4), holds: [HOLD] }) as Items)

describe('lock', () => {
  it('writes the lock with reason, by and until, and says that nothing is under way', async () => {
    const ended = await call('lock', '--job', 'web', '--reason', 'lunch', '--until', '2099-01-01T00:00:00Z', '--by', 'ada')
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    expect(ended.stdout).toBe('default/web is locked until 2099-01-01T00:00:00.000Z: lunch\nnothing is under way\n')
    expect(await read(AT.lock({ namespace: 'default', job: 'web' }))).toMatchObject({
      reason: 'lunch',
      by: 'ada',
      until: '2099-01-01T00:00:00.000Z',
    })
  })

  it('says what was granted before and is under way', async () => {
    await givenHold()
    const ended = await call('lock', '--all', '--reason', 'fire')
    expect(ended.stdout).toContain('everything is locked: fire\nunder way, granted before:\n')
    expect(ended.stdout).toContain('default/web/api  a-1  observing  hold h-1')
    const again = await call('lock', '--job', 'web', '--reason', 'fire', '--json')
    expect(json(again)).toMatchObject({
      locked: { namespace: 'default', job: 'web', reason: 'fire', by: expect.stringMatching(/^ada@/) },
      in_flight: [{ hold: 'h-1', unit: 'a-1', phase: 'observing', scope: SCOPE }],
    })
  })

  it('does not change a lock that is there', async () => {
    await call('lock', '--all', '--reason', 'first', '--by', 'bob')
    const ended = await call('lock', '--all', '--reason', 'second')
    expect(ended.code).toBe(2)
    expect(ended.stderr).toBe('lockkeeper lock: everything is locked by bob: first; unlock it first\n')
    expect((await read(AT.locks))?.['reason']).toBe('first')
  })

  it('with --wait comes back when what was under way is over', async () => {
    await givenHold()
    const clock = new ManualClock()
    const argv = ['lock', '--job', 'web', '--reason', 'r', '--wait']
    const locking = called(argv, { NOMAD_ADDR: listening.address }, { clock })
    while (clock.pending === 0 || (await read(AT.lock({ namespace: 'default', job: 'web' }))) === null) await soon()
    await put(AT.semaphore(SCOPE), semaphoreItems(emptyState(SCOPE, 4)) as Items)
    const ended = await advancedUntil(clock, locking)
    expect(ended.code).toBe(0)
    expect(ended.stdout).toContain('nothing is under way any more\n')
  })

  it('with --wait stops waiting after its time, and the lock stays', async () => {
    await givenHold()
    const clock = new ManualClock()
    const argv = ['lock', '--job', 'web', '--reason', 'r', '--wait', '--timeout', '5s']
    const ended = await advancedUntil(clock, called(argv, { NOMAD_ADDR: listening.address }, { clock }))
    expect(ended.code).toBe(3)
    expect(ended.stdout).toContain('still under way after 5s (the lock stays):\n')
    expect(await read(AT.lock({ namespace: 'default', job: 'web' }))).not.toBeNull()
  })

  it('refuses to write where no lockkeeper has ever run: it would shut nothing', async () => {
    const ended = await call('lock', '--all', '--reason', 'r', '--prefix', 'elsewhere')
    expect(ended.code).toBe(2)
    expect(ended.stderr).toContain('elsewhere/locks/~sentinel is not there')
    expect(await read('elsewhere/locks')).toBeNull()
    expect((await call('lock', '--all', '--reason', 'r', '--prefix', 'elsewhere', '--anyway')).code).toBe(0)
  })

  it.each([
    [['--reason', 'r'], 'lock what? name a level, or say --all'],
    [['--all', '--job', 'web', '--reason', 'r'], '--all does not go with a level'],
    [['--job', 'web'], '--reason is missing'],
    [['--group', 'api', '--reason', 'r'], 'group needs job'],
    [['--job', 'web', '--shared', 's', '--reason', 'r'], 'give one of'],
    [['--job', '', '--reason', 'r'], '--job is empty'],
    [['--all', '--reason', 'r', '--until', 'tomorrow'], '--until: "tomorrow" is neither'],
    [['--all', '--reason', 'r', '--until', '2020-01-01T00:00:00Z'], '--until: that is over already'],
    [['--all', '--reason', 'r', '--prefix', 'nomad/x'], 'reserved by Nomad'],
  ])('wrong words change nothing: %j', async (words, text) => {
    const ended = await call('lock', ...words)
    expect(ended).toMatchObject({ code: 2, stdout: '' })
    expect(ended.stderr).toContain(text)
    expect(ended.stderr).toMatch(/^lockkeeper lock: [^\n]*\n$/)
    expect(await read(AT.locks)).toBeNull()
  })

  it('does not guess the namespace of a job when NOMAD_NAMESPACE names another than default', async () => {
    const env = { NOMAD_ADDR: listening.address, NOMAD_NAMESPACE: 'ops' }
    const ended = await called(['lock', '--job', 'web', '--reason', 'r'], env)
    expect(ended.code).toBe(2)
    expect(ended.stderr).toContain('say with --namespace in which namespace the job is')
  })

  it('says in one line that Nomad cannot be reached, and as a problem with --json', async () => {
    const clock = new ManualClock()
    const env = { NOMAD_ADDR: 'http://127.0.0.1:1' }
    const ended = await advancedUntil(clock, called(['lock', '--all', '--reason', 'r', '--json'], env, { clock }))
    expect(ended).toMatchObject({ code: 6, stdout: '' })
    expect(JSON.parse(ended.stderr)).toMatchObject({
      kind: 'nomad_unavailable',
      type: 'urn:lockkeeper:problem:nomad_unavailable',
    })
  })
})

describe('unlock', () => {
  it('removes the lock, says whose it was, and what still shuts the level', async () => {
    await call('lock', '--all', '--reason', 'fire', '--by', 'bob')
    await call('lock', '--job', 'web', '--reason', 'lunch', '--by', 'ada')
    const ended = await call('unlock', '--job', 'web')
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    expect(ended.stdout).toBe(
      'default/web is unlocked; it was locked by ada: lunch\nit is still shut by lockkeeper/locks, by bob: fire\n',
    )
    expect(await read(AT.lock({ namespace: 'default', job: 'web' }))).toBeNull()
    expect(json(await call('unlock', '--all', '--json'))).toMatchObject({ unlocked: { by: 'bob' }, still_locked_by: [] })
  })

  it('says when there is none', async () => {
    const ended = await call('unlock', '--namespace', 'default')
    expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('there is no operator lock on default') as string })
  })
})

describe('resume and release', () => {
  it('resume lifts a halt and forgets the failures', async () => {
    const halted = { ...emptyState(SCOPE, 4), halted: { since: 0, reason: 'a-1 failed' } }
    await put(AT.semaphore(SCOPE), semaphoreItems(halted) as Items)
    const ended = await call('resume', '--job', 'web', '--group', 'api', '--reason', 'fixed')
    expect(ended).toMatchObject({ code: 0, stdout: 'default/web/api goes on\n' })
    expect((await stored()).halted).toBeNull()
    const again = await call('resume', '--job', 'web', '--group', 'api', '--reason', 'fixed', '--json')
    expect(json(again)).toEqual({ scope: SCOPE, resumed: false })
  })

  it('resume needs one semaphore and a reason', async () => {
    expect((await call('resume', '--job', 'web', '--reason', 'r')).stderr).toContain('resume what? name one semaphore')
    expect((await call('resume', '--job', 'web', '--group', 'api')).stderr).toContain('--reason is missing')
    const unknown = await call('resume', '--shared', 'docker', '--reason', 'r')
    expect(unknown).toMatchObject({ code: 2, stderr: 'lockkeeper resume: nothing was ever held in shared docker\n' })
  })

  it('release ends a hold by force and says what it cannot do', async () => {
    await givenHold()
    const ended = await call('release', 'h-1', '--reason', 'node is gone')
    expect(ended.code).toBe(0)
    expect(ended.stdout).toContain('hold h-1 of a-1 in default/web/api is ended; whoever acts under it may still act')
    const state = await stored()
    expect(state.holds).toEqual([])
    expect(state.transitions.at(-1)).toMatchObject({ kind: 'forced_release', reason: 'node is gone' })
    expect(await call('release', 'h-1', '--reason', 'again')).toMatchObject({ code: 2, stdout: '' })
  })

  it('release needs a hold', async () => {
    expect(await call('release', '--reason', 'r')).toMatchObject({ code: 2, stderr: 'lockkeeper release: HOLD is missing\n' })
  })
})

const soon = () => new Promise((resolve) => setImmediate(resolve))

/** Moves time on, in small steps between which sockets get their turn, until the work is over. */
async function advancedUntil<T>(clock: ManualClock, work: Promise<T>): Promise<T> {
  let over = false
  const end = () => (over = true)
  work.then(end, end)
  while (!over) {
    for (let turn = 0; turn < 20 && !over; turn++) await soon()
    if (!over) await clock.advance(50)
  }
  return await work
}
