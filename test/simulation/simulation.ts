import type { Wish } from '../../src/shim/service.ts'
import { Chance } from './chance.ts'
import { Cluster } from './cluster.ts'
import type { Violation } from './ledger.ts'
import { Nemesis } from './nemesis.ts'
import type { Tamper } from './nomad-link.ts'
import type { Errands } from './requester.ts'
import { JOB, sceneryOf, tasksOf, type Knobs, type Scenery } from './scenery.ts'
import type { Plan } from './shim.ts'

export interface SimulationOptions {
  readonly seed: number
  /** After so many steps nothing goes wrong any more, and everybody must be served. */
  readonly steps: number
  readonly tamper?: Tamper
  readonly scenery?: Partial<Scenery>
  readonly knobs?: Partial<Knobs>
  readonly plan?: Partial<Plan>
  /** Every misfortune comes after about so long; Infinity: none. */
  readonly everyMs?: number
  /** So long after the last misfortune everybody must have been served. */
  readonly peaceMs?: number
}

export interface Outcome {
  readonly seed: number
  readonly steps: number
  /** Seconds of simulated time. */
  readonly seconds: number
  readonly violation: Violation | null
  /** The last things that happened. */
  readonly trace: readonly string[]
  readonly figures: Readonly<Record<string, number>>
}

const TRACE_LINES = 4_000
const PEACE_MS = 20 * 60_000

/** One cluster from its beginning to its end: misfortunes for so many steps, then peace until everybody is served. */
export async function simulate(options: SimulationOptions): Promise<Outcome> {
  const { seed, steps, tamper = {}, everyMs } = options
  const chance = new Chance(seed)
  const trace: string[] = []
  const say = (text: string): void => {
    trace.push(text)
    if (trace.length > TRACE_LINES) trace.splice(0, TRACE_LINES / 2)
  }
  const scenery = { ...sceneryOf(chance), ...options.scenery }
  say(`seed ${seed}: ${JSON.stringify(scenery)}`)
  const cluster = new Cluster({ scenery, chance, tamper, trace: say, knobs: options.knobs ?? {} })
  const nemesis = new Nemesis(cluster, chance.fork(), say)
  const crowd = new Crowd(cluster, chance.fork(), options.plan ?? {})
  for (let n = 0; n < scenery.replicas; n++) cluster.startReplica()
  await until(cluster, 60_000, () => false)
  if (everyMs !== Infinity) nemesis.begin(everyMs ?? chance.skewed(2_000, 40_000))
  crowd.begin()
  while (cluster.steps < steps && cluster.monitor.violation === null) await cluster.step()
  nemesis.end()
  crowd.end()
  say(`${(cluster.timeline.now() / 1_000).toFixed(3)} -- peace`)
  const served = await until(cluster, options.peaceMs ?? PEACE_MS, () => crowd.isServed && isEmpty(cluster))
  if (!served && cluster.monitor.violation === null) cluster.monitor.fail('nobody is lost', crowd.lost(cluster))
  cluster.close()
  return {
    seed,
    steps: cluster.steps,
    seconds: Math.round(cluster.timeline.now() / 1_000),
    violation: cluster.monitor.violation,
    trace,
    figures: {
      ...crowd.figures,
      commits: cluster.monitor.ledger.commits,
      holds: cluster.monitor.ledger.holds.size,
      ...Object.fromEntries([...nemesis.counts].map(([what, times]) => [`!! ${what}`, times])),
      ...Object.fromEntries(cluster.warnings),
    },
  }
}

/** Steps until it holds, or the time is over; false: it does not hold. */
async function until(cluster: Cluster, ms: number, holds: () => boolean): Promise<boolean> {
  const { timeline, monitor } = cluster
  let over = false
  timeline.after(ms, () => (over = true))
  while (!over && monitor.violation === null) {
    if (holds()) return true
    await cluster.step()
  }
  return holds()
}

function isEmpty({ monitor: { ledger } }: Cluster): boolean {
  return [...ledger.semaphores.values()].every(({ state }) => state.holds.length === 0) && ledger.requests.size === 0
}

/** Those who ask: always about so many shims, for units at random. */
class Crowd {
  readonly #cluster: Cluster
  readonly #chance: Chance
  readonly #plan: Partial<Plan>
  readonly figures: Record<string, number> = {}
  #closed = false

