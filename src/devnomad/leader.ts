import type { Request } from './http/exchange.ts'
import { LeaderLost, type Raft } from './raft.ts'
import type { Timers } from './timers.ts'
import type { Variables } from './variables/variables.ts'

/** Whether the servers have a leader. Without one nothing is written, no lock expires and nothing is scheduled; a new one
 *  gives every lock a fresh 2 × TTL (facts §2). */
export class Leader {
  readonly #timers: Timers
  readonly #raft: Raft
  readonly #variables: Variables
  #leads = true
  #stalled: { readonly over: Promise<void>; readonly fails: boolean } | undefined
  #elect: (() => void) | undefined
  #deposed: ((request: Request) => boolean) | undefined

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
    this.#elect = this.#timers.after(ms, () => this.#elected())
  }

  /** The leader answers nobody for `ms`. Then what was asked meanwhile is done, late; or, when it `fails`, it is answered
   *  with a 500, undone, and there is a new leader (SIGSTOP; measured: 10.6 s, facts §2). */
  stall(ms: number, end: 'late' | 'fails' = 'late'): void {
    const over = this.#timers.wait(ms)
    const stalled = { over, fails: end === 'fails' }
    this.#stalled = stalled
    if (stalled.fails) this.#variables.leaderLost()
    void over.then(() => {
      if (this.#stalled !== stalled) return
      this.#stalled = undefined
      if (stalled.fails) this.#elected()
    })
  }

  /** There is another leader, at once, but the old one does not know it: for `ms` it answers reads of variables, of who
   *  asks it, with what was there when it fell. Writes and all other requests reach the new one. */
  depose(ms: number, asksTheOldOne: (request: Request) => boolean = () => true): void {
    this.#variables.leaderLost()
    this.#variables.freeze()
    this.#elected()
    this.#deposed = asksTheOldOne
    this.#timers.after(ms, () => {
      if (this.#deposed !== asksTheOldOne) return
      this.#deposed = undefined
      this.#variables.thaw()
      this.#raft.wake()
    })
  }

  /** Whether the answer comes from the leader that fell. */
  answersFromThePast(request: Request): boolean {
    return request.method === 'GET' && (this.#deposed?.(request) ?? false)
  }

  /** Waits as long as the leader is stalled; rejects when that ends badly. */
  async ready(): Promise<void> {
    while (this.#stalled !== undefined) {
      const { over, fails } = this.#stalled
      await over
      if (fails) throw new LeaderLost("rpc error: failed to get conn: rpc error: lead thread didn't get connection")
    }
  }

  #elected(): void {
    this.#leads = true
    this.#variables.leaderElected()
  }
}
