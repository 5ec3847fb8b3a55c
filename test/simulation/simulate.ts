// `npm run simulate -- --seed S --steps N`: many clusters, one after another, until so many steps are done. Ends with 1 at the first
// broken promise and tells its seed and what happened before it.
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { Chance } from './chance.ts'
import { simulate } from './simulation.ts'

/** Steps of one cluster until nothing goes wrong there any more. */
const STEPS_EACH = 10_000
const TRACE_SHOWN = 300

export async function main(argv: readonly string[], out: (line: string) => void, now: () => number): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      seed: { type: 'string' },
      steps: { type: 'string', default: '300000' },
      only: { type: 'boolean', default: false },
    },
  })
  const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed)
  const wanted = Number(values.steps)
  const chance = new Chance(seed)
  const figures: Record<string, number> = {}
  const startedAt = now()
  let [steps, seconds, clusters] = [0, 0, 0]
  out(`seed ${seed}`)
  while (steps < wanted) {
    // With --only the seed is that of the one cluster itself.
    const each = values.only ? seed : chance.whole(1, 2 ** 31)
    const done = await simulate({ seed: each, steps: values.only ? wanted : Math.min(STEPS_EACH, wanted) })
    clusters++
    steps += done.steps
    seconds += done.seconds
    for (const [what, times] of Object.entries(done.figures)) figures[what] = (figures[what] ?? 0) + times
    if (done.violation !== null) {
      for (const line of done.trace.slice(-TRACE_SHOWN)) out(line)
      out(`BROKEN after ${done.steps} steps: ${done.violation.message}`)
      out(`again: npm run simulate -- --only --seed ${each} --steps ${values.only ? wanted : Math.min(STEPS_EACH, wanted)}`)
      return 1
    }
    if (clusters % 5 === 0)
      out(`${steps} steps, ${clusters} clusters, ${Math.round(steps / ((now() - startedAt) / 1_000))} steps/s`)
  }
  for (const what of Object.keys(figures).toSorted()) out(`${String(figures[what]).padStart(8)} ${what}`)
  const took = (now() - startedAt) / 1_000
  out(`${steps} steps in ${clusters} clusters, ${seconds} s of their time, in ${took.toFixed(1)} s: nothing broken`)
  return 0
}
