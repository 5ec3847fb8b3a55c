// What an operator does is done to Nomad's variables under the operator's own token: Nomad's policies decide, and no users are kept.
import type { Caller } from '../core/caller.ts'
import { Problem } from '../core/errors.ts'
import { NomadFault } from '../core/nomad-fault.ts'
import type { Variables } from '../keeper/ports.ts'
import type { ApiPorts } from './ports.ts'

/** Works with the variables as the operator's token opens them; where nobody is asked who they are, and no token was sent, under the
 *  service's own. A refusal of the operator's token is the operator's to mend; one of the service's own is not. */
export async function asOperator<T>(
  { operatorVariables }: Pick<ApiPorts, 'operatorVariables'>,
  caller: Caller,
  work: (variables: Variables) => Promise<T>,
): Promise<T> {
  const token = caller.kind === 'operator' ? caller.token : null
  try {
    return await work(operatorVariables(token))
  } catch (error) {
    if (token !== null && error instanceof NomadFault && error.kind === 'denied')
      throw new Problem('forbidden', `Nomad refuses this token: ${error.message}; see deploy/acl`, {}, error)
    throw error
  }
}
