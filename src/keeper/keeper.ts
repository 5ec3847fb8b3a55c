// The keeper: one replica. Watches our variables, runs a semaphore for every scope that has something open, and answers for holds.
import { setMaxListeners } from 'node:events'
import { Problem, textOf } from '../core/errors.ts'
import { isSatisfied } from '../core/request.ts'
import type { Level, Scope } from '../core/scope.ts'
import { release as releaseChange } from '../core/semaphore.ts'
import type { Action, Hold, Outcome } from '../core/state.ts'
import type { Answer, Ask } from './ask.ts'
import type { Change } from './changes.ts'
import { createClusterView, type ClusterView } from './cluster-view.ts'
import { endLease, type LeaseDeps } from './lease.ts'
import { createLockView, type LockView } from './lock-view.ts'
import { readSemaphores, unknownHold, type StoredSemaphore } from './operate.ts'
import { paths as pathsOf, type Paths } from './paths.ts'
import type { Actions, Clock, Cluster, Log, Meter, NewId, Variables } from './ports.ts'
import { proofOf } from './records.ts'
import { Registry } from './registry.ts'
import { createReplica, type Replica } from './replica.ts'
import { RequestMemory } from './request-memory.ts'
import { Requests } from './requests.ts'
import { ANYBODY, resolveAllocation, type Allowed } from './resolve.ts'
import type { Semaphore } from './semaphore.ts'

export interface KeeperPorts {
  readonly variables: Variables
  readonly cluster: Cluster
  readonly actions: Actions
  readonly clock: Clock
  readonly newId: NewId
  readonly log: Log
  readonly meter: Meter
}
export interface KeeperSettings {
  readonly prefix: string
  readonly namespace: string
  /** Name of this replica, for people. */
  readonly name: string
  readonly leaseTtlMs: number
}

/** What an asker says. */
export interface AskInput {
  readonly allocation?: string
  readonly shared?: string
  readonly unit?: string
  readonly component?: string
  readonly task?: string
  readonly action?: Action
  readonly reason: string
  readonly key: string
  readonly priority?: number
  readonly deadline?: number
  /** On the clock of the unit's own host, in milliseconds since the epoch. */
  readonly since?: number
}

export interface Readiness {
  readonly ready: boolean
  /** What is missing, in sentences; empty when ready. */
  readonly missing: readonly string[]
}

/** How long a release may take until its caller is told that Nomad does not answer. */
const CALL_MS = 10_000
/** How many askers may wait at one replica. */
const MAX_WAITERS = 20_000

export class Keeper {
  readonly paths: Paths
  readonly registry: Registry
  readonly replica: Replica
  readonly locks: LockView
  readonly requests: Requests
  readonly #ports: KeeperPorts
  readonly #settings: KeeperSettings
  readonly #leases: LeaseDeps
  readonly #cluster: ClusterView
  readonly #life = new AbortController()
  #running: Promise<unknown> = Promise.resolve()

