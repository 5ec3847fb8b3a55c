// Who asks, and what that lets him touch.
import { isGroupScope, type Scope } from './scope.ts'

/** A task that Nomad vouches for by a signed identity. */
export interface Workload {
  readonly namespace: string
  readonly job: string
  readonly group: string
  readonly task: string
  readonly allocation: string
}

/** `anyone`: nobody is asked who they are. `operator`: whoever sends a Nomad token. Nothing is known of the token until Nomad has
 *  decided on something that is done with it. */
export type Caller =
  { readonly kind: 'anyone' } | ({ readonly kind: 'workload' } & Workload) | { readonly kind: 'operator'; readonly token: string }

/** Whether the caller may ask for this unit: a workload for its own allocation alone, in shared semaphores too. Until a policy says
 *  which namespaces may use a shared semaphore, that bounds what one workload can take of it: one slot an allocation.
 *  An operator's token is not judged here: Nomad does that. */
export function owns(caller: Caller, unit: string): boolean {
  return caller.kind !== 'workload' || caller.allocation === unit
}

/** Whether the caller may see this unit of a semaphore, and go on with it: a workload any unit of its own group, since a replacement
 *  may finish what its predecessor began, and its own in shared semaphores. Of an operator as in `owns`. */
export function mayTouch(caller: Caller, scope: Scope, unit: string): boolean {
  if (caller.kind !== 'workload') return true
  if (!isGroupScope(scope)) return 'shared' in scope && owns(caller, unit)
  const { namespace, job, group } = scope
  return caller.namespace === namespace && caller.job === job && caller.group === group
}

/** The group in the subject of an identity, `region:namespace:job:group:task:identity`: nothing else tells it (facts §7). Any of the
 *  names may hold a colon but the first and the last; the others are known, so what is left between them is the group. Null: it is
 *  not the subject of such a workload. */
export function groupInSubject(subject: string, { namespace, job, task }: Omit<Workload, 'group' | 'allocation'>): string | null {
  const rest = subject.slice(subject.indexOf(':'), subject.lastIndexOf(':'))
  const [before, after] = [`:${namespace}:${job}:`, `:${task}`]
  if (!rest.startsWith(before) || !rest.endsWith(after)) return null
  const group = rest.slice(before.length, rest.length - after.length)
  return group === '' ? null : group
}
