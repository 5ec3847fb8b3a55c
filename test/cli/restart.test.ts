import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { ReplicaUnderTest } from '../support/replica.ts'
import { Binary, type Ended } from './binary.ts'
import { called } from './called.ts'

const META = {
  lockkeeper_wait_for_deployment: 'false',
  lockkeeper_health_check: 'task_states',
  lockkeeper_min_healthy_time: '2s',
}
const binary = new Binary()
let given: ReplicaUnderTest

beforeAll(async () => {
  binary.build()
  given = await ReplicaUnderTest.start()
}, 60_000)
afterEach(async () => {
  binary.endAll()
  await given.ask('DELETE', '/v1/locks')
})
afterAll(async () => {
  await given.close()
  binary.remove()
})

const env = () => ({ NOMAD_ADDR: given.nomadAddress, LOCKKEEPER_ADDR: given.replica.address, USER: 'ada' })
const start = (...words: string[]) => binary.start(['restart', ...words], env())
/** In here, where no signal is sent: that is faster. */
const call = (...words: string[]) => called(['restart', ...words], env())
const jobOf = (id: string, count = 3) => given.job(id, { count, meta: META })
const lock = () => given.ask('PUT', '/v1/locks', { body: { reason: 'freeze' } })
const unlock = () => given.ask('DELETE', '/v1/locks')

interface Event {
  readonly event: string
  readonly wave: string
  readonly state?: string
  readonly [field: string]: unknown
}
const eventsOf = ({ stdout }: Pick<Ended, 'stdout'>) =>
  stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Event)
const stubOf = async (id: string) =>
  (await given.askNomad('GET', `/v1/allocation/${id}`)).body as { Name: string; TaskStates: { app: { Restarts: number } } }
const restartsOf = (ids: readonly string[]) => Promise.all(ids.map(async (id) => (await stubOf(id)).TaskStates.app.Restarts))
const historyOf = async (job: string) => {
  const items = await given.itemsOf(`lockkeeper/semaphores/default/${job}/api`)
  return (JSON.parse(items?.['state'] ?? '{}') as { transitions: { kind: string }[] }).transitions.map(({ kind }) => kind)
}
const openOf = async (job: string) =>
  (
    (await given.ask('GET', `/v1/requests?namespace=default&job=${job}`)).body as {
      requests: { id: string; allocation: string; state: string; wave: string }[]
    }
  ).requests.filter(({ state }) => ['waiting', 'acting', 'observing'].includes(state))
/** What a hint says behind two blanks, as the words of a shell would be. */
const hint = (text: string, about: string) =>
  (new RegExp(`to ${about}: +lockkeeper (.+)`).exec(text)?.[1] ?? '').split(' ').slice(1)

