// What a schema finds wrong with a request, as a sentence that names the field.
import type { FastifySchemaValidationError } from 'fastify/types/schema.js'
import { Problem } from '../core/errors.ts'
import { cut } from '../core/state.ts'
import { EXPECTED } from './schemas/words.ts'

/** Nothing is removed and nothing is made of another type in silence: what does not fit is refused. */
export const AJV_OPTIONS = { removeAdditional: false, coerceTypes: false, useDefaults: false, allErrors: false } as const

const MAX_NAME = 100

/** The first thing that is wrong. `where`: body, querystring, params or headers. */
export function invalid(errors: readonly FastifySchemaValidationError[], where: string): Problem {
  const [error] = errors
  const part = where === 'querystring' ? 'query' : where
  if (error === undefined) return new Problem('invalid_request', `the ${part} is not as it should be`)
  const { keyword, params, instancePath } = error
  if (keyword === 'additionalProperties') {
    const field = cut(String(params['additionalProperty']), MAX_NAME)
    const what = part === 'query' ? 'query parameter' : `field of the ${part}`
    return new Problem('invalid_request', `unknown ${what}: ${field}; see /openapi.json`, { field })
  }
  if (keyword === 'required') {
    const field = String(params['missingProperty'])
    return new Problem('invalid_request', `the ${part} lacks the field ${field}`, { field })
  }
  const field = instancePath.slice(1)
  if (field === '') return new Problem('invalid_request', `the ${part} must be a JSON object`)
  const given = part === 'query' && keyword === 'type' ? 'is given more than once' : `must be ${expected(error)}`
  return new Problem('invalid_request', `${field} ${given}`, { field })
}

function expected({ keyword, params, message }: FastifySchemaValidationError): string {
  if (keyword === 'enum') return `one of ${(params['allowedValues'] as unknown as string[]).join(', ')}`
  if (keyword === 'pattern') return EXPECTED[String(params['pattern'])] ?? 'something else'
  if (keyword === 'format') return 'a time such as 2026-01-31T12:00:00Z'
  if (keyword === 'minimum' || keyword === 'maximum')
    return `${keyword === 'minimum' ? 'at least' : 'at most'} ${Number(params['limit'])}`
  if (keyword === 'type') return `of type ${String(params['type'])}`
  return message ?? 'something else'
}
