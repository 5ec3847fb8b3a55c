// Whether a caller may. A workload's identity tells it by itself; of an operator's token Nomad does.
import { mayTouch, owns, type Caller } from '../core/caller.ts'
import { Problem } from '../core/errors.ts'
import { describe, type Scope } from '../core/scope.ts'
import { asOperator } from './operator.ts'
import type { ApiPorts } from './ports.ts'

/** No variable has it, so a check-and-set on it cannot succeed. */
const NO_INDEX = Number.MAX_SAFE_INTEGER

/** Throws `forbidden` unless the caller may ask for this unit. */
export function demandOwn(caller: Caller, unit: string): void {
  if (!owns(caller, unit))
    throw new Problem('forbidden', 'a workload may ask for its own allocation alone; in a shared semaphore its ID is the unit')
}

/** Rejects with `forbidden` unless the caller may see this unit of a semaphore (`read`), or act in it (`write`). An operator's token is
 *  tried on the semaphore's variable, by a write that changes nothing: whoever may change that by hand may also ask. */
export async function permit(
  ports: Pick<ApiPorts, 'keeper' | 'operatorVariables'>,
  caller: Caller,
  right: 'read' | 'write',
  scope: Scope,
  unit: string,
  signal: AbortSignal,
): Promise<void> {
  if (!mayTouch(caller, scope, unit))
    throw new Problem('forbidden', `this identity is not of ${describe(scope)}: it may touch only what is its own`)
  if (caller.kind !== 'operator') return
  const path = ports.keeper.paths.semaphore(scope)
  await asOperator(ports, caller, async (variables) => {
    if (right === 'read') await variables.get(path, undefined, signal)
    else await variables.put(path, { about: 'proves that this token may write here' }, NO_INDEX, signal)
  })
}