describe('restart JOB', () => {
  it('restarts one after another, each once, and says what it waits for', async () => {
    const ids = await jobOf('one-by-one')
    const ended = await start('one-by-one', 'api', '--reason', 'new password').ended
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    const lines = ended.stdout.trim().split('\n')
    expect(lines[0]).toMatch(/^wave one-by-one-\d{8}-\d{6}-ada-\S+: 3 allocations of default\/one-by-one\/api$/)
    expect(lines.at(-1)).toMatch(/: 3 done, \d+s$/)
    for (const nth of [0, 1, 2]) expect(ended.stdout).toMatch(new RegExp(`one-by-one\\.api\\[${nth}\\]  \\w{8}  done: healthy`))
    expect(ended.stdout).toContain('waiting, place 2, full: ')
    expect(await restartsOf(ids)).toEqual([1, 1, 1])
    const each = ['granted', 'released', 'healthy']
    expect(await historyOf('one-by-one')).toEqual([...each, ...each, ...each])
    expect(await call('one-by-one', '--namespace', 'default', '--detach')).toMatchObject({ code: 0 })
    expect(await openOf('one-by-one'), 'a new command after it is a new restart').toHaveLength(3)
  })

  it('C5.6 two operators are one wave: none is restarted twice, none left out, though one is killed', async () => {
    const ids = await jobOf('twice')
    const first = start('twice', '--json')
    const second = binary.start(['restart', 'twice', '--json', '--reason', 'me too'], { ...env(), USER: 'bob' })
    await first.until('stdout', '"state":"done"')
    first.kill('SIGKILL')
    const third = await start('twice', '--json').ended
    const seconds = await second.ended
    expect([seconds.code, third.code]).toEqual([0, 0])
    const [a, b, c] = [await first.ended, seconds, third].map((one) => eventsOf(one)[0] as Event)
    expect(b?.wave).toBe(a?.wave)
    expect(c?.wave).toBe(a?.wave)
    expect([a?.['joined'], b?.['joined']].filter((joined) => joined === null)).toHaveLength(1)
    expect(c?.['joined']).toMatch(/^(restart by ada|me too)/)
    expect(eventsOf(third).at(-1)).toMatchObject({ event: 'over', exit: 0, done: 3 })
    expect(await restartsOf(ids)).toEqual([1, 1, 1])
  })

  it('asks for what is missing when the one before was killed while asking', async () => {
    const ids = await jobOf('halfway')
    await lock()
    const body = { allocation: ids[0], reason: 'restart by bob', wave: 'halfway-bob' }
    await given.ask('PUT', '/v1/requests', { body })
    const ended = await call('halfway', '--detach', '--json')
    expect(eventsOf(ended)[0]).toMatchObject({
      event: 'wave',
      wave: 'halfway-bob',
      joined: expect.stringMatching(/^restart by bob, since /) as string,
    })
    const open = await openOf('halfway')
    expect(open.map(({ wave }) => wave)).toEqual(['halfway-bob', 'halfway-bob', 'halfway-bob'])
    expect(new Set(open.map(({ allocation }) => allocation))).toEqual(new Set(ids))
  })

  it('replaces each once, also when it is asked again meanwhile', async () => {
    const ids = await jobOf('replaced', 2)
    const first = start('replaced', '--action', 'replace', '--json')
    await first.until('stdout', '"state":"done"')
    const again = await start('replaced', '--action', 'replace', '--json').ended
    expect([again.code, (await first.ended).code]).toEqual([0, 0])
    const { text } = await given.askNomad('GET', '/v1/job/replaced/allocations')
    const all = JSON.parse(text) as { ID: string; DesiredStatus: string }[]
    expect(all).toHaveLength(4)
    expect(all.filter(({ DesiredStatus }) => DesiredStatus === 'run').some(({ ID }) => ids.includes(ID))).toBe(false)
  })

  it('where nothing runs there is nothing to do', async () => {
    await jobOf('none', 1)
    await given.askNomad('PUT', '/v1/job/none/scale', { Count: 0, Target: { Group: 'api' } })
    await given.askNomad('DELETE', '/v1/job/none')
    await given.until(async () => {
      const { text } = await given.askNomad('GET', '/v1/job/none/allocations')
      return (JSON.parse(text) as { ClientStatus: string }[]).every(({ ClientStatus }) => ClientStatus === 'complete')
    })
    expect(await call('none')).toEqual({
      code: 0,
      stdout: 'nothing runs in default/none: there is nothing to restart\n',
      stderr: '',
    })
  })
})

