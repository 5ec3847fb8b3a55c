import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { jitterMs } from '../../src/core/unavailable.ts'
import type { Clock } from '../../src/keeper/ports.ts'
import { problem, StubService } from '../shim/stub-service.ts'
import { Binary } from './binary.ts'
import { called } from './called.ts'

const binary = new Binary()
const NOBODY = 'http://127.0.0.1:1'
let folder: string
let stub: StubService

beforeAll(() => void binary.build())
afterAll(() => binary.remove())
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'run-unavailable-'))
  stub = await new StubService().listen()
})
afterEach(async () => {
  binary.endAll()
  rmSync(folder, { recursive: true })
  await stub.close()
})

const env = (more: Readonly<Record<string, string>> = {}) => ({
  LOCKKEEPER_ADDR: NOBODY,
  NOMAD_ALLOC_ID: 'a-1',
  NOMAD_ALLOC_INDEX: '3',
  NOMAD_TASK_DIR: folder,
  ...more,
})
const run = (words: readonly string[], more: Readonly<Record<string, string>> = {}) =>
  binary.run(['run', ...words, '--', 'sh', '-c', 'echo acted; env | grep LOCKKEEPER_HOLD'], env(more))
const reports = () => stub.of('report').map(({ unavailable }) => unavailable)

describe('C3.2 no replica can be reached', () => {
  it('wait keeps trying, gives up with a message, and does not act', async () => {
    const ended = await run(['--unavailable-wait', '700ms'])
    expect(ended).toMatchObject({ code: 6, stdout: '' })
    expect(ended.stderr.split('\n')).toEqual([
      expect.stringMatching(/^lockkeeper run: no replica of the service answers .*; trying again$/),
      expect.stringMatching(/^lockkeeper run: no replica of the service answers .*; the command is not run$/),
      '',
    ])
  })

  it('wait, then proceed', async () => {
    const ended = await run(['--unavailable-wait', '300ms', '--unavailable-then', 'proceed'])
    expect(ended.stdout).toBe('acted\n')
    expect(ended.stderr).toContain('WITHOUT A HOLD, as it is told to (proceed)')
  })

  it('wait is bounded by how long it waits for its turn as well', async () => {
    expect(await run(['--wait', '300ms'])).toMatchObject({ code: 6, stdout: '' })
  })

  it('proceed acts at once, says that it had no hold, and ends with the code of the command', async () => {
    const ended = await binary.run(
      ['run', '--on-unavailable', 'proceed', '--json', '--', 'sh', '-c', 'echo acted; exit 7'],
      env(),
    )
    expect(ended).toMatchObject({ code: 7, stdout: 'acted\n' })
    const events = ended.stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object)
    expect(events).toMatchObject([
      { event: 'unavailable', did: 'proceed', kind: 'service_unavailable' },
      { event: 'started' },
      { event: 'exited', code: 7 },
    ])
  })

  it('skip does not act', async () => {
    const ended = await run([], { LOCKKEEPER_ON_UNAVAILABLE: 'skip' })
    expect(ended).toMatchObject({ code: 6, stdout: '' })
    expect(ended.stderr).toMatch(/^lockkeeper run: [^\n]*; the command is not run\n$/)
  })

  it('a replica that cannot reach Nomad decides nothing either', async () => {
    stub.ask = () => problem('nomad_unavailable', 'no leader')
    const ended = await run(['--on-unavailable', 'proceed'], { LOCKKEEPER_ADDR: stub.address })
    expect(ended.stdout).toBe('acted\n')
  })

  it('a signal ends the waiting, and what was started without a hold gets it', async () => {
    const waiting = binary.start(['run', '--', 'echo', 'acted'], env())
    await waiting.until('stderr', 'trying again')
    waiting.kill('SIGTERM')
    expect(await waiting.ended).toMatchObject({ code: 143, stdout: '' })
    const command = ['sh', '-c', 'trap "exit 9" TERM; echo ready; while :; do sleep 0.02; done']
    const acting = binary.start(['run', '--on-unavailable', 'proceed', '--', ...command], env())
    await acting.until('stdout', 'ready')
    acting.kill('SIGTERM')
    expect(await acting.ended).toMatchObject({ code: 9 })
  })

  it('a command that cannot be executed is told as ever', async () => {
    const ended = await binary.run(['run', '--on-unavailable', 'proceed', '--', '/no/such/command'], env())
    expect(ended.code).toBe(127)
  })
})

