// What must hold when a grant is told, and when somebody begins to act under it (protocol G).
import type { Allocation } from '../../src/core/cluster.ts'
import { isGroupScope } from '../../src/core/scope.ts'
import { Violation, type HoldStory, type Ledger } from './ledger.ts'
import { STALE_JOB_MS } from './nomad-link.ts'
import type { Policies } from './policies.ts'
import type { Told } from './replica.ts'
import type { Step } from './semaphore-writes.ts'
import type { Truth } from './truth.ts'

/** A grant is told: it was not taken back, and no operator lock was there before its commit. */
export function checkTold(ledger: Ledger, told: Told): void {
  const { hold, scope, by } = told
  const story = ledger.holds.get(hold.id)
  const text = `hold ${hold.id} of ${hold.unit} is told by ${by}`
  const given = ledger.leaseGiven.get(`${hold.id} ${hold.lease.path}`)
  if (story === undefined || given === undefined) throw new Violation('told when committed', `${text}, and was never committed`)
  if (story.told.some(({ key }) => key !== told.key)) throw new Violation('one asker', `${text} to another process than before`)
  if (story.over?.how === 'taken_back') throw new Violation('told while it stands', `${text}, after it was taken back`)
  const lock = ledger.lockAt(given, scope)
  if (lock !== undefined)
    throw new Violation('operator locks', `${text}, committed at ${given} after the lock ${lock.path} at ${lock.index}`)
  story.told.push(told)
}

/** Places of the group that are truly down, and have been for longer than the servers' view lags. `trouble`: the last time at which
 *  the servers may not have heard of this node. */
export function downBefore(
  truth: Truth,
  step: Step,
  allocations: readonly Allocation[],
  lagMs: number,
  system: boolean,
  trouble: (node: string) => number,
): Map<string, { unit: string; since: number }> {
  const { scope } = step.after
  const down = new Map<string, { unit: string; since: number }>()
  if (!isGroupScope(scope)) return down
  for (const { id, name, group, desired, client, next, node, nodeName } of allocations) {
    // One that may come back, whose replacement runs: its place is not down. Of a system job its node does not count meanwhile.
    if (client === 'unknown' && (system || (next !== null && truth.of(next)?.downSince === null))) continue
    const since = truth.of(id)?.downSince
    if (group !== scope.group || desired !== 'run' || client === 'complete' || client === 'lost' || since == null) continue
    const known = Math.max(since, trouble(nodeName)) + 2 * lagMs + 500 + STALE_JOB_MS
    if (known < step.committed.by.sentAt) down.set(system ? `${name}@${node}` : name, { unit: id, since })
  }
  return down
}

/** The true budget at the hand-out of a grant to a unit that was up: what was down before the grant, and still is, and what is held. */
export function checkBudget(ledger: Ledger, policies: Policies, truth: Truth, told: Told, at: number): void {
  const story = ledger.holds.get(told.hold.id) as HoldStory
  const { hold, scope } = told
  if (!hold.wasUp || !isGroupScope(scope)) return
  const places = new Set([hold.place])
  for (const [place, { unit, since }] of story.downBefore) if (truth.of(unit)?.downSince === since) places.add(place)
  for (const other of story.heldBefore) if (other.over === null) places.add(other.hold.place)
  const allowed = policies
    .between(scope, story.grantedAt - 60_000, at)
    .map(({ maxParallel, maxUnavailable }) => (maxParallel === 0 ? Infinity : maxUnavailable))
  if (places.size > Math.max(...allowed))
    throw new Violation(
      'max_unavailable',
      `hold ${hold.id} is told while down: ${[...places].join(', ')}; ${Math.max(...allowed)} allowed`,
    )
}

/** Somebody begins to act: its own clock allows it, and the hold that it was told stands. */
export function checkAct(ledger: Ledger, id: string, shim: string, now: number, deadline: number | undefined): HoldStory {
  const story = ledger.holds.get(id)
  if (story === undefined) throw new Violation('told when committed', `${shim} acts under ${id}, which was never committed`)
  if (deadline === undefined) throw new Violation('renew, then act', `${shim} acts under ${id} without a renewal`)
  if (now >= deadline) throw new Violation('act in time', `${shim} acts under ${id} ${now - deadline} ms after its deadline`)
  if (story.over !== null && !ledger.forced.has(id))
    throw new Violation('act under a hold', `${shim} acts under ${id}, which ended as ${story.over.how}`)
  return story
}
