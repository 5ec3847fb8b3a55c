import type { Duties } from './duties.ts'
import type { Request } from './http/exchange.ts'
import { LeaderLost, type Raft } from './raft.ts'
import type { Timers } from './timers.ts'
import type { Variables } from './variables/variables.ts'

// What the other servers say of a leader that is gone: at first they still turn to it, then they give up (source: nomad/rpc.go).
const NO_CONNECTION = 'rpc error: failed to get conn: dial tcp 127.0.0.1:4647: connect: connection refused'
const NO_LEADER = 'No cluster leader'
const HOLD_MS = 5_000

/** Whether the servers have a leader, and whether it works. Without one nothing is written, no lock expires and nothing is
 *  scheduled; a new one gives every lock a fresh 2 × TTL (facts §2). */
export class Leader {
  readonly #timers: Timers
  readonly #duties: Duties
  readonly #raft: Raft
  readonly #variables: Variables
  #leads = true
  #gone = NO_CONNECTION
  #election: (() => void)[] = []
  /** Ends the stall too early. */
  #stalled: (() => void) | undefined
  #waiting: ((lost: LeaderLost | undefined) => void)[] = []
  #deposed: ((request: Request) => boolean) | undefined

  constructor(timers: Timers, duties: Duties, raft: Raft, variables: Variables) {
    this.#timers = timers
    this.#duties = duties
    this.#raft = raft
    this.#variables = variables
  }

  get leads(): boolean {
    return this.#leads
  }

  /** Kills the leader; another one is elected after `ms` (measured: about 3.6 s). Who waits gets `rpc error: EOF`, who comes
   *  then `failed to get conn`. */
  fail(ms: number): void {
    this.#lost(new LeaderLost())
    this.#leads = false
    this.#gone = NO_CONNECTION
    this.#election = [this.#timers.after(HOLD_MS, () => (this.#gone = NO_LEADER)), this.#timers.after(ms, () => this.#elected())]
  }

  /** The leader does nothing and answers nobody for `ms`. Then what was due or asked meanwhile is done, late; or, when it
   *  `fails`, what was asked is answered with a 500, undone, and there is a new leader (SIGSTOP; measured: 10.6 s, facts §2). */
  stall(ms: number, end: 'late' | 'fails' = 'late'): void {
    if (!this.#leads) return
    this.#duties.rest()
    this.#stalled?.()
    this.#stalled = this.#timers.after(ms, () => {
      if (end === 'fails') {
        this.#lost(new LeaderLost("rpc error: failed to get conn: rpc error: lead thread didn't get connection"))
        return this.#elected()
      }
      this.#duties.goOn()
      this.#release(undefined)
    })
  }

  /** There is another leader, at once, but the old one does not know it: for `ms` it answers reads of variables, of who
   *  asks it, with what was there when it fell. Writes and all other requests reach the new one. */
  depose(ms: number, asksTheOldOne: (request: Request) => boolean = () => true): void {
    this.#lost(undefined)
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

  /** Waits as long as the leader is stalled; rejects when that ends badly, or there is none. */
  async ready(): Promise<void> {
    await this.awake()
    if (!this.#leads) throw new LeaderLost(this.#gone)
  }

  /** Waits as long as the leader is stalled; rejects when that ends badly. */
  async awake(): Promise<void> {
    while (this.#stalled !== undefined) {
      const lost = await new Promise<LeaderLost | undefined>((resolve) => this.#waiting.push(resolve))
      if (lost !== undefined) throw lost
    }
  }

  #lost(lost: LeaderLost | undefined): void {
    for (const cancel of this.#election.splice(0)) cancel()
    this.#duties.rest()
    this.#variables.leaderLost()
    if (lost !== undefined) this.#raft.dropWaiters()
    this.#release(lost)
  }

  #release(lost: LeaderLost | undefined): void {
    this.#stalled?.()
    this.#stalled = undefined
    for (const wake of this.#waiting.splice(0)) wake(lost)
  }

  #elected(): void {
    for (const cancel of this.#election.splice(0)) cancel()
    this.#leads = true
    this.#variables.leaderElected()
    this.#duties.goOn()
  }
}
