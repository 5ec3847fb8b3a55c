import type { Raft } from './raft.ts'
import type { Timers } from './timers.ts'
import type { Variables } from './variables/variables.ts'

/** Whether the servers have a leader. Without one nothing is written, no lock expires and nothing is scheduled; a new one
 *  gives every lock a fresh 2 × TTL (facts §2). */
export class Leader {
  readonly #timers: Timers
  readonly #raft: Raft
  readonly #variables: Variables
  #leads = true
  #stalled: Promise<void> | undefined
  #elect: (() => void) | undefined

  constructor(timers: Timers, raft: Raft, variables: Variables) {
    this.#timers = timers
    this.#raft = raft
    this.#variables = variables
  }

  get leads(): boolean {
    return this.#leads
  }

  /** Kills the leader; another one is elected after `ms` (measured: about 3.6 s). Who waits gets `rpc error: EOF`. */
  fail(ms: number): void {
    this.#leads = false
    this.#variables.leaderLost()
    this.#raft.dropWaiters()
    this.#elect?.()
    this.#elect = this.#timers.after(ms, () => {
      this.#leads = true
      this.#variables.leaderElected()
    })
  }

  /** The leader answers nobody for `ms`; what was asked meanwhile is done then, late. */
  stall(ms: number): void {
    const over = this.#timers.wait(ms)
    this.#stalled = over
    void over.then(() => {
      if (this.#stalled === over) this.#stalled = undefined
    })
  }

  /** Waits as long as the leader is stalled. */
  async ready(): Promise<void> {
    while (this.#stalled !== undefined) await this.#stalled
  }
}
