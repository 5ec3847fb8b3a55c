// One act on one allocation: sent only under a valid lease of this replica, and over before that lease can be (protocol M1).
import { NomadFault } from '../core/nomad-fault.ts'
import type { ManagedAction } from '../core/request.ts'
import type { Lease } from './lease.ts'
import type { Acted, Actions, Clock } from './ports.ts'
import type { Replica } from './replica.ts'

export interface Act {
  readonly unit: string
  readonly action: ManagedAction
  /** Those that were named; none: all that run. */
  readonly tasks: readonly string[]
  /** The same, each by its name. */
  readonly running: readonly string[]
  readonly signal: string | null
  /** The tasks that are done already. What Nomad answers for is added: it is not done again when another one was not running. */
  readonly did: Set<string>
}

/** Of the lease's time that must be left when a call is sent, and that is left when its bound is over. */
const SPARE_MS = 1_000
const LEAST_BOUND_MS = 2_000
export const MOST_BOUND_MS = 8_000
const DEFAULT_SIGNAL = 'SIGHUP'

/** `unknown`: it may have happened, or may happen until the bound is over, which it is when this resolves. `not_running`: nothing
 *  was done this time. */
export async function actOn(
  actions: Actions,
  replica: Replica,
  lease: Lease,
  act: Act,
  clock: Clock,
  signal: AbortSignal,
): Promise<Acted | { readonly kind: 'unknown' }> {
  for (const { task, call } of callsOf(actions, act)) {
    // A lease that is being given back covers no call (protocol M1).
    signal.throwIfAborted()
    // The next renewal is a third of the time to live away at most.
    while (lease.remainingMs() < LEAST_BOUND_MS + SPARE_MS) {
      if (!lease.valid()) return { kind: 'unknown' }
      await clock.sleep(100, signal)
    }
    const boundMs = Math.min(MOST_BOUND_MS, lease.remainingMs() - SPARE_MS)
    // A call that is given up may be executed all the same: shutting down waits for it.
    const until = clock.now() + boundMs
    const said = await replica.acting(call(boundMs)).catch(meaningOf)
    // A connection that broke has not ended what it has brought (protocol M2).
    if (said.kind === 'unknown') await clock.sleep(Math.max(0, until - clock.now()), signal)
    if (said.kind !== 'done') return said
    if (task !== null) act.did.add(task)
  }
  return { kind: 'done' }
}

interface Call {
  /** Null: all of the unit at once. */
  readonly task: string | null
  readonly call: (boundMs: number) => Promise<Acted>
}

function callsOf(actions: Actions, { unit, action, tasks, running, signal: name, did }: Act): Call[] {
  if (action === 'replace') return [{ task: null, call: (ms) => actions.stop(unit, ms) }]
  if (action === 'restart' && tasks.length === 0) return [{ task: null, call: (ms) => actions.restart(unit, null, ms) }]
  const left = (action === 'restart' ? tasks : running).filter((task) => !did.has(task))
  return left.map((task) => ({
    task,
    call: (ms) =>
      action === 'restart' ? actions.restart(unit, task, ms) : actions.signal(unit, task, name ?? DEFAULT_SIGNAL, ms),
  }))
}

function meaningOf(error: unknown): Acted | { readonly kind: 'unknown' } {
  if (!(error instanceof NomadFault)) throw error
  if (error.kind === 'denied') return { kind: 'refused', why: `Nomad refuses it: ${error.message}; see deploy/acl` }
  return error.maybeDone || error.kind === 'unavailable' ? { kind: 'unknown' } : { kind: 'refused', why: error.message }
}