  constructor(cluster: Cluster, chance: Chance, plan: Partial<Plan>) {
    this.#cluster = cluster
    this.#chance = chance
    this.#plan = plan
  }

  begin(): void {
    const { timeline } = this.#cluster
    const next = (): void => {
      timeline.after(this.#chance.skewed(100, 15_000), () => void this.#more().finally(() => this.#closed || next()))
    }
    next()
  }

  end(): void {
    this.#closed = true
  }

  get isServed(): boolean {
    const { shims, requesters } = this.#cluster
    return [...shims, ...requesters].every(({ ended }) => ended !== null)
  }

  lost({ monitor, timeline }: Cluster): string {
    const waiting = this.#cluster.shims.filter(({ ended }) => ended === null)
    const holds = [...monitor.ledger.semaphores.values()].flatMap(({ state }) => state.holds)
    const asking = this.#cluster.requesters.filter(({ ended }) => ended === null).map(({ host }) => host.name)
    const names = waiting.map(({ host, wish, startedAt }) => `${host.name} for ${JSON.stringify(wish)} since ${startedAt}`)
    return `at ${timeline.now()} wait: ${[...names, ...asking].join('; ')}; held: ${JSON.stringify(holds)}; requests: ${[...monitor.ledger.requests.keys()].join(' ')}`
  }

  async #more(): Promise<void> {
    const { scenery, shims, requesters, truth } = this.#cluster
    this.#cluster.shims = shims.filter((shim) => {
      if (shim.ended !== null) this.figures[shim.ended] = (this.figures[shim.ended] ?? 0) + 1
      return shim.ended === null
    })
    this.#cluster.requesters = requesters.filter(({ ended }) => {
      if (ended !== null) this.figures[`managed: ${ended}`] = (this.figures[`managed: ${ended}`] ?? 0) + 1
      return ended === null
    })
    if (this.#closed || this.#cluster.shims.length + this.#cluster.requesters.length >= scenery.shims) return
    const allocations = (await truth.allocations(JOB)).filter(({ desired, client }) => desired === 'run' && client !== 'lost')
    if (this.#chance.happens(scenery.managed)) {
      const allocation = this.#chance.pick(allocations)
      if (allocation !== undefined) this.#cluster.startRequester(this.#errands(allocation.id), allocation.nodeName)
      return
    }
    const wish = this.#wish(allocations.map(({ id }) => id))
    if (wish !== null) this.#cluster.startShim(wish, this.#planOf())
  }

  #wish(units: readonly string[]): Wish | null {
    const chance = this.#chance
    const { components, priorities, shared } = this.#cluster.scenery
    const reason = 'rotated'
    if (chance.happens(shared)) return { shared: 'docker', unit: `host-${chance.whole(1, 4)}`, reason }
    if (units.length === 0) return null
    const component = chance.pick(components)
    return {
      allocation: chance.pick(units),
      reason,
      ...(component === undefined ? {} : { component }),
      ...(priorities ? { priority: chance.whole(0, 2) } : {}),
      ...(chance.happens(0.15) ? { action: 'signal' as const } : {}),
    }
  }

  #errands(allocation: string): Errands {
    const chance = this.#chance
    const { components, priorities, besides } = this.#cluster.scenery
    const [component] = components
    return {
      allocation,
      reason: 'rotated',
      action: chance.weighted({ restart: 16, signal: 3, replace: 1 }),
      ...(component === undefined ? {} : { component }),
      ...(besides.length > 0 && chance.happens(0.3) ? { task: chance.pick(tasksOf(this.#cluster.scenery)) } : {}),
      ...(priorities ? { priority: chance.whole(0, 2) } : {}),
      sinceMs: chance.happens(0.4) ? chance.skewed(1, 60_000) : null,
      times: chance.pick([1, 1, 1, 2, 3]),
      withdraws: chance.happens(0.1),
    }
  }

  #planOf(): Plan {
    const chance = this.#chance
    return {
      thinkMs: chance.happens(0.2) ? chance.skewed(1_000, 60_000) : chance.skewed(1, 1_000),
      course: chance.weighted({ acts: 20, quits: 2, 'dies early': 1, 'dies in the act': 1 }),
      releases: chance.happens(0.1) ? 2 : 1,
      careful: true,
      ...this.#plan,
    }
  }
}
