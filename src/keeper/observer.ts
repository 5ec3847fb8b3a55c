// Watches what is held at one semaphore: leases that are lost, actors that are overdue, and units until the health gate is
// satisfied. Evidence is gathered here and judged in core/gate; it is written together with what it was gathered for.
import { mayRun } from '../core/cluster.ts'
import { look, type GateMemory, type Watched } from '../core/gate.ts'
import { isGroupScope, type GroupScope } from '../core/scope.ts'
import { recover, release, settle } from '../core/semaphore.ts'
import type { Failure, Hold } from '../core/state.ts'
import { Alarm } from './alarm.ts'
import { currentOf, groupOf, specOf, type ClusterView, type JobLook } from './cluster-view.ts'
import { isLost } from './lease.ts'
import type { Clock, Log, Meter } from './ports.ts'
import type { Semaphore } from './semaphore.ts'
import type { Snapshot } from './watch.ts'

export interface ObserverDeps {
  readonly cluster: ClusterView
  readonly clock: Clock
  readonly log: Log
  readonly meter: Meter
  /** Of the keeper's life. */
  readonly signal: AbortSignal
}

const LOOK_AGAIN_MS = 1_000
/** A waiter may expect the slot of an abandoned hold within a second. */
const LOOK_SOON_MS = 350
/** An open failure hurries nobody but its own unit. */
const LOOK_AT_FAILURES_MS = 5_000
const IDLE_MS = 30_000

/** Moves holds whose lease is lost to `observing`. A managed one is taken over instead (see Errands). */
export async function endLostLeases(semaphore: Semaphore, snapshot: Snapshot, meter: Meter): Promise<void> {
  const lost = (semaphore.state?.holds ?? []).filter(
    ({ phase, lease, managed }) => phase === 'acting' && !managed && isLost(lease, snapshot),
  )
  for (const hold of lost) {
    const { changed } = await semaphore.commit((now, policy, at) =>
      release(now, hold.id, hold.lease.path, 'lease_lost', policy, at),
    )
    if (changed) meter.count('leases_lost')
  }
}

/** Past `acting_deadline` the gate judges as after a lost lease; nothing is freed by time. Without a gate a lease may be held for
 *  as long as it is renewed. */
export async function endOverdue(semaphore: Semaphore, clock: Clock): Promise<void> {
  const { policy } = semaphore.policy
  if (policy.healthCheck === 'none') return
  const overdue = (semaphore.state?.holds ?? []).filter(
    ({ phase, phaseSince }) => phase === 'acting' && clock.wall() - phaseSince >= policy.actingDeadline,
  )
  for (const { id, lease } of overdue) {
    await semaphore.commit((now, current, at) => release(now, id, lease.path, 'overdue', current, at))
  }
}

/** Every replica looks, though one would do: held and failed units are few, and whichever replica dies, no count starts anew. */
export class Observer {
  readonly #deps: ObserverDeps
  readonly #semaphore: Semaphore
  readonly #memories = new Map<string, GateMemory>()
  readonly #alarm: Alarm

  constructor(deps: ObserverDeps, semaphore: Semaphore) {
    this.#deps = deps
    this.#alarm = new Alarm(deps.clock)
    this.#semaphore = semaphore
  }

  wake(): void {
    this.#alarm.wake()
  }

