import { acquire } from '../../src/shim/acquire.ts'
import type { Hold } from '../../src/shim/hold.ts'
import { createService, type Wish } from '../../src/shim/service.ts'
import { Problem } from '../../src/core/errors.ts'
import type { NewId } from '../../src/keeper/ports.ts'
import type { Outcome } from '../../src/core/state.ts'
import type { ServiceClient } from '../../src/shim/client.ts'
import type { Chance } from './chance.ts'
import type { Host } from './host.ts'

/** What one asking process will do with its hold. */
export interface Plan {
  /** From the right to act until it acts. */
  readonly thinkMs: number
  /** `quits`: it gives up without having acted. `dies`: before, in or after the act. */
  readonly course: 'acts' | 'quits' | 'dies early' | 'dies in the act'
  readonly releases: 1 | 2
  /** Looks whether it may before it acts. False: a deliberate fault. */
  readonly careful: boolean
}

export interface ShimDeps {
  readonly host: Host
  readonly client: ServiceClient
  readonly chance: Chance
  readonly newId: NewId
  /** Does it, by whatever means; resolves when it is done. */
  readonly act: (hold: Hold) => Promise<void>
  readonly began: (hold: string) => void
  readonly finished: () => void
  readonly over: (how: string) => void
}

/** One asking process with the real shim inside: it asks, renews, acts and releases. Its act is not a command but a call. */
export class SimulatedShim {
  readonly wish: Wish
  readonly host: Host
  readonly plan: Plan
  readonly startedAt: number
  /** Null: it is still under way. */
  ended: string | null = null
  acted = false
  readonly #deps: ShimDeps

  constructor(wish: Wish, plan: Plan, startedAt: number, deps: ShimDeps) {
    this.wish = wish
    this.plan = plan
    this.host = deps.host
    this.startedAt = startedAt
    this.#deps = deps
    deps.host.gone.addEventListener('abort', () => this.#end('died'), { once: true })
    void this.#run().then(
      (how) => this.#end(how),
      (error: unknown) => this.#end(error instanceof Problem ? error.kind : `fault: ${String(error)}`),
    )
  }

  async #run(): Promise<string> {
    const { host, client, chance, newId } = this.#deps
    const { plan } = this
    const service = createService(client)
    const shim = { service, clock: host.clock, random: () => chance.next(), tell: () => undefined, newId }
    const patience = { since: host.clock.now(), ms: 6 * 3_600_000 }
    const forever = new AbortController().signal
    for (;;) {
      const hold = await acquire(shim, this.wish, patience, forever)
      await host.clock.sleep(plan.thinkMs)
      if (plan.course === 'dies early') return await this.#die()
      if (plan.course === 'quits') {
        await hold.release('abandoned')
        return 'quit'
      }
      // Nothing may stand between this look and the act.
      if (plan.careful && !hold.valid()) {
        await hold.release('abandoned')
        continue
      }
      this.acted = true
      this.#deps.began(hold.id)
      const outcome: Outcome = await this.#deps.act(hold).then(
        () => 'done',
        () => 'failed',
      )
      this.#deps.finished()
      if (plan.course === 'dies in the act') return await this.#die()
      await hold.release(outcome)
      if (plan.releases === 2) await hold.release(outcome)
      return outcome
    }
  }

  #die(): Promise<never> {
    this.host.crash()
    return new Promise(() => undefined)
  }

  #end(how: string): void {
    if (this.ended !== null) return
    this.ended = how
    this.#deps.over(how)
  }
}
