import { afterEach, beforeEach, expect, it } from 'vitest'
import { StubService } from '../shim/stub-service.ts'
import { called } from './called.ts'

let stub: StubService

beforeEach(async () => {
  stub = await new StubService().listen()
})
afterEach(() => stub.close())

const run = (...words: string[]) => called(['run', ...words], { LOCKKEEPER_ADDR: stub.address, NOMAD_ALLOC_ID: 'a-1' })

it.each([
  [['--allocation', 'a-9'], { allocation: 'a-9', reason: 'true' }],
  [['--component', 'cache'], { allocation: 'a-1', component: 'cache', reason: 'true' }],
  [['--task', 'app'], { allocation: 'a-1', task: 'app', reason: 'true' }],
  [['--shared', 'docker', '--unit', 'n-1'], { shared: 'docker', unit: 'n-1', reason: 'true' }],
  [['--shared', 'docker'], { shared: 'docker', unit: expect.any(String), reason: 'true' }],
  [['--action', 'reload'], { allocation: 'a-1', action: 'reload', reason: 'true' }],
  [['--reason', 'new certificate'], { allocation: 'a-1', reason: 'new certificate' }],
  [['--priority=-5'], { allocation: 'a-1', priority: -5, reason: 'true' }],
  [['--wait', '5m'], { allocation: 'a-1', reason: 'true' }],
  [['--kill-timeout', '1s'], { allocation: 'a-1', reason: 'true' }],
  [['--verbose'], { allocation: 'a-1', reason: 'true' }],
  [['--json'], { allocation: 'a-1', reason: 'true' }],
])('C3.15 each flag works alone: %j', async (flags, wish) => {
  const ended = await run(...flags, '--', 'true')
  expect(ended.code).toBe(0)
  expect(stub.of('ask')).toEqual([{ ...wish, key: expect.stringMatching(/^[0-9a-f-]{36}$/) }])
})

it('--addr goes before the environment', async () => {
  const ended = await called(['run', '--addr', stub.address, '--', 'true'], {
    NOMAD_ALLOC_ID: 'a-1',
    LOCKKEEPER_ADDR: 'http://127.0.0.1:1',
  })
  expect(ended.code).toBe(0)
})

it('each process asks with a key of its own', async () => {
  await run('--', 'true')
  await run('--', 'true')
  const [first, second] = stub.of('ask').map(({ key }) => key)
  expect(first).not.toBe(second)
})

it.each([
  [['--', ''], 'which command'],
  [['true'], 'which command'],
  [['--flag', '--', 'true'], "Unknown option '--flag'"],
  [['word', '--', 'true'], '"word" is one word too many'],
  [['--wait', 'soon', '--', 'true'], '--wait: "soon" is no duration'],
  [['--action', 'explode', '--', 'true'], '--action: one of restart'],
  [['--shared', 's', '--task', 't', '--', 'true'], '--task does not go with --shared'],
  [['--unit', 'u', '--', 'true'], '--unit goes with --shared'],
  [['--addr', 'nowhere', '--', 'true'], '--addr (LOCKKEEPER_ADDR)'],
  [['--reason', '', '--', 'true'], '--reason is missing'],
])('wrong words are one clear line and exit code 2: %j', async (words, text) => {
  const ended = await run(...words)
  expect(ended).toMatchObject({ code: 2, stdout: '' })
  expect(ended.stderr).toMatch(/^lockkeeper run: [^\n]*\n$/)
  expect(ended.stderr).toContain(text)
  expect(stub.received).toEqual([])
})

it('outside a Nomad task it must be said which allocation', async () => {
  const ended = await called(['run', '--', 'true'], { LOCKKEEPER_ADDR: stub.address })
  expect(ended.code).toBe(2)
  expect(ended.stderr).toContain('which allocation?')
})
