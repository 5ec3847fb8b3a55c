// Between a commit that lets somebody act and the act: the operator locks and the budget are looked at again (protocol G6, G7).
import { overBudget } from '../core/admission.ts'
import { isGroupScope, type Scope } from '../core/scope.ts'
import { groupOf, type ClusterView, type JobLook } from './cluster-view.ts'
import type { LockView } from './lock-view.ts'
import type { Clock } from './ports.ts'
import type { Stored } from './records.ts'

export interface ConfirmDeps {
  readonly clock: Clock
  readonly locks: LockView
  readonly cluster: ClusterView
  /** Of the keeper's life. */
  readonly signal: AbortSignal
}

/** What cannot be confirmed within this is not acted on. */
const CONFIRM_MS = 5_000

/** Why nobody may act for a hold that was committed at `index` or before; null: it may be acted on. Never throws. `state`: what is
 *  known by then, at least what was committed. */
export async function whyNot(
  { clock, locks, cluster, signal }: ConfirmDeps,
  scope: Scope,
  holdId: string,
  index: number,
  state: () => Stored['state'],
  seeLook: (look: JobLook) => void,
): Promise<string | null> {
  const confirmed = clock.within(CONFIRM_MS, signal, async (bounded) => {
    const committedAt = clock.now()
    const locked = await locks.shutsAt(index, scope, bounded)
    if (locked !== null || !isGroupScope(scope)) return locked
    const look = await cluster.look(scope, committedAt)
    seeLook(look)
    const group = groupOf(look, scope)
    const known = state()
    if ('unreadable' in known) return known.unreadable
    return group === null ? 'the group cannot be seen any more' : overBudget(known, holdId, group.view, group.resolved.policy)
  })
  return await confirmed.catch((error: unknown) => `it could not be confirmed: ${String(error)}`)
}
