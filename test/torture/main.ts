// npm run torture: see settings.ts for what it needs.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { judge } from './judge/judge.ts'
import { run } from './run.ts'
import { HELP, settingsOf, type Settings } from './settings.ts'

const began = Date.now()
const say = (text: string) => process.stdout.write(`${((Date.now() - began) / 1_000).toFixed(1).padStart(7)}  ${text}\n`)

process.exit(
  await main().catch((error: unknown) => {
    process.stderr.write(`torture: it could not be carried through: ${error instanceof Error ? error.message : String(error)}\n`)
    return 1
  }),
)

async function main(): Promise<number> {
  let settings: Settings
  try {
    settings = settingsOf(process.argv.slice(2), process.env)
  } catch (error) {
    process.stderr.write(`torture: ${(error as Error).message}\n\n${HELP}`)
    return 2
  }
  const folder = mkdtempSync(join(tmpdir(), 'lockkeeper-torture-'))
  say(`seed ${settings.seed}, ${settings.minutes} minutes, up to ${settings.shims} shims at a time; logs in ${folder}`)
  const interrupted = new Promise<never>((_, reject) => {
    for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => reject(new Error(`ended by ${name}`)))
  })
  const { evidence, leaders, operators, replicaStarts } = await run(settings, folder, say, interrupted)
  const { violations, figures } = judge(evidence)
  const faults = evidence.faults.map(({ kind, target }) => `nemesis: ${kind} ${target}`)
  const more = tally([...faults, ...operators.map((code) => `operators: ${code}`)])
  const all = { 'leader changes': leaders, 'replica starts': replicaStarts, shims: evidence.shims.length, ...more, ...figures }
  for (const [what, number] of Object.entries(all).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    process.stdout.write(`${String(number).padStart(7)}  ${what}\n`)
  if (violations.length === 0) {
    rmSync(folder, { recursive: true })
    say(`seed ${settings.seed}: everything that is promised was kept`)
    return 0
  }
  for (const violation of violations) process.stdout.write(`VIOLATION: ${violation}\n`)
  say(`seed ${settings.seed}: ${violations.length} violations; the logs are in ${folder}`)
  return 1
}

function tally(words: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1
  return counts
}
