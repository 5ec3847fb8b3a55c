// The shims that come and go, and what they wish for.
import type { Chance } from '../simulation/chance.ts'
import { GROUPS, SHARED } from './setup.ts'
import type { Shims, Wish } from './shims.ts'

export interface Allocation {
  readonly id: string
  readonly group: string
}

export interface CrowdDeps {
  readonly chance: Chance
  readonly shims: Shims
  readonly allocations: readonly Allocation[]
  readonly replicas: readonly string[]
  /** The HTTP address of the agent that runs the allocations: it is never killed. */
  readonly agent: string
  readonly servers: readonly string[]
}

/** The share of acts that take so long that a frozen shim may lose its lease meanwhile. */
const LONG = 0.12

export class Crowd {
  readonly #deps: CrowdDeps
  #units = 0

  constructor(deps: CrowdDeps) {
    this.#deps = deps
  }

  /** Starts one shim when there are fewer than `most`. */
  fill(most: number): void {
    const { shims, chance } = this.#deps
    if (shims.running.length >= most) return
    if (chance.happens(0.4)) this.#start(this.#sharedWish(chance.pick(SHARED)))
    else this.restart(chance.pick(this.#deps.allocations))
  }

  /** One that restarts this allocation. */
  restart({ id, group }: Allocation): void {
    const { chance, agent, servers } = this.#deps
    // Through a server a call may take effect long after it was given up: when that server was frozen.
    const first = chance.happens(0.7) ? agent : chance.pick(servers)
    const nomad = [first, ...shuffled([...servers, agent], chance).filter((address) => address !== first)]
    const thinkMs = chance.happens(LONG) ? chance.between(12_000, 30_000) : chance.skewed(10, 2_000)
    this.#start({ semaphore: group, unit: id, shared: false, wait: this.#wait(), thinkMs, nomad })
  }

  /** For each unit that has failed one that restarts it, unless there is one already: that is how the good value gets in. */
  mend(failed: readonly { readonly unit: string; readonly group: string }[]): void {
    for (const { unit, group } of failed) {
      const there = this.#deps.shims.running.some(({ wish }) => wish.unit === unit)
      if (!there && GROUPS.some(({ name }) => name === group)) this.restart({ id: unit, group })
    }
  }

  #sharedWish(semaphore: string): Wish {
    const { chance } = this.#deps
    const thinkMs = chance.happens(LONG) ? chance.between(12_000, 30_000) : chance.skewed(50, 3_000)
    return { semaphore, unit: `unit-${++this.#units}`, shared: true, wait: this.#wait(), thinkMs, nomad: [] }
  }

  #wait(): string {
    const { chance } = this.#deps
    return chance.happens(0.05) ? '0s' : `${chance.whole(20, 120)}s`
  }

  #start(wish: Wish): void {
    const { shims, chance, replicas } = this.#deps
    shims.start(wish, shuffled(replicas, chance))
  }
}

export function shuffled<T>(items: readonly T[], chance: Chance): T[] {
  return items
    .map((item) => ({ item, at: chance.next() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item)
}