  constructor(ports: KeeperPorts, settings: KeeperSettings) {
    const { variables, clock, newId, log, meter } = ports
    const { signal } = this.#life
    // As many listen to it as there are leases and semaphores; Node takes more than ten for a leak.
    setMaxListeners(0, signal)
    this.#ports = ports
    this.#settings = settings
    this.paths = pathsOf(settings.prefix)
    this.#leases = { variables, clock, newId, log, ttlMs: settings.leaseTtlMs }
    this.#cluster = createClusterView(ports.cluster, clock, signal)
    this.replica = createReplica(this.#leases, this.paths, settings.name)
    this.locks = createLockView(variables, this.paths, clock, log, signal)
    const { paths, replica, locks } = this
    const memory = new RequestMemory()
    const { actions } = ports
    this.registry = new Registry({
      ...this.#leases,
      paths,
      replica,
      locks,
      cluster: this.#cluster,
      actions,
      meter,
      memory,
      signal,
    })
    const resolving = { cluster: ports.cluster, view: this.#cluster }
    this.requests = new Requests({ ...resolving, variables, paths, registry: this.registry, memory, clock, newId, meter })
  }

  /** Starts the work. Resolves when the first list was seen, or when Nomad did not answer for a while; it goes on trying. */
  async start(): Promise<void> {
    const { signal } = this.#life
    this.#running = Promise.all([this.#placeSentinel(signal), this.replica.run(signal), this.registry.run(signal)])
    await this.registry.firstList
  }

  /** Ends the work: waiters are sent away, leases of ours are given back. Bounded by the caller. */
  async stop(): Promise<void> {
    this.#life.abort(new Problem('shutting_down', 'this replica is shutting down; ask another one'))
    await this.#running
    await this.registry.close()
  }

  /** Waits up to `waitMs` for a grant. Rejects with a Problem; waiting is an answer, not a failure. `allowed` rejects when the asker
   *  may not ask for this; nothing is done before. */
  async acquire(input: AskInput, waitMs: number, signal: AbortSignal, allowed: Allowed = ANYBODY): Promise<Answer> {
    if (this.registry.waiting >= MAX_WAITERS)
      throw new Problem('overloaded', `${MAX_WAITERS} askers wait here already; ask another replica`)
    const { ask, semaphore, satisfied } = await this.#resolve(input, signal, allowed)
    if (satisfied) return { kind: 'satisfied' }
    return await semaphore.room.wait(ask, waitMs, () => semaphore.wake(), signal)
  }

  get leaseTtlMs(): number {
    return this.#settings.leaseTtlMs
  }

  /** Extends the lease of a hold that is acting. The caller may act within one TTL from *before* it sent this. */
  async renew(id: string, lease: string, signal: AbortSignal): Promise<{ hold: Hold; scope: Scope }> {
    const { hold, scope } = await this.#held(id, lease, signal)
    const answer = await this.#ports.variables.renew(hold.lease.path, lease, signal)
    if (answer === 'lost') throw leaseLost(id)
    return { hold, scope }
  }

  /** The actor has ended its part. From here the health gate decides; a second release is told so. */
  async release(id: string, lease: string, outcome: Outcome, signal: AbortSignal): Promise<{ phase: 'observing' | 'over' }> {
    const { hold, semaphore } = await this.#held(id, lease, signal)
    const { path } = hold.lease
    const change: Change = (now, policy, at) => releaseChange(now, id, path, outcome, policy, at)
    const { state, changed } = await this.#ports.clock.within(CALL_MS, signal, (bounded) => semaphore.commit(change, bounded))
    void endLease(this.#leases, path, lease)
    // An answer that was lost on the way to Nomad and back: the release is in what was read instead.
    const done = changed || state.transitions.some(({ kind, token }) => kind === 'released' && token === hold.token)
    if (!done) throw leaseLost(id)
    this.#ports.meter.count('releases')
    return { phase: state.holds.some((held) => held.id === id) ? 'observing' : 'over' }
  }

  async hold(id: string, signal: AbortSignal): Promise<{ hold: Hold; semaphore: Semaphore }> {
    return await this.#find(id, signal)
  }

  /** All semaphores at or below a level, as stored; the one with something open here also as the replica that runs it sees it. */
  async semaphores(level: Level, signal: AbortSignal): Promise<{ stored: StoredSemaphore; live: Semaphore | null }[]> {
    const all = await readSemaphores(this.#ports.variables, this.paths, level, 0, signal)
    return all.map((stored) => ({ stored, live: this.registry.at(stored.path) }))
  }

  /** Ready: Nomad answers, the namespace exists (Nomad takes writes to one that does not), and we can list the operator locks. */
  async ready(signal: AbortSignal): Promise<Readiness> {
    const missing: string[] = []
    const { namespace } = this.#settings
    const { cluster, variables } = this.#ports
    const say = (error: unknown) => missing.push(textOf(error))
    await cluster
      .namespaceExists(namespace, signal)
      .then((exists) => exists || missing.push(`namespace ${namespace} does not exist`), say)
    const list = await variables.list(this.paths.locks, undefined, signal).catch((error: unknown) => void say(error))
    if (list !== undefined && !list.variables.some(({ path }) => path === this.paths.sentinel)) {
      missing.push(
        `a list of ${this.paths.locks} does not show ${this.paths.sentinel}: the token needs "list" and "read" there, see deploy/acl`,
      )
    }
    if (this.#life.signal.aborted) missing.push('this replica is shutting down')
    return { ready: missing.length === 0, missing }
  }

  async #resolve(
    input: AskInput,
    signal: AbortSignal,
    allowed: Allowed,
  ): Promise<{ ask: Ask; semaphore: Semaphore; satisfied: boolean }> {
    if (input.shared !== undefined) {
      const unit = input.unit ?? ''
      const scope = { shared: input.shared }
      await allowed(scope, unit)
      return { ask: askFor(input, scope, unit, unit, unit), semaphore: this.registry.ensure(scope), satisfied: false }
    }
    const { allocation, component, task, since } = input
    const { clock, cluster } = this.#ports
    const deps = { cluster, clock, view: this.#cluster }
    const meant = await resolveAllocation(deps, { allocation: allocation ?? '', component, task }, allowed, signal)
    const semaphore = this.registry.ensure(meant.scope)
    semaphore.seeLook(meant.look)
    const ask = askFor(input, meant.scope, meant.allocation.id, meant.place, meant.allocation.name)
    const wanted = { ...ask, action: 'restart' as const, since: since ?? null, baseline: {} }
    const satisfied = since !== undefined && isSatisfied(wanted, meant.allocation, meant.group)
    return { ask, semaphore, satisfied }
  }

  /** The hold, if it is acting and this is its lease. A refusal is only given on a state that was read after the call. */
  async #held(id: string, lease: string, signal: AbortSignal) {
    let found = await this.#find(id, signal)
    if (!isHeldBy(found.hold, lease)) {
      await this.registry.refresh(signal)
      found = await this.#find(id, signal)
    }
    const { hold } = found
    if (hold.lease.proof !== proofOf(lease))
      throw new Problem('not_holder', `this lease does not belong to hold ${id}; ask for a hold of your own`)
    if (hold.phase === 'observing' && (hold.outcome === 'lease_lost' || hold.outcome === 'overdue')) throw leaseLost(id)
    if (hold.phase === 'observing')
      throw new Problem('already_released', `hold ${id} was released; its health gate is watching the unit`)
    return { ...found, scope: found.semaphore.scope }
  }

  async #find(id: string, signal: AbortSignal): Promise<{ hold: Hold; semaphore: Semaphore }> {
    const known = this.registry.findHold(id)
    if (known !== null) return known
    await this.registry.refresh(signal)
    const found = this.registry.findHold(id)
    if (found === null) throw unknownHold(id)
    return found
  }

  /** The variable that proves that we can list operator locks at all. Whoever may write it puts it there once. */
  async #placeSentinel(signal: AbortSignal): Promise<void> {
    const { variables, log, clock } = this.#ports
    while (!signal.aborted && !this.locks.canList()) {
      try {
        await variables.put(
          this.paths.sentinel,
          { about: 'proves that lockkeeper can list its operator locks; it locks nothing' },
          0,
          signal,
        )
        return
      } catch (error) {
        if (!signal.aborted) log.warn({ error: String(error) }, `${this.paths.sentinel} is not there and cannot be written`)
      }
      await clock.sleep(5_000, signal).catch(() => undefined)
    }
  }
}

/** Written out: of ten thousand askers, a copy with `...` would give each object a hidden class of its own (measured). */
function askFor(input: AskInput, scope: Scope, unit: string, place: string, actor: string): Ask {
  const { key, reason, task, action = 'restart', priority = 0, deadline = null } = input
  return { scope, unit, place, key, tasks: task === undefined ? [] : [task], action, reason, actor, priority, deadline }
}

function isHeldBy(hold: Hold, lease: string): boolean {
  return hold.phase === 'acting' && hold.lease.proof === proofOf(lease)
}

function leaseLost(id: string): Problem {
  return new Problem(
    'lease_lost',
    `the lease of hold ${id} is lost: do not act any more, and ask again. The health gate watches the unit`,
  )
}
