import { describe, expect, it } from 'vitest'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serveSettings } from '../../src/cli/settings.ts'
import { VERBS } from '../../src/cli/verbs.ts'
import { kindOf } from '../../src/core/errors.ts'
import { called } from './called.ts'

describe('the command line', () => {
  it('without a verb says what there is, and that something is missing', async () => {
    const ended = await called([])
    expect(ended).toMatchObject({ code: 2, stdout: '' })
    for (const name of VERBS.keys()) expect(ended.stderr).toContain(`  ${name} `)
  })

  it.each([['--help'], ['-h'], ['help']])('%s lists all verbs', async (word) => {
    const ended = await called([word])
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    expect(ended.stdout).toContain('exit codes')
  })

  it('does not know every verb', async () => {
    expect(await called(['restrat'])).toEqual({
      code: 2,
      stdout: '',
      stderr: 'lockkeeper: there is no verb "restrat"; see lockkeeper --help\n',
    })
  })

  it.each(Array.from(VERBS.keys()))('%s tells how it is used, whatever else was said', async (name) => {
    const asked = await called([name, '--no-such-flag', '--help'])
    expect(asked).toMatchObject({ code: 0, stderr: '' })
    expect(asked.stdout).toContain(`usage: lockkeeper ${name}`)
    expect(await called(['help', name])).toEqual(asked)
  })

  it.each(Array.from(VERBS.keys()).filter((name) => name !== 'demo'))('%s refuses a flag that it does not know', async (name) => {
    const words = name === 'run' ? ['--no-such-flag', '--', 'true'] : ['--no-such-flag']
    const ended = await called([name, ...words])
    expect(ended).toEqual({ code: 2, stdout: '', stderr: `lockkeeper ${name}: Unknown option '--no-such-flag'; see --help\n` })
  })

  it('help that is meant for the command of run is left to it', async () => {
    const ended = await called(['run', '--addr', 'nowhere', '--', 'ls', '--help'])
    expect(ended).toMatchObject({ code: 2, stdout: '' })
  })

  it('prints the version', async () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
    expect(await called(['--version'])).toEqual({ code: 0, stdout: `lockkeeper ${version}\n`, stderr: '' })
    expect(await called(['version', '--json'])).toEqual({ code: 0, stdout: `{"version":"${version}"}\n`, stderr: '' })
  })
})

describe('dev', () => {
  it('refuses a scenario that cannot be played with one line, before anything starts', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'scenario-'))
    const file = join(folder, 'scenario.json')
    const step = { at: '1s', do: 'setTask', job: 'web', group: 'api', config: { healthy_after: 'soon' } }
    await writeFile(file, JSON.stringify([step]))
    const ended = await called(['dev', '--scenario', file])
    await rm(folder, { recursive: true })
    const stderr = `lockkeeper dev: --scenario ${file}: step 1: config: healthy_after: it cannot be "soon"\n`
    expect(ended).toEqual({ code: 2, stdout: '', stderr })
  })
})

describe('settings of serve', () => {
  it('have defaults', () => {
    expect(serveSettings({}, {})).toMatchObject({
      listen: '127.0.0.1:4650',
      auth: [],
      prefix: 'lockkeeper',
      leaseTtlMs: 15_000,
      logLevel: 'info',
      nomad: { addresses: ['http://127.0.0.1:4646'], namespace: 'default' },
    })
  })

  it('come from flags and environment alike, and a flag wins', () => {
    const env = {
      LOCKKEEPER_LISTEN: '[::1]:1',
      LOCKKEEPER_AUTH: 'none, none',
      LOCKKEEPER_PREFIX: 'a',
      LOCKKEEPER_LEASE_TTL: '20s',
      LOCKKEEPER_NAME: 'env',
      LOCKKEEPER_LOG_LEVEL: '',
    }
    expect(serveSettings(env, {})).toMatchObject({
      listen: '[::1]:1',
      auth: ['none', 'none'],
      prefix: 'a',
      leaseTtlMs: 20_000,
      name: 'env',
      logLevel: 'info',
    })
    const flags = {
      listen: 'localhost:2',
      auth: ['identity'],
      prefix: 'b',
      'lease-ttl': '30s',
      name: 'flag',
      'log-level': 'warn',
    }
    expect(serveSettings(env, flags)).toMatchObject({
      listen: 'localhost:2',
      auth: ['identity'],
      prefix: 'b',
      leaseTtlMs: 30_000,
      name: 'flag',
      logLevel: 'warn',
    })
  })

  it.each([
    [{ 'lease-ttl': '9s' }, '--lease-ttl'],
    [{ 'lease-ttl': 'long' }, '--lease-ttl'],
    [{ 'log-level': 'loud' }, '--log-level'],
    [{ prefix: 'a b' }, '--prefix'],
    [{ auth: ['nobody'] }, '--auth'],
  ])('are refused by name: %j', (flags, name) => {
    let thrown: unknown
    try {
      serveSettings({}, flags)
    } catch (error) {
      thrown = error
    }
    expect(kindOf(thrown)).toBe('invalid_request')
    expect(String(thrown)).toContain(name)
  })

  it.each(['nowhere', '127.0.0.1:70000'])('refuse an address to listen on that is none: %s', async (address) => {
    const ended = await called(['serve', '--listen', address])
    expect(ended).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('host:port') as string })
  })

  it('refuse to listen to everybody without asking who it is, said once', async () => {
    for (const [words, env] of [
      [['--auth', 'none'], {}],
      [[], { LOCKKEEPER_AUTH: 'none' }],
    ] as const) {
      const ended = await called(['serve', '--listen', ':0', ...words], env)
      expect(ended).toMatchObject({ code: 2, stdout: '' })
      expect(ended.stderr).toContain('say it twice: --auth none --auth none (LOCKKEEPER_AUTH=none,none)')
    }
  })

  it('refuse the namespace *', async () => {
    const ended = await called(['serve'], { NOMAD_NAMESPACE: '*' })
    expect(ended).toMatchObject({ code: 2, stdout: '' })
    expect(ended.stderr).toContain('NOMAD_NAMESPACE is *')
  })
})
