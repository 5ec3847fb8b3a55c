import type { NewHold } from '../core/semaphore.ts'
import type { Baseline } from '../core/state.ts'
import type { JobLook } from './cluster-view.ts'
import type { Waiter } from './waiting-room.ts'

/** The hold that a grant adds: what its waiter asks for, under the lease that was made for it, with where the unit stands in the
 *  look that the grant was decided on. `request`: the ModifyIndex of its stored request. */
export function newHold(
  { ask, holdId, lease }: Waiter,
  request: number | null,
  grant: Pick<NewHold, 'slot' | 'wasUp'>,
  look: JobLook | null,
): NewHold {
  const { unit, key, place, task, action, reason, actor } = ask
  const { path, index, proof } = lease as NonNullable<Waiter['lease']>
  const { slot, wasUp } = grant
  const baseline = baselineOf(unit, look)
  return {
    id: holdId,
    key,
    slot,
    unit,
    place,
    task,
    action,
    reason,
    actor,
    lease: { path, index, proof },
    request,
    wasUp,
    baseline,
  }
}

function baselineOf(unit: string, look: JobLook | null): Baseline {
  const tasks = look?.allocations.find(({ id }) => id === unit)?.tasks ?? {}
  return Object.fromEntries(Object.entries(tasks).map(([name, { restarts, startedAt }]) => [name, { restarts, startedAt }]))
}
