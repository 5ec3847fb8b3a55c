import type { NewHold } from '../core/semaphore.ts'
import type { Baseline } from '../core/state.ts'
import type { JobLook } from './cluster-view.ts'
import type { Lease } from './lease.ts'
import type { ManagedEntry } from './queue.ts'
import type { Replica } from './replica.ts'
import type { Waiter } from './waiting-room.ts'

/** What a grant adds to who asked: where the unit stands in the look that it was decided on. */
export function newHold(asked: Asked, grant: Pick<NewHold, 'slot' | 'wasUp'>, look: JobLook | null): NewHold {
  const { slot, wasUp } = grant
  return { ...asked, slot, wasUp, baseline: baselineOf(asked.unit, look) }
}

type Asked = Omit<NewHold, 'slot' | 'wasUp' | 'baseline'>

/** What a waiter asks for, under the lease that was made for it. `request`: the ModifyIndex of its stored request. */
export function askedBy({ ask, holdId, lease }: Waiter, request: number | null): Asked {
  const { unit, key, place, tasks, action, reason, actor } = ask
  return { id: holdId, key, unit, place, tasks, managed: false, action, reason, actor, lease: leaseIn(lease as Lease), request }
}

/** What a stored request asks of us, under the lease of this replica. */
export function askedOfUs({ record, modifyIndex }: ManagedEntry, { lease, name }: Replica, id: string): Asked {
  const { unit, key, place, tasks, action, reason } = record
  const acting = { managed: true, actor: name, lease: leaseIn(lease as Lease), request: modifyIndex }
  return { id, key, unit, place, tasks, action, reason, ...acting }
}

function leaseIn({ path, index, proof }: Lease): NewHold['lease'] {
  return { path, index, proof }
}

function baselineOf(unit: string, look: JobLook | null): Baseline {
  const tasks = look?.allocations.find(({ id }) => id === unit)?.tasks ?? {}
  return Object.fromEntries(Object.entries(tasks).map(([name, { restarts, startedAt }]) => [name, { restarts, startedAt }]))
}
