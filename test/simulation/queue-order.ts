// First come, first served, among those who are equal (design §4.3).
import type { Allocation } from '../../src/core/cluster.ts'
import type { Hold } from '../../src/core/state.ts'
import { Violation, type Ledger, type StoredRequest } from './ledger.ts'
import { STALE_JOB_MS } from './nomad-link.ts'
import type { Policies } from './policies.ts'
import type { Step } from './semaphore-writes.ts'

/** A grant is decided on a look that is at most so old. */
const LOOK_MS = 1_500 + STALE_JOB_MS
/** So long after it was stored every replica knows of a request, or does not grant behind it. */
const KNOWN_MS = 2_000

/** Nobody was granted so that somebody equal, who had stored a request before it, finds no room any more. `allocations`: those of
 *  the job, as the servers know them. */
export function checkOrder(ledger: Ledger, policies: Policies, step: Step, allocations: readonly Allocation[]): void {
  const { before, after, granted, committed, path } = step
  const { scope } = after.state
  const folder = `${path.replace('/semaphores/', '/requests/')}/`
  const stored = [...ledger.requests.values()].filter((request) => isOf(request, folder))
  // Who was told waits no more, though its last write of its place may have landed after that.
  const told = new Set([...ledger.holds.values()].flatMap((story) => story.told.map(({ key }) => `${story.hold.unit} ${key}`)))
  const waiting = stored
    .filter(({ path: name, modifyIndex }) => ledger.givenUp.get(name) !== modifyIndex)
    .filter(({ record }) => !told.has(`${record.unit} ${record.key}`))
  const holds = [...(before?.state.holds ?? []), ...after.state.holds]
  for (const hold of granted) {
    // Who is down goes first, who has failed passes, and a place that is used already costs nothing more.
    // Also one that an earlier request has taken in advance, of the allocation that it replaced, say; it does as long as it is
    // stored, although its removal may be on the way, or lost, or not known yet.
    const gone = [...ledger.removedRequests.values()].filter(({ at }) => at > committed.by.sentAt - KNOWN_MS)
    const known = [...stored, ...gone.map(({ request }) => request).filter((request) => isOf(request, folder))]
    const earlier = known.filter(({ createIndex, record }) => createIndex < (hold.request ?? 0) && record.unit !== hold.unit)
    const used = [...(before?.state.failures ?? []), ...(before?.state.holds ?? []), ...earlier.map(({ record }) => record)]
    if (!hold.wasUp || used.some(({ place }) => place === hold.place)) continue
    // Nomad has named a replacement already, which is down there.
    if (allocations.some(({ id, name, desired }) => name === hold.place && id !== hold.unit && desired === 'run')) continue
    const own = waiting.find(({ record }) => record.unit === hold.unit)
    // One that was granted without a place in the queue is not compared: its asker may have come first.
    if (own === undefined || own.record.key !== hold.key || hold.request === null) continue
    // A replica that was frozen knows it at the place that its asker gave up, and has come back to, meanwhile.
    if (hold.request < own.createIndex) continue
    const passed = waiting
      .filter((other) => isBefore(other, own) && couldGo(other, hold, holds))
      .filter(({ placedAt }) => placedAt < committed.by.sentAt - KNOWN_MS)
    const room = Math.max(
      ...policies
        .between(scope, committed.by.sentAt - LOOK_MS, committed.at)
        .map(({ maxParallel, maxUnavailable }) => (maxParallel === 0 ? Infinity : Math.min(maxParallel, maxUnavailable))),
    )
    // Of all that is asked of one unit one can go at a time.
    const units = new Set(passed.map(({ record }) => record.unit))
    if (units.size === 0 || after.state.holds.length + units.size <= room) continue
    const names = passed.map(({ record, createIndex }) => `${record.unit} (${createIndex})`).join(', ')
    throw new Violation('first come, first served', `${path}: ${hold.unit} (${own.createIndex}) before ${names}`)
  }
}

/** A component's requests lie one folder deeper. */
function isOf({ path }: StoredRequest, folder: string): boolean {
  return path.startsWith(folder) && !path.includes('/', folder.length)
}

function isBefore(a: StoredRequest, b: StoredRequest): boolean {
  const equal = a.record.priority === b.record.priority && a.record.deadline === b.record.deadline
  // Nobody is granted on a list that is older than its own request; one that got its place by a later merge may not be known.
  return equal && a.createIndex < b.createIndex && a.placedIndex < b.createIndex
}

function couldGo({ record }: StoredRequest, granted: Hold, holds: readonly Hold[]): boolean {
  return holds.every(({ unit, place }) => unit !== record.unit && place !== record.place) && record.place !== granted.place
}
