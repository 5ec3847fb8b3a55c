// A lease: one Nomad variable lock that says that somebody is alive. Fresh path, fresh lock ID, acquired once (protocol G8).
import type { Clock, Log, NewId, Variables } from './ports.ts'
import { NomadFault } from '../core/nomad-fault.ts'
import { proofOf, type Items } from './records.ts'
import type { Snapshot } from './watch.ts'

export interface LeaseDeps {
  readonly variables: Variables
  readonly clock: Clock
  readonly newId: NewId
  readonly log: Log
  readonly ttlMs: number
}

/** The lock falls 2 × TTL after the last renewal, then Nomad waits this long; 0 would mean 15 s (facts §2). */
const LOCK_DELAY_MS = 1
/** Made once: an abort without a reason makes an exception with a stack each time. */
const KEPT = new Error('not renewed any more')
/** How long a release may take when its owner is already shutting down. */
const END_MS = 5_000

/** One lease of ours. `valid()` counts one TTL from *before* the last renewal that succeeded was sent, on our monotonic clock:
 *  Nomad holds it for two. Hole: a frozen process notices only when it wakes; ask `valid()` right before you act. */
export class Lease {
  readonly path: string
  readonly lockId: string
  /** ModifyIndex that the acquire returned: the lease is alive iff its variable still has it (facts §2). */
  readonly index: number
  readonly proof: string
  readonly #deps: LeaseDeps
  readonly #keeping = new AbortController()
  #renewedAt: number
  #lost = false

  constructor(deps: LeaseDeps, path: string, lockId: string, index: number, sentAt: number) {
    this.#deps = deps
    this.path = path
    this.lockId = lockId
    this.index = index
    this.proof = proofOf(lockId)
    this.#renewedAt = sentAt
  }

  valid(): boolean {
    return this.remainingMs() > 0
  }

  /** How much longer it is valid without another renewal. */
  remainingMs(): number {
    return this.#lost ? 0 : Math.max(0, this.#renewedAt + this.#deps.ttlMs - this.#deps.clock.now())
  }

  /** Renews every third of the TTL, until the lease is lost, ended or handed over, or the signal aborts. */
  async keep(signal: AbortSignal): Promise<void> {
    const { clock, ttlMs, log } = this.#deps
    const stop = () => this.#keeping.abort(KEPT)
    signal.addEventListener('abort', stop, { once: true })
    const keeping = this.#keeping.signal
    while (!keeping.aborted && !signal.aborted && !this.#lost) {
      const due = this.#renewedAt + ttlMs / 3 - clock.now()
      // After a renewal without an answer try again soon: there is time left until the lease is lost.
      await clock.sleep(Math.max(due, 500), keeping).catch(() => undefined)
      if (keeping.aborted) break
      await this.#renew(keeping).catch((error: unknown) => {
        if (!keeping.aborted) log.warn({ path: this.path, error: String(error) }, 'lease not renewed')
      })
    }
    signal.removeEventListener('abort', stop)
  }

  /** From now on its holder renews it. */
  handOver(): void {
    this.#keeping.abort(KEPT)
  }

  async #renew(signal: AbortSignal): Promise<void> {
    const { clock, variables } = this.#deps
    const sentAt = clock.now()
    const answer = await variables.renew(this.path, this.lockId, signal)
    if (answer === 'lost') this.#lost = true
    else this.#renewedAt = sentAt
  }

  /** Releases and deletes the variable. Bounded, on a signal of its own; what fails is left to expire and to the sweep. */
  async end(): Promise<void> {
    this.#lost = true
    this.#keeping.abort(KEPT)
    await endLease(this.#deps, this.path, this.lockId)
  }
}

/** Whether the lease is lost: a list with an index not before its own does not show it as it was acquired (protocol E2). An older list
 *  says nothing. */
export function isLost({ path, index }: Pick<Lease, 'path' | 'index'>, { index: listed, entries }: Snapshot): boolean {
  return listed >= index && entries.get(path)?.modifyIndex !== index
}

/** Acquires at a path that was never used. Throws NomadFault: then the path must not be tried again. */
export async function acquireLease(deps: LeaseDeps, path: string, items: Items, signal: AbortSignal): Promise<Lease> {
  const lockId = deps.newId()
  const sentAt = deps.clock.now()
  const lock = { id: lockId, ttlMs: deps.ttlMs, delayMs: LOCK_DELAY_MS }
  const answer = await deps.variables.acquire(path, lock, items, signal)
  if (answer.kind === 'taken') throw new NomadFault('rejected', 'a lease path that was just made is taken by somebody else')
  return new Lease(deps, path, lockId, answer.index, sentAt)
}

/** Ends a lease of which the lock ID is known. Never throws. */
export async function endLease(deps: LeaseDeps, path: string, lockId: string): Promise<void> {
  const { variables, clock, log } = deps
  await clock
    .within(END_MS, undefined, async (signal) => {
      const released = await variables.release(path, lockId, signal)
      if (released.kind === 'released') await variables.remove(path, released.index, signal)
    })
    .catch((error: unknown) => log.debug({ path, error: String(error) }, 'lease left to expire'))
}