describe('C3.3 jitter', () => {
  const window = 30_000
  /** How long it waited before it acted, in time that passes only while somebody sleeps. */
  const delayOf = async (index: number, action: string) => {
    let now = 0
    const clock: Clock = {
      now: () => now,
      wall: () => now,
      sleep: async (ms) => void (now += ms),
      after: () => () => undefined,
      within: (_, signal, work) => work(signal ?? new AbortController().signal),
    }
    let actedAt: number | null = null
    const stderr = { isTTY: false, write: (text: string) => void (text.includes('"unavailable"') && (actedAt = now)) }
    const words = ['run', '--on-unavailable', 'jitter', '--jitter-window', '30s', '--action', action, '--json', '--', 'true']
    expect((await called(words, env({ NOMAD_ALLOC_INDEX: String(index) }), { clock, stderr })).code).toBe(0)
    return actedAt
  }

  it('the same delay for each action and on each run, another one for each index', async () => {
    for (let index = 0; index < 10; index++) {
      for (const action of ['restart', 'signal', 'reload', 'restart'])
        expect(await delayOf(index, action)).toBe(jitterMs(index, window))
    }
  })

  it('needs the index of the allocation', async () => {
    const ended = await called(['run', '--on-unavailable', 'jitter', '--', 'true'], { NOMAD_ALLOC_ID: 'a-1' })
    expect(ended.code).toBe(2)
    expect(ended.stderr).toContain('NOMAD_ALLOC_INDEX')
  })
})

describe('once the service is back', () => {
  it('the next process of the task reports what was done without it', async () => {
    await run(['--on-unavailable', 'proceed'])
    await run(['--on-unavailable', 'proceed'])
    await run(['--on-unavailable', 'skip'])
    expect(readFileSync(join(folder, '.lockkeeper-unreported'), 'utf8')).toBe('proceed\nproceed\nskip\n')
    await run([], { LOCKKEEPER_ADDR: stub.address })
    expect(stub.of('report')).toEqual([{ allocation: 'a-1', unavailable: { proceed: 2, skip: 1 } }])
    await run([], { LOCKKEEPER_ADDR: stub.address })
    expect(stub.of('report')).toHaveLength(1)
    expect(readdirSync(folder)).toEqual([])
  })

  it('who waited for it reports that, and what was noted is kept while it cannot be taken', async () => {
    writeFileSync(join(folder, '.lockkeeper-unreported'), 'jitter\nnonsense\n')
    stub.report = () => problem('overloaded')
    await run([], { LOCKKEEPER_ADDR: stub.address })
    stub.report = () => ({ status: 200, body: { counted: 1 } })
    stub.ask = () => {
      stub.ask = new StubService().ask
      return 'broken'
    }
    expect((await run([], { LOCKKEEPER_ADDR: stub.address })).stdout).toContain('acted\n')
    expect(reports()).toEqual([{ jitter: 1 }, { wait: 1, jitter: 1 }])
  })

  it('nothing is reported, noted or asked when nothing was amiss', async () => {
    await run([], { LOCKKEEPER_ADDR: stub.address })
    expect(reports()).toEqual([])
    expect(readdirSync(folder)).toEqual([])
  })

  it('without a folder of a task it is in the log alone', async () => {
    const ended = await binary.run(['run', '--on-unavailable', 'proceed', '--', 'echo', 'acted'], {
      NOMAD_ALLOC_ID: 'a-1',
      LOCKKEEPER_ADDR: NOBODY,
    })
    expect(ended).toMatchObject({ code: 0, stdout: 'acted\n' })
  })
})

it('a signal that comes when all is over does not change the exit code: nobody stops listening before the end', async () => {
  let unlistened = 0
  const listen = () => () => void unlistened++
  expect((await called(['run', '--', 'true'], env({ LOCKKEEPER_ADDR: stub.address }), { listen })).code).toBe(0)
  expect(unlistened).toBe(0)
})
