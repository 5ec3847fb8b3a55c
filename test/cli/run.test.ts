import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { grant, LEASE, problem, StubService } from '../shim/stub-service.ts'
import { Binary, type Running } from './binary.ts'
import { called } from './called.ts'

const binary = new Binary()
let stub: StubService

beforeAll(() => void binary.build())
afterAll(() => binary.remove())
beforeEach(async () => {
  stub = await new StubService().listen()
})
afterEach(async () => {
  binary.endAll()
  await stub.close()
})

const env = () => ({ LOCKKEEPER_ADDR: stub.address, NOMAD_ALLOC_ID: 'a-1' })
const run = (...words: string[]) => binary.run(['run', ...words], env())
/** Where the command never runs: in here, as that is faster. */
const call = (...words: string[]) => called(['run', ...words], env())
const start = (...words: string[]) => binary.start(['run', ...words], env())
/** A command that says that it is there, and when it is told to end. */
const PATIENT = ['sh', '-c', 'trap "echo told; exit 9" TERM; echo ready; while :; do sleep 0.02; done']
const outcomes = () => stub.of('release').map(({ outcome }) => outcome)
const eventsOf = ({ stderr }: { readonly stderr: string }) =>
  stderr
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => (JSON.parse(line) as { event?: string; kind?: string }).event ?? 'problem')

describe('the command', () => {
  it('C3.15 the words reach the command unchanged, without a shell in between', async () => {
    const ended = await run('--', 'printf', '%s|', 'x && y', '$HOME', '', '--reason', '*')
    expect(ended).toMatchObject({ code: 0, stdout: 'x && y|$HOME||--reason|*|', stderr: '' })
  })

  it('C3.15 with a shell of its own both commands run under the hold', async () => {
    const ended = await run('--', 'sh', '-c', 'echo a && echo b')
    expect(ended).toMatchObject({ code: 0, stdout: 'a\nb\n' })
    expect(stub.received.map(({ url }) => url)).toEqual(['/v1/holds?wait=2s', '/v1/holds/h-1/renew', '/v1/holds/h-1/release'])
  })

  it('knows its hold, token and slot, and not the lease', async () => {
    const ended = await run('--json', '--', 'env')
    expect(ended.stdout).toContain('LOCKKEEPER_HOLD=h-1\n')
    expect(ended.stdout).toContain('LOCKKEEPER_TOKEN=7\n')
    expect(ended.stdout).toContain('LOCKKEEPER_SLOT=2\n')
    expect(ended.stdout + ended.stderr).not.toContain(LEASE)
    expect(eventsOf(ended)).toEqual(['granted', 'started', 'exited', 'released'])
  })

  it('has our standard input', async () => {
    const running = start('--', 'sh', '-c', 'read line; echo "got $line"')
    running.write('hello\n')
    expect(await running.ended).toMatchObject({ code: 0, stdout: 'got hello\n' })
  })

  it.each([
    [['true'], 0, 'done'],
    [['sh', '-c', 'exit 7'], 7, 'failed'],
    [['sh', '-c', 'kill -KILL $$'], 137, 'failed'],
  ] as const)('%j gives its own exit code and says how it ended', async (command, code, outcome) => {
    expect(await run('--', ...command)).toMatchObject({ code, stderr: '' })
    expect(outcomes()).toEqual([outcome])
  })

  it.each([
    ['/no/such/command', 127],
    [import.meta.filename, 126],
  ])('C3.5 when it cannot be executed the hold is released as abandoned: %s', async (file, code) => {
    const ended = await run('--', file)
    expect(ended.code).toBe(code)
    expect(ended.stderr).toContain('cannot be executed')
    expect(ended.stderr).not.toContain('    at ')
    expect(outcomes()).toEqual(['abandoned'])
  })
})

describe('C3.16 exit codes tell what happened', () => {
  it('3 when it was not granted in time', async () => {
    stub.ask = () => problem('full', 'a-2 is held (observing)', { position: 2, waiting: 3 })
    const ended = await call('--wait', '200ms', '--', 'echo', 'acted')
    expect(ended).toMatchObject({ code: 3, stdout: '' })
    expect(ended.stderr.split('\n')).toEqual([
      'lockkeeper run: waiting, full, place 2 of 3: a-2 is held (observing)',
      'lockkeeper run: not granted within 200ms: a-2 is held (observing)',
      '',
    ])
  })

  it.each(['locked', 'halted'] as const)('4 when the last reason was an operator lock or a halt: %s', async (kind) => {
    stub.ask = () => problem(kind)
    expect(await call('--wait', '0', '--', 'echo', 'acted')).toMatchObject({ code: 4, stdout: '' })
  })

  it('5 when the lease was lost', async () => {
    stub.ask = () => ({ status: 201, body: grant({ ttl: '2s', renew_every: '50ms' }) })
    const running = start('--', ...PATIENT)
    await running.until('stdout', 'ready')
    stub.renew = () => problem('lease_lost')
    expect(await running.ended).toMatchObject({ code: 5 })
  })

  it('6 when no replica can be reached, or none can reach Nomad', async () => {
    const nobody = { ...env(), LOCKKEEPER_ADDR: 'http://127.0.0.1:1' }
    const ended = await called(['run', '--wait', '300ms', '--', 'echo', 'acted'], nobody)
    expect(ended).toMatchObject({ code: 6, stdout: '' })
    stub.ask = () => problem('nomad_unavailable', 'no leader')
    expect(await call('--wait', '0', '--', 'echo', 'acted')).toMatchObject({ code: 6, stdout: '' })
  })

  it('2 when the service refuses', async () => {
    stub.ask = () => problem('unknown_allocation', 'Nomad knows no allocation a-1')
    const ended = await call('--', 'echo', 'acted')
    expect(ended).toMatchObject({ code: 2, stdout: '', stderr: 'lockkeeper run: Nomad knows no allocation a-1\n' })
  })

  it('with --json the reason is a problem document', async () => {
    stub.ask = () => problem('full', 'a-2 is held', { position: 1 })
    const { stderr, code } = await call('--json', '--wait', '0', '--', 'true')
    const lines = stderr.trim().split('\n')
    expect(code).toBe(3)
    expect(JSON.parse(lines.at(-1) as string)).toMatchObject({ kind: 'full', status: 429, position: 1 })
  })
})

