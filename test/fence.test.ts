import { execFile } from 'node:child_process'
import { mkdtemp, mkdir, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const root = resolve(import.meta.dirname, '..')

/** One sin a line: where it is planted, what it says, and the rule that must find it. */
const SINS = [
  ['core', `import { createHash } from 'node:crypto'`, 'no-restricted-imports'],
  ['core', `import { Pool } from 'undici'`, 'no-restricted-imports'],
  ['core', `import type { Clock } from '../keeper/ports.ts'`, 'no-restricted-imports'],
  ['core', `export const now = () => Date.now()`, 'no-restricted-globals'],
  ['core', `export const later = () => globalThis.setTimeout(() => undefined, 1)`, 'no-restricted-properties'],
  ['core', `export const chance = () => Math.random()`, 'no-restricted-properties'],
  ['core', `export const load = async () => await import('../keeper/keeper.ts')`, 'no-restricted-imports'],
  ['keeper', `export { createNomadClient } from '../nomad/client.ts'`, 'no-restricted-imports'],
  ['keeper', `import fastify from 'fastify'`, 'no-restricted-imports'],
  ['keeper', `export const later = () => setTimeout(() => undefined, 1)`, 'no-restricted-globals'],
  ['keeper', `import { setTimeout } from 'node:timers/promises'`, 'no-restricted-imports'],
  ['nomad', `import { Keeper } from '../keeper/keeper.ts'`, 'no-restricted-imports'],
  ['nomad', `import type { App } from '../api/app.ts'`, 'no-restricted-imports'],
  ['api', `import { createNomadClient } from '../nomad/client.ts'`, 'no-restricted-imports'],
  ['api', `export const signal = () => AbortSignal.timeout(1)`, 'no-restricted-properties'],
  ['shim', `import { Type } from 'typebox'`, 'no-restricted-imports'],
  ['shim', `import type { App } from '../api/app.ts'`, 'no-restricted-imports'],
  ['devnomad', `import { createNomadClient } from '../nomad/client.ts'`, 'no-restricted-imports'],
  ['devnomad/cluster', `import { text } from '../http/exchange.ts'`, 'no-restricted-imports'],
  ['cli', `export const addr = () => process.env['NOMAD_ADDR']`, 'no-restricted-properties'],
  ['cli', `export const end = () => process.exit(1)`, 'no-restricted-properties'],
  ['cli', `export const forget = async (work: () => Promise<void>) => { work() }`, 'no-floating-promises'],
] as const

describe('the fence between the rooms', () => {
  let folder: string
  let found: { filename: string; code: string }[]

  beforeAll(async () => {
    folder = await mkdtemp(join(root, '.fence-'))
    for (const name of ['tsconfig.json', '.oxlintrc.json', 'node_modules', 'package.json'])
      await symlink(join(root, name), join(folder, name))
    for (const [at, [room, code]] of SINS.entries()) {
      const file = join(folder, 'src', room, `sin-${at}.ts`)
      await mkdir(dirname(file), { recursive: true })
      await writeFile(file, `${code}\n`)
    }
    const lint = promisify(execFile)(join(root, 'node_modules/.bin/oxlint'), ['--format', 'json', 'src'], { cwd: folder })
    const { stdout } = await lint.catch((error: { stdout: string }) => error)
    found = (JSON.parse(stdout) as { diagnostics: typeof found }).diagnostics
  }, 60_000)
  afterAll(() => rm(folder, { recursive: true, force: true }))

  it.each(SINS.map((sin, at) => [at, ...sin] as const))('%i: in %s, `%s` is found', (at, room, _code, rule) => {
    const rules = found.filter(({ filename }) => filename.endsWith(join('src', room, `sin-${at}.ts`))).map(({ code }) => code)
    expect(
      rules.some((code) => code.includes(rule)),
      `found: ${rules.join(', ') || 'nothing'}`,
    ).toBe(true)
  })
})
