import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { alreadyAsked, waveName, waveUnderWay } from '../../src/cli/wave.ts'
import type { RequestView } from '../../src/cli/requests.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { problem, StubService } from '../shim/stub-service.ts'
import { called } from './called.ts'

const RESTART = { action: 'restart' }

function view(nth: number, more: Partial<RequestView> = {}): RequestView {
  return {
    id: `r-${nth}`,
    allocation: `a-${nth}`,
    scope: { namespace: 'default', job: 'web', group: 'api' },
    place: `web.api[${nth}]`,
    action: 'restart',
    tasks: [],
    reason: 'restart by ada',
    wave: 'w',
    at: `2026-01-01T00:00:0${nth}Z`,
    state: 'waiting',
    position: nth + 1,
    waiting_for: { kind: 'full', detail: 'a-0 is held' },
    detail: 'a-0 is held',
    ...more,
  }
}
const over = { position: null, waiting_for: null }
const target = (...nth: number[]) => ({
  level: { namespace: 'default', job: 'web' },
  allocations: nth.map((at) => ({ id: `a-${at}`, name: `web.api[${at}]` })),
  named: 'job' as const,
  down: 0,
})

describe('what is asked for already', () => {
  it('open and done ones are not asked for again; failed and withdrawn ones are', () => {
    const seen = [
      view(0, { state: 'done', ...over }),
      view(1, { state: 'observing', ...over }),
      view(2),
      view(3, { state: 'failed', ...over }),
      view(4, { state: 'cancelled', ...over }),
    ]
    const there = alreadyAsked(seen, target(0, 1, 2, 3, 4, 5), RESTART, 'w')
    expect(there.map((one) => one?.id ?? null)).toEqual(['r-0', 'r-1', 'r-2', null, null, null])
  })

  it('what another wave has done, or something else that is open, does not count', () => {
    const seen = [view(0, { state: 'done', wave: 'before', ...over }), view(1, { action: 'signal' }), view(2, { tasks: ['app'] })]
    expect(alreadyAsked(seen, target(0, 1, 2), RESTART, 'w')).toEqual([null, null, null])
    expect(alreadyAsked(seen, target(2), { action: 'restart', task: 'app' }, 'w')[0]?.id).toBe('r-2')
    const { wave: _, ...watched } = view(0)
    expect(alreadyAsked([watched], target(0), RESTART, null)).toEqual([null])
  })

  it('a replacement stands for the one that it replaced, each for one', () => {
    const seen = [
      view(8, { place: 'web.api[0]', state: 'done', ...over }),
      view(9, { place: 'web.api[0]', state: 'gone', ...over }),
    ]
    const same = { ...target(0, 1, 2), allocations: [1, 2, 3].map((at) => ({ id: `a-${at}`, name: 'web.api[0]' })) }
    expect(alreadyAsked(seen, same, RESTART, 'w').map((one) => one?.id ?? null)).toEqual(['r-8', 'r-9', null])
  })

  it('the wave that was begun last is the one under way, while something of it is open', () => {
    const seen = [view(0, { wave: 'old' }), view(1, { wave: 'new' }), view(2, { wave: 'over', state: 'done', ...over })]
    expect(waveUnderWay(seen, target(0), RESTART)?.wave).toBe('new')
    expect(waveUnderWay(seen, { ...target(0), named: 'allocation' }, RESTART)?.wave).toBe('old')
    expect(waveUnderWay(seen.slice(2), target(2), RESTART)).toBeNull()
  })

  it('a wave is one word for a shell, whatever the job is called', () => {
    const name = waveName('-a/b c$(x)', '2026-01-02T03:04:05.678Z', 'ada@héhé', '0f1e2d3c')
    expect(name).toBe('a-b-c-x-20260102-030405-ada-h-h-0f1e')
  })
})