describe('when the lease is lost', () => {
  const short = () => ({ status: 201, body: grant({ ttl: '2s', renew_every: '50ms' }) })

  it('C4.4 the command gets SIGTERM, is not started again, and nothing is released', async () => {
    stub.ask = short
    const running = start('--json', '--', ...PATIENT)
    await running.until('stdout', 'ready')
    stub.renew = () => problem('lease_lost', 'the lease of hold h-1 is lost')
    const ended = await running.ended
    expect(ended).toMatchObject({ code: 5, stdout: 'ready\ntold\n' })
    expect(eventsOf(ended)).toEqual(['granted', 'started', 'lease_lost', 'exited'])
    expect(stub.of('ask')).toHaveLength(1)
    expect(outcomes()).toEqual([])
  })

  it('what the command has started is told as well, not the shell alone', async () => {
    stub.ask = short
    const inner = PATIENT[2] as string
    const running = start('--', 'sh', '-c', `sh -c '${inner}'; echo never`)
    await running.until('stdout', 'ready')
    stub.renew = () => problem('unknown_hold')
    expect(await running.ended).toMatchObject({ code: 5, stdout: 'ready\ntold\n' })
  })

  it('a command that does not end is killed after the time that it was given', async () => {
    stub.ask = short
    const running = start(
      '--json',
      '--kill-timeout',
      '100ms',
      '--',
      'sh',
      '-c',
      'trap "" TERM; echo ready; while :; do sleep 0.02; done',
    )
    await running.until('stdout', 'ready')
    stub.renew = () => problem('lease_lost')
    const ended = await running.ended
    expect(ended.code).toBe(5)
    expect(eventsOf(ended).slice(-3)).toEqual(['lease_lost', 'killed', 'exited'])
  })

  it('renewals that nobody answers end the command one time to live after the last that was', async () => {
    stub.ask = () => ({ status: 201, body: grant({ ttl: '1500ms', renew_every: '50ms' }) })
    const running = start('--', ...PATIENT)
    await running.until('stdout', 'ready')
    stub.renew = () => null
    expect(await running.ended).toMatchObject({ code: 5, stdout: 'ready\ntold\n' })
  })
})

describe('signals', () => {
  const told = async (running: Running, signal: NodeJS.Signals) => {
    await running.until('stdout', 'ready')
    running.kill(signal)
    return await running.ended
  }

  it.each(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const)('%s goes on to the command', async (signal) => {
    const trap = `trap "exit 9" ${signal.slice(3)}; echo ready; while :; do sleep 0.02; done`
    expect(await told(start('--', 'sh', '-c', trap), signal)).toMatchObject({ code: 9 })
    expect(outcomes()).toEqual(['failed'])
  })

  it('C4.5 a shim that was granted and has not acted releases as abandoned, without a stack trace', async () => {
    stub.renew = () => null
    const running = start('--', 'echo', 'acted')
    await stub.until(() => stub.of('renew').length === 1)
    running.kill('SIGTERM')
    expect(await running.ended).toMatchObject({ code: 143, stdout: '', stderr: '' })
    expect(outcomes()).toEqual(['abandoned'])
  })

  it('a shim that waits withdraws by closing its call', async () => {
    stub.ask = () => null
    const running = start('--', 'echo', 'acted')
    await stub.until(() => stub.of('ask').length === 1)
    running.kill('SIGINT')
    expect(await running.ended).toMatchObject({ code: 130, stdout: '', stderr: '' })
    await stub.until(() => stub.closed === 1)
    expect(outcomes()).toEqual([])
  })

  it('a shim that waits is not ended by a signal that is meant for the command', async () => {
    stub.ask = () => null
    const running = start('--', 'echo', 'acted')
    await stub.until(() => stub.of('ask').length === 1)
    running.kill('SIGUSR1')
    running.kill('SIGTERM')
    expect(await running.ended).toMatchObject({ code: 143 })
  })
})
