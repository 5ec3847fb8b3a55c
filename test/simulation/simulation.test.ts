import { randomInt } from 'node:crypto'
import { expect, it } from 'vitest'
import { simulate } from './simulation.ts'

const STEPS = 12_000
const SEEDS = Array.from({ length: 16 }, (_, n) => n + 1)
/** Others in each run. Their numbers are in the names of the tests: `npm run simulate -- --only --seed N --steps 12000` plays one again. */
const FRESH = Array.from({ length: 4 }, () => randomInt(2 ** 31))

it.each([...SEEDS, ...FRESH])('nothing that was promised is broken: seed %i', async (seed) => {
  const { violation, trace } = await simulate({ seed, steps: STEPS })
  expect(violation?.message, trace.slice(-200).join('\n')).toBeUndefined()
})

it('the same seed is the same run', async () => {
  const [one, other] = [await simulate({ seed: 99, steps: 2_000 }), await simulate({ seed: 99, steps: 2_000 })]
  expect(other).toEqual(one)
})
