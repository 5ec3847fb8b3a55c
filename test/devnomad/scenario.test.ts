import { afterEach, describe, expect, it } from 'vitest'
import { playScenario, readScenario, ScenarioFault } from '../../src/devnomad/scenario.ts'
import { given, webJob, World } from './given.ts'

function faultsOf(scenario: unknown): readonly string[] {
  try {
    readScenario(typeof scenario === 'string' ? scenario : JSON.stringify(scenario))
  } catch (error) {
    if (error instanceof ScenarioFault) return error.faults
    throw error
  }
  return []
}

describe('a scenario', () => {
  let world: World
  const over = new AbortController()
  afterEach(() => world.close())

  /** Begins to play; what was told so far. */
  function play(steps: readonly object[]): string[] {
    const told: string[] = []
    const tell = (step: { says: string }, problem?: string): void => {
      told.push(problem ?? (JSON.parse(step.says) as { do: string }).do)
    }
    void playScenario(readScenario(JSON.stringify(steps)), world.nomad, { clock: world.clock, signal: over.signal, tell })
    return told
  }

  it('plays its steps at their times, whatever their order in the file', async () => {
    world = new World()
    const told = play([
      { at: '60s', do: 'crash', job: 'web', group: 'g', index: 1 },
      { at: '1s', do: 'registerJob', job: webJob() },
      { at: '70s', do: 'write', path: 'a/b', items: { x: '1' } },
    ])
    await world.clock.advance(30_000)
    expect(told).toEqual(['registerJob'])
    const second = (await world.running()).find(({ Name }) => Name === 'web.g[1]')
    await world.clock.advance(31_000)
    expect((await world.allocations()).find(({ ID }) => ID === second?.ID)?.TaskStates?.['app']?.Restarts).toBe(1)
    await world.clock.advance(10_000)
    expect(told).toEqual(['registerJob', 'crash', 'write'])
    expect(await world.get('/v1/var/a/b')).toMatchObject({ Items: { x: '1' } })
  })

  it('can make a node go and come, the leader fail, requests fail and tasks change', async () => {
    world = await given()
    const alloc = await world.first()
    const told = play([
      { at: '1s', do: 'node', name: alloc.NodeName, is: 'away' },
      { at: '2s', do: 'setTask', job: 'web', group: 'g', config: { healthy: false }, now: true },
      { at: '3s', do: 'leader', does: 'fail', for: '3600ms' },
      { at: '10s', do: 'node', name: alloc.NodeName, is: 'back' },
      { at: '11s', do: 'fault', kind: 'answer', method: 'GET', path: '/v1/vars', status: 500, body: 'rpc error: EOF' },
      { at: '12s', do: 'endEventStreams', forget: true },
      { at: '13s', do: 'addNode', name: 'node-9', memoryMb: 500 },
      { at: '14s', do: 'stopJob', job: 'web' },
      { at: '14s', do: 'servers', healthy: false },
    ])
    await world.clock.advance(4_000)
    expect((await world.ask('GET', '/v1/vars')).status).toBe(500)
    await world.clock.advance(16_000)
    expect(told).toHaveLength(9)
    expect(await world.ask('GET', '/v1/vars')).toMatchObject({ status: 500, body: 'rpc error: EOF' })
    expect((await world.ask('GET', '/v1/vars')).status).toBe(200)
    expect(await world.get('/v1/job/web')).toMatchObject({ Stop: true })
    expect(await world.get('/v1/nodes')).toHaveLength(4)
    expect((await world.ask('GET', '/v1/operator/autopilot/health')).status).toBe(429)
  })

  it('goes on after a step that went wrong, and tells what was', async () => {
    world = new World()
    const told = play([
      { at: '1s', do: 'node', name: 'nowhere', is: 'down' },
      { at: '1s', do: 'crash', job: 'web', group: 'g' },
      { at: '1s', do: 'setTask', job: 'web', group: 'g', config: {} },
      { at: '1s', do: 'registerJob', job: webJob() },
      { at: '2s', do: 'setTask', job: 'web', group: 'api', config: {} },
      { at: '2s', do: 'addNode', name: 'node-1' },
      { at: '2s', do: 'write', path: 'a b', items: { x: '1' } },
      { at: '3s', do: 'addNode', name: 'node-9' },
    ])
    await world.clock.advance(5_000)
    expect(told).toEqual([
      'no node nowhere',
      'web has no allocation g[0]',
      'no job web',
      'registerJob',
      'job web has no group api',
      'there is a node node-1 already',
      expect.stringContaining('invalid path'),
      'addNode',
    ])
  })

  it('that cannot be played names every step that is wrong', () => {
    world = new World()
    expect(faultsOf('{')).toMatchObject([expect.stringMatching(/^it is no JSON: /)])
    expect(faultsOf({})).toEqual(['it is no list of steps'])
    expect(
      faultsOf([
        { at: '1s', do: 'crash', job: 'web', group: 'g' },
        { at: 'soon', do: 'crash', job: 'web', group: 'g' },
        { at: '1s', do: 'jump' },
        { at: '1s', do: 'node', name: 'node-1', is: 'tired' },
        { at: '1s', do: 'leader', does: 'fail' },
        { at: '1s', do: 'write', path: 'a', items: { x: 1 } },
        { at: '1s', do: 'crash', job: 'web', group: 'g', who: 'me' },
        'crash',
      ]),
    ).toEqual([
      'step 2: at: "soon" is no duration; write it like 30s or 1h30m',
      expect.stringMatching(/^step 3: do: there is no "jump", but registerJob, /),
      'step 4: is: "tired" is none of down, up, silent, hanging, speaking, restarting, away, back',
      'step 5: for is missing',
      'step 6: items: its values must be texts',
      'step 7: who: not of "crash", which takes allocation, job, group, namespace, index, task, exitCode',
      'step 8: it is no object',
    ])
    expect(
      faultsOf([
        { at: '1s', do: 'setTask', job: 'web', group: 'g', config: { healthy_after: 'soon' } },
        { at: '1s', do: 'setTask', job: 'web', group: 'g', config: { healty_after: '5s' } },
        { at: '1s', do: 'registerJob', job: webJob({ config: { start_after: 'soon' } }) },
        { at: '1s', do: 'registerJob', job: { ID: 'web', TaskGroups: 'y' } },
      ]),
    ).toEqual([
      'step 1: config: healthy_after: it cannot be "soon"',
      expect.stringMatching(/^step 2: config: healty_after: there is no such field, but start_after, /),
      'step 3: job: Task group g validation failed: Task app validation failed: start_after: it cannot be "soon"',
      "step 4: job: it is no job in Nomad's JSON",
    ])
  })
})