  /** Looks as long as there is something to watch, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { log } = this.#deps
    while (!signal.aborted) {
      let pause = Infinity
      try {
        pause = await this.#lookAtAll()
      } catch (error) {
        pause = LOOK_AGAIN_MS
        if (!signal.aborted && !this.#deps.signal.aborted)
          log.warn({ scope: this.#semaphore.scope, error: String(error) }, 'the units that are held cannot be seen')
      }
      await this.#pause(pause, signal)
    }
  }

  /** Changes of the state wake it when nothing is watched; else the looks keep their distance. */
  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    if (ms === Infinity || ms === LOOK_AT_FAILURES_MS) await this.#alarm.sleep(Math.min(ms, IDLE_MS), signal)
    else await this.#deps.clock.sleep(ms, signal).catch(() => undefined)
  }

  /** When to look again; Infinity: when something changes. */
  async #lookAtAll(): Promise<number> {
    const { scope, state } = this.#semaphore
    const holds = (state?.holds ?? []).filter(({ phase }) => phase === 'observing')
    const failures = state?.failures ?? []
    const watched = new Set([...holds.map(keyOfHold), ...failures.map(keyOfFailure)])
    for (const key of this.#memories.keys()) if (!watched.has(key)) this.#memories.delete(key)
    if (watched.size === 0 || !isGroupScope(scope)) return Infinity
    const view = await this.#deps.cluster.look(scope, this.#deps.clock.now())
    this.#semaphore.seeLook(view)
    await Promise.all([
      ...holds.map((hold) => this.#lookAtHold(hold, scope, view)),
      ...failures.map((failure) => this.#lookAtFailure(failure, scope, view)),
    ])
    if (holds.length === 0) return LOOK_AT_FAILURES_MS
    return holds.some(({ outcome }) => outcome === 'abandoned') ? LOOK_SOON_MS : LOOK_AGAIN_MS
  }

  async #lookAtHold(hold: Hold, scope: GroupScope, view: JobLook): Promise<void> {
    const { unit, tasks, action, outcome, wasUp, baseline, phaseSince } = hold
    const watched = { unit, tasks, action, outcome, wasUp, baseline, since: phaseSince, failedVersion: null }
    const verdict = await this.#judge(keyOfHold(hold), watched, hold.place, scope, view)
    if (verdict.kind === 'watch') return
    // First the request, then the slot (protocol M5); one that was not acted on stays for its asker.
    if (verdict.kind !== 'unchanged') await this.#semaphore.chores.queue.finish(hold)
    const jobVersion = currentOf(view, unit, hold.place)?.jobVersion ?? view.job?.version ?? 0
    const judgement = { id: hold.id, leasePath: hold.lease.path, verdict: verdict.kind, reason: verdict.reason, jobVersion }
    const { changed } = await this.#semaphore.commit((state, policy, now) => settle(state, judgement, policy, now))
    if (changed && verdict.kind === 'failed') this.#deps.meter.count('failures')
  }

  async #lookAtFailure(failure: Failure, scope: GroupScope, view: JobLook): Promise<void> {
    const { unit, place, token, jobVersion } = failure
    const of = { tasks: [], action: 'restart', outcome: null, wasUp: false, baseline: {}, since: null } as const
    const verdict = await this.#judge(keyOfFailure(failure), { unit, ...of, failedVersion: jobVersion }, place, scope, view)
    if (verdict.kind !== 'healthy' && verdict.kind !== 'gone') return
    await this.#semaphore.commit((state, policy, now) => recover(state, unit, token, verdict.reason, policy, now))
  }

  async #judge(key: string, watched: Watched, place: string, scope: GroupScope, view: JobLook) {
    const { policy } = this.#semaphore.policy
    if (policy.healthCheck === 'none') return { kind: 'healthy', reason: 'released is over' } as const
    const allocation = currentOf(view, watched.unit, place)
    const checks = allocation === null ? [] : await this.#deps.cluster.checks(allocation.id)
    const group = specOf(view, scope)
    const { clock } = this.#deps
    const owed = allocation === null || !mayRun(allocation) ? await this.#owed(place, scope, view) : null
    const sight = { at: view.at, seenAt: clock.now(), wall: clock.wall(), allocation, checks, group, owed }
    const { memory, verdict } = look(this.#memories.get(key) ?? null, watched, sight, policy)
    this.#memories.set(key, memory)
    return verdict
  }

  /** What is known of the replacement of a unit that has ended at this place; null: Nomad wants none there. */
  async #owed(place: string, scope: GroupScope, view: JobLook): Promise<string | null> {
    const isSystem = view.job?.type === 'system'
    const isWanted = isSystem || groupOf(view, scope)?.view.down.has(place) === true
    if (view.job?.stopped !== false || !isWanted) return null
    return (await this.#deps.cluster.unplaced(scope)) ?? (isSystem ? null : 'Nomad may name a replacement')
  }
}

/** Evidence is for one phase under one lease (protocol E5). */
function keyOfHold(hold: Hold): string {
  return JSON.stringify([hold.id, hold.lease.path, hold.phase])
}

function keyOfFailure(failure: Failure): string {
  return JSON.stringify(['failure', failure.unit, failure.token])
}