describe('restart --wave', () => {
  let stub: StubService
  beforeEach(async () => {
    stub = await new StubService().listen()
  })
  afterEach(() => stub.close())

  /** What the list shows at each look, and after that for ever; and what becomes of each alone. */
  function shows(looks: RequestView[][], alone: (id: string) => ReturnType<typeof problem> = () => problem('unknown_request')) {
    let nth = 0
    stub.get = (path) => {
      if (path.startsWith('/v1/requests/')) return alone(path)
      return { status: 200, body: { requests: looks[Math.min(nth++, looks.length - 1)] } }
    }
  }
  async function watched(words: string[] = [], more: object = {}, env: object = {}) {
    const clock = new ManualClock()
    const watching = called(['restart', '--wave', 'w', ...words], { LOCKKEEPER_ADDR: stub.address, ...env }, { clock, ...more })
    let isOver = false
    const end = () => (isOver = true)
    watching.then(end, end)
    while (!isOver) {
      for (let turn = 0; turn < 20 && !isOver; turn++) await new Promise((resolve) => setImmediate(resolve))
      if (!isOver) await clock.advance(50)
    }
    return await watching
  }

  it('draws a table over itself on a terminal, as wide and as high as that is', async () => {
    const all = [view(0, { state: 'observing', detail: 'the gate watches\u001b[2J', ...over }), view(1), view(2), view(3)]
    shows([all, all, all, all.map((one) => ({ ...one, state: 'done' as const, ...over }))])
    let text = ''
    const stdout = { write: (part: string) => void (text += part), isTTY: true, size: () => ({ columns: 48, rows: 7 }) }
    expect((await watched([], { stdout })).code).toBe(0)
    const [first, second, ...rest] = text.split('\u001b[J')
    expect(first?.split('\n')).toEqual([
      'wave w: 4 allocations, restart by ada',
      expect.stringContaining('\u001b[36m  web.api[0]  a-0  observing'),
      expect.stringMatching(/^ {2}web\.api\[1\] {2}a-1 {2}waiting, place 2, full {2}\S+$/),
      '  … and 2 waiting',
      '1 observing, 3 waiting, 0s',
      '\u001b[4A\r',
    ])
    expect(second).toContain('1 observing, 3 waiting, 1s\n')
    expect(rest.join('')).toContain('4 done, 2s\n')
    expect(text).not.toContain('\u001b[2J')
    text = ''
    await watched([], { stdout }, { NO_COLOR: '1' })
    expect(text).not.toContain('\u001b[3')
  })

  it('with --json each change is an event of its own', async () => {
    shows([
      [view(0), view(1)],
      [view(0, { position: null, waiting_for: null, state: 'acting' }), view(1, { position: 1 })],
      [view(0, { state: 'done', ...over }), view(1, { state: 'gone', ...over })],
    ])
    const { code, stdout } = await watched(['--json'])
    const events = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, string | number | undefined>)
    expect(
      events.map(({ event, allocation, state }) => [event, allocation, state].filter((word) => word !== undefined).join(' ')),
    ).toEqual(['wave', 'request a-0 acting', 'request a-1 waiting', 'request a-0 done', 'request a-1 gone', 'over'])
    expect(events.at(-1)).toMatchObject({ exit: 0, done: 1, gone: 1, waiting: 0 })
    expect(code).toBe(0)
  })

  it('what nobody remembers is over, and is not called done: 2', async () => {
    shows([[view(0)], []])
    const { code, stdout } = await watched()
    expect(stdout).toContain('web.api[0]  a-0  over, not known how: it is over; how it ended is not remembered any more')
    expect(code).toBe(2)
  })

  it('one that has another label now is followed all the same', async () => {
    shows([[view(0)], []], () => ({ status: 200, body: view(0, { wave: 'other', state: 'done', ...over }) }))
    expect((await watched()).stdout).toMatch(/\nw: 1 done, 0s\n$/)
  })

  it('a service that is away for a while is waited for; one that stays away is told: 6', async () => {
    let calls = 0
    stub.get = () => {
      calls++
      if (calls > 1 && calls < 8) return problem('nomad_unavailable', 'no leader')
      return { status: 200, body: { requests: [view(0, calls === 1 ? {} : { state: 'done', ...over })] } }
    }
    const ended = await watched()
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    expect(ended.stdout).toContain('no leader; trying again\n')
    calls = 0
    stub.get = () => (calls++ === 0 ? { status: 200, body: { requests: [view(0)] } } : problem('nomad_unavailable', 'no leader'))
    const lost = await watched()
    expect(lost).toMatchObject({ code: 6, stderr: 'lockkeeper restart: no leader\n' })
    expect(lost.stdout).toContain('to go on watching:         lockkeeper restart --wave w\n')
  })

  it('--wait: 3 when it is not done in time, 4 when a halt is why', async () => {
    shows([[view(0)]])
    expect((await watched(['--wait', '5s'])).code).toBe(3)
    shows([[view(0, { waiting_for: { kind: 'halted', detail: '1 failure' } })]])
    expect((await watched(['--wait', '5s'])).code).toBe(4)
  })
})
