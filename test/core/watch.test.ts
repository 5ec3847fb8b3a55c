import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { groupPolicy } from '../../src/core/policy.ts'
import { groupWatch, isPattern, matches, type WatchedPath } from '../../src/core/watch.ts'
import { groupSpec, jobOf, taskSpec } from '../support/builders.ts'

const watchOf = (job: Record<string, string>, group: Record<string, string> = {}, task: Record<string, string> = {}) =>
  groupWatch(jobOf({ meta: job }), groupSpec({ meta: group, tasks: [taskSpec('app', 'main', { meta: task })] }))
const pathsOf = (...args: Parameters<typeof watchOf>) => watchOf(...args).tasks.map(({ paths }) => paths.map(({ path }) => path))

describe('what a job wants watched', () => {
  it('is a list of paths, in the directory of the task or the shared one', () => {
    const { tasks, faults } = watchOf({ lockkeeper_watch: 'secrets/app.env, local/*.conf,alloc/data/ca.pem' })
    expect(faults).toEqual([])
    expect(tasks).toEqual([
      {
        task: 'app',
        action: 'restart',
        signal: null,
        paths: [
          { path: 'secrets/app.env', folder: '/app/secrets', name: 'app.env' },
          { path: 'local/*.conf', folder: '/app/local', name: '*.conf' },
          { path: 'alloc/data/ca.pem', folder: '/alloc/data', name: 'ca.pem' },
        ],
      },
    ])
  })

  it('is said nearest to the task: true at job level says only that it is said further in, false that nothing is', () => {
    const job = { lockkeeper_watch: 'local/a' }
    expect(pathsOf(job)).toEqual([['local/a']])
    expect(pathsOf(job, { lockkeeper_watch: 'local/b' })).toEqual([['local/b']])
    expect(pathsOf(job, { lockkeeper_watch: 'local/b' }, { lockkeeper_watch: 'local/c' })).toEqual([['local/c']])
    expect(pathsOf({ lockkeeper_watch: 'true' })).toEqual([])
    expect(pathsOf({ lockkeeper_watch: 'true' }, {}, { lockkeeper_watch: 'local/c' })).toEqual([['local/c']])
    expect(pathsOf(job, { lockkeeper_watch: 'true' })).toEqual([['local/a']])
    expect(pathsOf(job, {}, { lockkeeper_watch: 'false' })).toEqual([])
  })

  it('is nothing in a task that finishes by design', () => {
    const group = groupSpec({ tasks: [taskSpec('migrate', 'once'), taskSpec('app'), taskSpec('proxy', 'sidecar')] })
    const { tasks } = groupWatch(jobOf({ meta: { lockkeeper_watch: 'local/a' } }), group)
    expect(tasks.map(({ task }) => task)).toEqual(['app', 'proxy'])
  })

  it('may be told by a signal, SIGHUP unless another is named', () => {
    const meta = { lockkeeper_watch: 'local/a', lockkeeper_action: 'signal' }
    expect(watchOf(meta).tasks[0]).toMatchObject({ action: 'signal', signal: 'SIGHUP' })
    expect(watchOf({ ...meta, lockkeeper_signal: 'SIGUSR1' }).tasks[0]).toMatchObject({ action: 'signal', signal: 'SIGUSR1' })
  })

  it.each([
    [{ lockkeeper_watch: '/etc/passwd' }, 'is absolute'],
    [{ lockkeeper_watch: 'local/../../x' }, '".."'],
    [{ lockkeeper_watch: 'local//x' }, 'an empty segment'],
    [{ lockkeeper_watch: 'local/x/' }, 'an empty segment'],
    [{ lockkeeper_watch: 'app.env' }, 'names no folder'],
    [{ lockkeeper_watch: 'local/*/x' }, 'a * before its last segment'],
    [{ lockkeeper_watch: 'local/a,,local/b' }, 'a path is empty'],
    [{ lockkeeper_watch: '' }, 'a path is empty'],
    [{ lockkeeper_watch: Array.from({ length: 17 }, (_, n) => `local/${n}`).join() }, 'more than 16 paths'],
    [{ lockkeeper_watch: 'local/a', lockkeeper_action: 'reload' }, '"reload" is not restart or signal'],
    [
      { lockkeeper_watch: 'local/a', lockkeeper_action: 'signal', lockkeeper_signal: 'HUP' },
      '"HUP" is no signal that Nomad knows',
    ],
    [{ lockkeeper_watch: 'local/a', lockkeeper_signal: 'SIGHUP' }, 'needs lockkeeper_action = "signal"'],
  ])('%j is a fault that says what is wrong, and nothing is watched', (meta, fault) => {
    const { tasks, faults } = watchOf(meta as Record<string, string>)
    expect(tasks).toEqual([])
    expect(faults).toHaveLength(1)
    expect(faults[0]).toContain(fault)
    expect(faults[0]).toContain('in job meta')
  })

  it('a bad word of one task leaves the others watched', () => {
    const tasks = [taskSpec('bad', 'main', { meta: { lockkeeper_watch: '..' } }), taskSpec('app')]
    const watch = groupWatch(jobOf({ meta: { lockkeeper_watch: 'local/a' } }), groupSpec({ tasks }))
    expect(watch.tasks.map(({ task }) => task)).toEqual(['app'])
    expect(watch.faults[0]).toContain('lockkeeper_watch in task bad meta')
  })

  it('C3.12 a template with env = true whose task is only signalled is warned of', () => {
    const templates = [
      { path: 'secrets/app.env', env: true, changeMode: 'noop' },
      { path: 'local/other.env', env: true, changeMode: 'noop' },
    ]
    const group = groupSpec({ tasks: [taskSpec('app', 'main', { templates })] })
    const meta = { lockkeeper_watch: 'secrets/app.env' }
    expect(groupWatch(jobOf({ meta }), group).warnings).toEqual([])
    const { warnings } = groupWatch(jobOf({ meta: { ...meta, lockkeeper_action: 'signal' } }), group)
    expect(warnings).toEqual([expect.stringContaining('template secrets/app.env of task app has env = true')])
  })

  it('a template that Nomad acts on too, and a file of its own, are warned of', () => {
    const templates = [{ path: 'local/a.conf', env: false, changeMode: 'restart' }]
    const group = groupSpec({ tasks: [taskSpec('app', 'main', { templates })] })
    const { warnings } = groupWatch(jobOf({ meta: { lockkeeper_watch: 'local/*.conf, secrets/nomad_token' } }), group)
    expect(warnings).toEqual([
      expect.stringContaining('template local/a.conf of task app has change_mode restart'),
      expect.stringContaining('secrets/nomad_token of task app is rewritten by Nomad itself'),
    ])
  })

  it('its words are no unknown words of the policy', () => {
    const meta = { lockkeeper_watch: 'true', lockkeeper_action: 'signal', lockkeeper_signal: 'SIGHUP' }
    expect(groupPolicy(jobOf({ meta }), groupSpec()).faults).toEqual([])
  })

  it('whatever is written, a path stays in the allocation and is watched only without a fault', () => {
    const segment = fc.oneof(fc.constantFrom('..', '.', '', '*', 'local', 'secrets', 'alloc'), fc.string({ maxLength: 5 }))
    const path = fc.array(segment, { maxLength: 4 }).map((segments) => segments.join('/'))
    fc.assert(
      fc.property(fc.array(path, { maxLength: 4 }), (all) => {
        const { tasks, faults } = watchOf({ lockkeeper_watch: all.join(',') })
        expect(tasks.length > 0 && faults.length > 0).toBe(false)
        for (const { folder, name } of tasks.flatMap(({ paths }) => paths)) {
          expect(folder).toMatch(/^\/(app|alloc)(\/|$)/)
          expect(`${folder}/${name}`.split('/').slice(1)).not.toContain('..')
          expect(folder).not.toContain('*')
        }
      }),
    )
  })
})

