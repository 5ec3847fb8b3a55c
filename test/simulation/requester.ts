import type { Problem } from '../../src/core/errors.ts'
import type { Variables } from '../../src/keeper/ports.ts'
import type { RequestAnswer, RequestInput } from '../../src/keeper/requests.ts'
import type { Chance } from './chance.ts'
import type { Asked } from './errand-rules.ts'
import type { Host } from './host.ts'
import type { Network } from './network.ts'
import type { SimulatedReplica } from './replica.ts'

/** What one of those who ask and go away again wants. */
export interface Errands extends Omit<RequestInput, 'since'> {
  readonly action: Asked['action']
  /** How long ago that was written which must be read; null: it names no time. */
  readonly sinceMs: number | null
  /** How often it asks. */
  readonly times: number
  readonly withdraws: boolean
}

interface RequesterDeps {
  readonly host: Host
  readonly network: Network
  readonly chance: Chance
  readonly replicas: () => readonly SimulatedReplica[]
  /** True time. */
  readonly now: () => number
  /** Of the node of its allocation. */
  readonly nodeWall: () => number
  readonly asked: (asked: Asked) => void
  readonly withdraws: (id: string) => void
  /** What it withdraws with. */
  readonly variables: Variables
}

const TRIES = 30
const BOUND_MS = 15_000

/** Somebody who has the service act: asks any replica, again until it is told that it is stored, perhaps more than once. */
export class SimulatedRequester {
  readonly host: Host
  /** Null: it is still under way. */
  ended: string | null = null
  readonly #deps: RequesterDeps

  constructor(wish: Errands, deps: RequesterDeps) {
    this.host = deps.host
    this.#deps = deps
    void this.#run(wish).then(
      (how) => (this.ended = how),
      (error: unknown) => (this.ended = String((error as Partial<Problem>).kind ?? error)),
    )
  }

  async #run(wish: Errands): Promise<string> {
    const { host, chance } = this.#deps
    let id: string | null = null
    for (let nth = 0; nth < wish.times; nth++) {
      if (nth > 0) await host.clock.sleep(chance.skewed(10, 30_000))
      id = await this.#ask(wish)
    }
    if (id === null) return 'satisfied'
    if (!wish.withdraws) return 'stored'
    await host.clock.sleep(chance.skewed(10, 20_000))
    await this.#withdraw(id)
    return 'withdrawn'
  }

  async #ask(wish: Errands): Promise<string | null> {
    const { nodeWall, now, asked, host } = this.#deps
    const { sinceMs, times: _, withdraws: __, ...rest } = wish
    const since = sinceMs === null ? null : Math.floor(nodeWall() - sinceMs)
    const changedAt = now() - (sinceMs ?? 0)
    const input = { ...rest, ...(since === null ? {} : { since }) }
    const answer = await this.#call((replica, closed) => replica.put(input, closed))
    const id = answer.kind === 'satisfied' ? null : answer.request.id
    asked({ unit: wish.allocation, task: wish.task ?? null, action: wish.action, since, changedAt, by: host.name, id })
    return id
  }

  async #withdraw(id: string): Promise<void> {
    const { variables, withdraws } = this.#deps
    withdraws(id)
    await this.#call((replica, closed) => replica.keeper.requests.cancel(id, variables, closed)).catch(() => undefined)
  }

  /** Of replicas at random, until one answers. What is wrong with the ask itself ends it. */
  async #call<T = RequestAnswer>(serve: (replica: SimulatedReplica, closed: AbortSignal) => Promise<T>): Promise<T> {
    const { host, network, chance, replicas } = this.#deps
    let last: unknown = new Error('there is no replica')
    for (let tries = 0; tries < TRIES; tries++) {
      const replica = chance.pick(replicas())
      const work = (bounded: AbortSignal) => network.exchange(host, replica.host, bounded, (closed) => serve(replica, closed))
      try {
        if (replica !== undefined) return await host.clock.within(BOUND_MS, undefined, work)
      } catch (error) {
        last = error
        const kind = (error as Partial<Problem>).kind ?? ''
        if (['allocation_finished', 'unknown_allocation', 'invalid_request', 'unknown_request'].includes(kind)) throw error
      }
      await host.clock.sleep(chance.skewed(200, 3_000))
    }
    throw last
  }
}
