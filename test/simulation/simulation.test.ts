import { createHash } from 'node:crypto'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { simulate } from './simulation.ts'

const STEPS = 12_000
const SEEDS = Array.from({ length: 16 }, (_, n) => n + 1)
/** Others with each change of the product, the same for the same product: no run is red by chance. `npm run simulate` takes any. */
const FRESH = seedsOf(join(import.meta.dirname, '../../src'), 4)

it.each([...SEEDS, ...FRESH])('nothing that was promised is broken: seed %i', async (seed) => {
  const { violation, trace } = await simulate({ seed, steps: STEPS })
  expect(violation?.message, trace.slice(-200).join('\n')).toBeUndefined()
})

it('the same seed is the same run', async () => {
  const [one, other] = [await simulate({ seed: 99, steps: 2_000 }), await simulate({ seed: 99, steps: 2_000 })]
  expect(other).toEqual(one)
})

function seedsOf(folder: string, count: number): number[] {
  const hash = createHash('sha256')
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  for (const file of files.toSorted()) hash.update(readFileSync(join(folder, file)))
  const digest = hash.digest()
  return Array.from({ length: count }, (_, n) => digest.readUInt32BE(4 * n))
}
