import { readFile, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { main } from '../src/cli/main.ts'
import { ERRORS } from '../src/core/errors.ts'
import { groupPolicy } from '../src/core/policy.ts'
import { configFault } from '../src/devnomad/client/dev-config.ts'
import { ACTIONS, readScenario } from '../src/devnomad/scenario.ts'
import { createMetrics } from '../src/metrics.ts'
import { groupSpec, jobOf } from './support/builders.ts'
import { systemClock } from '../src/keeper/clock.ts'
import type { Io } from '../src/cli/io.ts'
import type { Registry } from '../src/keeper/registry.ts'
import type { Watcher } from '../src/keeper/watching/watcher.ts'

const file = resolve(import.meta.dirname, '../README.md')
const readme = await readFile(file, 'utf8')
const policyTable = readme.slice(readme.indexOf('| meta key'), readme.indexOf('A value that cannot be read'))

/** The rows between two marks. With UPDATE_README=1 they are written instead of compared. */
async function expectTable(mark: string, head: string, rows: readonly string[]): Promise<void> {
  const [start, end] = [`<!-- ${mark} -->\n`, `<!-- /${mark} -->`]
  const table = `${start}${[head, ...rows].join('\n')}\n${end}`
  const text = await readFile(file, 'utf8')
  const is = text.slice(text.indexOf(start), text.indexOf(end) + end.length)
  if (process.env['UPDATE_README'] === '1') await writeFile(file, text.replace(is, table))
  else expect(words(is)).toEqual(words(table))
}

/** Without the padding and the empty lines that the formatter gives to tables. */
const words = (text: string) => text.replace(/ +/g, ' ').replace(/-{3,}/g, '---').replace(/\n+/g, '\n')

describe('the README', () => {
  it('tells every kind of error with its status and exit code', async () => {
    const rows = Object.entries(ERRORS).map(
      ([kind, { status, exit, retry, title }]) => `| \`${kind}\` | ${status} | ${exit} | ${retry ? 'yes' : 'no'} | ${title} |`,
    )
    await expectTable('errors', '| kind | HTTP | exit | may be repeated as it is | |\n| --- | --- | --- | --- | --- |', rows)
  })

  it('tells every metric of our own', async () => {
    const metrics = createMetrics()
    metrics.watch({ all: () => [] } as unknown as Registry)
    metrics.watchFiles({ counts: () => ({}), intervalMs: 0 } as unknown as Watcher)
    const { text } = await metrics.page()
    const all = [...text.matchAll(/^# HELP (lockkeeper_\S+) (.*)$/gm)]
    await expectTable(
      'metrics',
      '| metric | |\n| --- | --- |',
      all.map(([, name, help]) => `| \`${name}\` | ${help} |`),
    )
  })

  it('tells what a scenario can do, and its example can be played', async () => {
    const rows = Object.entries(ACTIONS).map(
      ([name, { takes, tells }]) => `| \`${name}\` | ${takes.map((key) => `\`${key}\``).join(', ')} | ${tells} |`,
    )
    await expectTable('scenario', '| do | takes | |\n| --- | --- | --- |', rows)
    const [, example] = /```json\n(\[\n[^`]*"do"[^`]*)```/.exec(readme) ?? []
    expect(readScenario(example ?? '')).toHaveLength(3)
    const told = /Tasks whose driver is `dev` run[\s\S]*?which\./.exec(readme)?.[0] ?? ''
    for (const key of (configFault({ none: 0 }) ?? '').match(/[a-z]+(?:_[a-z]+)+/g) ?? []) expect(told).toContain(`\`${key}\``)
  })

  it('tells policy keys that a job may really have', () => {
    const keys = [...policyTable.matchAll(/^\| `(lockkeeper_[a-z_]+)` +\| ([^|]+?) +\|/gm)].map(
      ([, key, value]) => [key as string, value] as const,
    )
    expect(keys.map(([key]) => key)).toHaveLength(10)
    const meta = Object.fromEntries(keys.map(([key, value]) => [key, /^(\d+m?s?|checks|true)/.exec(value ?? '')?.[0] ?? '1']))
    expect(groupPolicy({ ...jobOf(), meta }, groupSpec()).faults).toEqual([])
  })

  it('names flags and verbs that are there', async () => {
    const helpOf = async (verb: string) => {
      let text = ''
      const io = { stdout: { write: (part: string) => void (text += part), isTTY: false }, clock: systemClock } as unknown as Io
      expect(await main([verb, '--help'], {}, io)).toBe(0)
      return text
    }
    const serve = await helpOf('serve')
    for (const [, env, flag] of readme.matchAll(/^\| `(LOCKKEEPER_\w+)` +\| `(--[a-z-]+)`/gm)) {
      expect(serve).toContain(env)
      expect(serve).toContain(flag)
    }
    const commands = [...readme.matchAll(/^lockkeeper (\w+)((?: --[a-z]+)?)/gm)]
    expect(commands.length).toBeGreaterThan(4)
    for (const [, verb, flag] of commands) expect(await helpOf(verb as string)).toContain((flag ?? '').trim())
  })
})