describe('a pattern', () => {
  const path = (name: string, folder = '/app/local'): WatchedPath => ({ path: `local/${name}`, folder, name })

  it.each([
    ['*.conf', 'a.conf', true],
    ['*.conf', '.conf', true],
    ['*.conf', 'a.conf.bak', false],
    ['a*b*c', 'abc', true],
    ['a*b*c', 'a-b-b-c', true],
    ['a*b*c', 'acb', false],
    ['a*a', 'a', false],
    ['*', 'anything', true],
    ['a.conf', 'axconf', false],
  ])('%s: %s %s', (name, file, expected) => expect(matches(path(name), file)).toBe(expected))

  it('means the same as a regular expression, for any names', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', '.', '*'), minLength: 1, maxLength: 6 })
    fc.assert(
      fc.property(letters, fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 6 }), (name, file) => {
        const expected = new RegExp(`^${name.replaceAll('.', '\\.').replaceAll(/\*+/g, '.*')}$`).test(file)
        expect(matches(path(name), file)).toBe(expected)
      }),
    )
  })

  it("C3.8 Nomad's own files in secrets/ are meant only when they are named exactly", () => {
    const own = ['api.sock', '.nomad-mount', 'nomad_token', 'nomad_lk.jwt', 'nomad_consul_x', 'vault_token', 'consul_token']
    for (const file of own) {
      expect(matches(path('*', '/app/secrets'), file)).toBe(false)
      expect(matches(path(file, '/app/secrets'), file)).toBe(true)
      expect(matches(path('*'), file)).toBe(true)
    }
    expect(matches(path('*', '/app/secrets'), 'app.env')).toBe(true)
    expect(isPattern(path('app.env'))).toBe(false)
  })
})