describe('who looks away', () => {
  it('Ctrl-C leaves the requests, and its hints go on watching', async () => {
    const ids = await jobOf('looked-at', 1)
    await lock()
    const running = start('looked-at')
    await running.until('stdout', 'waiting, place 1, locked: everything is locked')
    running.kill('SIGINT')
    const ended = await running.ended
    expect(ended).toMatchObject({ code: 130, signal: null, stderr: '' })
    expect(ended.stdout).toContain('SIGINT: what was asked for goes on\n')
    expect(await openOf('looked-at')).toHaveLength(1)
    expect(await restartsOf(ids)).toEqual([0])
    await unlock()
    const again = await start(...hint(ended.stdout, 'go on watching')).ended
    expect(again).toMatchObject({ code: 0, stderr: '' })
    expect(again.stdout).toMatch(/1 done, \d+s\n$/)
    expect(await restartsOf(ids)).toEqual([1])
  })

  it('--detach asks and goes, --cancel withdraws what waits', async () => {
    const ids = await jobOf('left', 2)
    await lock()
    const asked = await call('left', '--detach', '--addr', `http://127.0.0.1:1,${given.replica.address}`)
    expect(asked).toMatchObject({ code: 0, stderr: '' })
    expect(asked.stdout).toContain('asked for; the service goes on with it\n')
    const words = hint(asked.stdout, 'withdraw what waits')
    expect(words).toContain('--addr')
    const cancelled = await call(...words, '--json')
    expect(eventsOf(cancelled)).toMatchObject([
      { event: 'withdrawn', withdrawn: [{ allocation: expect.any(String) }, { allocation: expect.any(String) }], goes_on: [] },
    ])
    expect(await openOf('left')).toEqual([])
    const late = await call('--wave', words[1] as string)
    expect(late).toMatchObject({ code: 4, stderr: '' })
    expect(late.stdout).toMatch(/: 2 withdrawn, 0s\n$/)
    await unlock()
    expect(await restartsOf(ids)).toEqual([0, 0])
  })

  it('C3.12 says what a signal will not do', async () => {
    const template = { DestPath: 'secrets/app.env', Envvars: true, EmbeddedTmpl: 'a=b', ChangeMode: 'noop' }
    await given.job('signalled', { count: 1, meta: META, templates: [template] })
    await lock()
    const ended = await call('signalled', '--action', 'signal', '--signal', 'SIGUSR1', '--detach', '--json')
    expect(eventsOf(ended).find(({ event }) => event === 'warning')?.['detail']).toContain('secrets/app.env')
  })

  it('--wait watches for so long: 4 under an operator lock', async () => {
    await jobOf('bounded', 1)
    await lock()
    const ended = await call('bounded', '--wait', '1500ms')
    expect(ended.code).toBe(4)
    expect(ended.stdout).toContain('the time of --wait is up; what was asked for goes on\n')
    expect(await openOf('bounded')).toHaveLength(1)
  })
})

describe('restart ALLOCATION', () => {
  it('takes the beginning of an ID, and asks for that one alone', async () => {
    const ids = await jobOf('single', 2)
    await given.ask('PUT', '/v1/locks', { body: { namespace: 'default', job: 'single', reason: 'freeze' } })
    expect(await call((ids[1] as string).slice(0, 13), '--detach', '--wait', '1s')).toMatchObject({ code: 2 })
    const ended = await call((ids[1] as string).slice(0, 13), '--detach')
    expect(ended.stdout).toContain(`allocation ${ids[1]} of default/single/api`)
    expect((await openOf('single')).map(({ allocation }) => allocation)).toEqual([ids[1]])
    expect(await call(ids[0] as string, '--detach')).toMatchObject({ code: 0 })
    expect(await openOf('single')).toHaveLength(2)
  })

  it.each<[string[], string]>([
    [[], 'restart what? name an allocation or a job, or a wave with --wave'],
    [['no-such-job'], 'there is no job "no-such-job" in namespace default'],
    [['abcdef01'], 'there is no job "abcdef01" in namespace default, and no allocation whose ID begins so'],
    [['0b6e4ad4-0000-0000-0000-000000000000'], 'Nomad knows no allocation 0b6e4ad4-0000-0000-0000-000000000000'],
    [['single', 'nope'], 'job single has no group "nope"; it has api'],
    [['single', 'api', 'app'], '"app" is one word too many'],
    [['single', '--namespace', 'elsewhere'], 'there is no job "single" in namespace elsewhere'],
    [['single', '--action', 'reload'], '--action: one of restart, replace, signal'],
    [['single', '--signal', 'SIGHUP'], '--signal goes with --action signal'],
    [['single', '--cancel'], '--cancel goes with --wave'],
    [['single', '--wave', 'w'], '--wave does not go with single'],
    [['--wave', 'w', '--reason', 'r'], '--wave does not go with --reason'],
    [['--wave', 'w', '--cancel', '--wait', '1s'], '--wait does not go with --cancel'],
    [['--wave', 'never'], 'nobody knows of a wave never: it is over and forgotten, or never was'],
    [['--wave', 'never', '--cancel'], 'nobody knows of a wave never'],
  ])('%j is refused', async (words, text) => {
    await jobOf('single', 2)
    const before = await openOf('single')
    const ended = await call(...words)
    expect(ended).toMatchObject({ code: 2, stdout: '' })
    expect(ended.stderr).toMatch(/^lockkeeper restart: [^\n]*\n$/)
    expect(ended.stderr).toContain(text)
    expect(await openOf('single')).toEqual(before)
  })

  it('what may be several things is refused, and named', async () => {
    const ids = await jobOf('hex', 1)
    const beginning = (ids[0] as string).slice(0, 8)
    await jobOf(beginning, 1)
    const ended = await call(beginning)
    expect(ended.code).toBe(2)
    expect(ended.stderr).toContain(`"${beginning}" may mean a job, or ${ids[0]}: write more of the ID, or the group`)
    await lock()
    expect(await call(beginning, 'api', '--detach')).toMatchObject({ code: 0 })
  })
})

