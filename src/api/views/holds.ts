// Holds as others may see them: nothing of the lease, neither its secret nor its proof nor its path.
import type { Static } from 'typebox'
import { isGroupScope, type Scope } from '../../core/scope.ts'
import type { Hold } from '../../core/state.ts'
import type { Waiting } from '../../keeper/ask.ts'
import { formatTime } from '../../keeper/clock.ts'
import type { Semaphore } from '../../keeper/semaphore.ts'
import { Problem } from '../../core/errors.ts'
import type { HoldView } from '../schemas/holds.ts'
import type { Holder } from '../schemas/problem.ts'

/** `live`: the semaphore as this replica runs it, which knows the policy and perhaps the node. */
export function holdView(hold: Hold, scope: Scope, live: Semaphore | null): Static<typeof HoldView> {
  const { id, unit, place, tasks, action, reason, actor, token, slot, phase, outcome, grantedAt, phaseSince, wasUp } = hold
  const node = live?.look?.allocations.find((allocation) => allocation.id === unit)?.nodeName
  const deadline = live === null ? null : deadlineOf(hold, live)
  return {
    hold: id,
    scope: scopeView(scope),
    unit,
    place,
    ...(node === undefined ? {} : { node }),
    tasks: [...tasks],
    action,
    reason,
    actor,
    token,
    slot,
    phase,
    outcome,
    since: timeText(grantedAt),
    phase_since: timeText(phaseSince),
    ...(deadline === null ? {} : { deadline: timeText(deadline) }),
    was_up: wasUp,
  }
}

/** Why a request waits, as a problem that is none: it keeps its place (case C8.1). */
export function waitingProblem({ wait, position, waiting, holds }: Waiting): Problem {
  return new Problem(wait.kind, wait.detail, { position, waiting, holders: holds.map(holderView) })
}

export function scopeView(scope: Scope) {
  if (!isGroupScope(scope)) return 'shared' in scope ? { shared: scope.shared } : { nodes: scope.nodes }
  const { namespace, job, group, component } = scope
  return { namespace, job, group, ...(component === undefined ? {} : { component }) }
}

/** Somebody may have written the number by hand; RFC 3339 knows the years 0 to 9999. */
export function timeText(ms: number): string {
  return formatTime(Math.max(YEAR_0, Math.min(YEAR_9999, ms)))
}
const YEAR_0 = -62_167_219_200_000
const YEAR_9999 = 253_402_300_799_999

function holderView({ id, unit, place, token, slot, phase, grantedAt, reason }: Hold): Static<typeof Holder> {
  return { hold: id, unit, place, token, slot, phase, since: timeText(grantedAt), reason }
}

/** When the actor is overdue, or the unit has failed; null: never. */
function deadlineOf({ phase, phaseSince }: Hold, { policy: { policy } }: Semaphore): number | null {
  if (policy.healthCheck === 'none') return null
  return phaseSince + (phase === 'acting' ? policy.actingDeadline : policy.healthyDeadline)
}
