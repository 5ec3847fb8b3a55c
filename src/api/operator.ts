// What an operator does is a write to Nomad's variables under the operator's own token: Nomad's policies decide, and no users are kept.
import { Type } from 'typebox'
import { Problem } from '../core/errors.ts'
import { NomadFault } from '../core/nomad-fault.ts'
import { optional, said } from './schemas/words.ts'

export const OPERATOR_HEADERS = Type.Object({
  'x-nomad-token': optional(said('Nomad token of the operator; without it the service’s own rights decide')),
})

/** A refusal of the operator's own token is the operator's to mend; one of the service's own token is not. */
export async function asOperator<T>(token: string | null, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (token !== null && error instanceof NomadFault && error.kind === 'denied')
      throw new Problem('forbidden', `Nomad refuses this token: ${error.message}; see deploy/acl`, {}, error)
    throw error
  }
}