it('a failure ends it with 4, and the rest waits', async () => {
  const ids = await given.job('broken', { count: 2, meta: { ...META, lockkeeper_healthy_deadline: '3s' } })
  const names = await Promise.all(ids.map(async (id) => (await stubOf(id)).Name))
  const first = ids[names.indexOf('broken.api[0]')] as string
  given.nomad.setTask(first, { exit_after: '200ms', exit_code: 1 })
  const ended = await start('broken').ended
  expect(ended).toMatchObject({ code: 4, stderr: '' })
  expect(ended.stdout).toMatch(/broken\.api\[0\] {2}\w{8} {2}failed: /)
  expect(ended.stdout).toMatch(/: 1 failed, 1 waiting, \d+s\n/)
  expect(ended.stdout).toContain('the rest waits until what failed is mended')
  expect(await openOf('broken')).toHaveLength(1)
})

it('6 when no replica answers, and nothing is said of a wave', async () => {
  const ids = await jobOf('alone', 1)
  const ended = await binary.run(['restart', 'alone', '--json'], { ...env(), LOCKKEEPER_ADDR: 'http://127.0.0.1:1' })
  expect(ended).toMatchObject({ code: 6, stdout: '' })
  expect(JSON.parse(ended.stderr)).toMatchObject({ kind: 'service_unavailable' })
  expect(await restartsOf(ids)).toEqual([0])
})

describe('where everybody is asked who they are', () => {
  let guarded: ReplicaUnderTest
  beforeAll(async () => {
    guarded = await ReplicaUnderTest.start({ auth: ['identity'] }, { acl: true })
  })
  afterAll(() => guarded.close())

  it('shows the token of NOMAD_TOKEN to the service, and nowhere else', async () => {
    await guarded.job('web', { count: 1, meta: META })
    await guarded.putVariable('lockkeeper/locks', { reason: 'freeze' })
    const at = { NOMAD_ADDR: guarded.nomadAddress, LOCKKEEPER_ADDR: guarded.replica.address }
    const nobody = await called(['restart', 'web', '--detach'], at)
    expect(nobody).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('NOMAD_TOKEN') as string })
    const ended = await called(['restart', 'web', '--detach'], { ...at, NOMAD_TOKEN: guarded.token })
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    const cancelled = await called(['restart', ...hint(ended.stdout, 'withdraw what waits')], {
      ...at,
      NOMAD_TOKEN: guarded.token,
    })
    expect(cancelled).toMatchObject({ code: 0, stdout: expect.stringContaining(': 1 withdrawn, 0 under way\n') as string })
    expect(ended.stdout + guarded.logs.join('')).not.toContain(guarded.token)
  })
})
