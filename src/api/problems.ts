// From anything thrown to a problem document. What is not ours to tell is an `internal` one, with the number of its request only.
import type { FastifyError, FastifyReply } from 'fastify'
import { ERRORS, Problem, type ErrorKind } from '../core/errors.ts'
import { NomadFault } from '../core/nomad-fault.ts'
import { mayRetryAtOnce, PROBLEM_TYPE, typeOf } from './schemas/problem.ts'

export const MAX_BODY_BYTES = 64 * 1024
const RETRY_AFTER_S = '1'

/** What fastify finds wrong before a handler is called, in the words of our table. */
const FASTIFY: Readonly<Record<string, readonly [ErrorKind, string]>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['body_too_large', `a body may be ${MAX_BODY_BYTES / 1024} KiB`],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['invalid_request', 'send the body as JSON, with the header Content-Type: application/json'],
  FST_ERR_CTP_EMPTY_JSON_BODY: ['invalid_request', 'the header Content-Type says JSON, but there is no body'],
  FST_ERR_CTP_INVALID_JSON_BODY: ['invalid_request', 'the body is not JSON'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['invalid_request', 'the body is not as long as Content-Length says'],
  FST_ERR_BAD_URL: ['invalid_request', 'the URL is not encoded as URLs are'],
  FST_ERR_MAX_PARAM_LENGTH: ['invalid_request', 'a part of the path is too long'],
}

/** The problem to tell, and whether it is a fault of ours that belongs in the log. */
export function problemOf(error: unknown, requestId: string): { readonly problem: Problem; readonly ours: boolean } {
  const told = (problem: Problem) => ({ problem, ours: problem.kind === 'internal' })
  if (error instanceof Problem && error.kind !== 'internal') return told(error)
  if (error instanceof NomadFault && (error.kind === 'denied' || error.kind === 'unavailable'))
    return told(new Problem(error.kind === 'denied' ? 'nomad_denied' : 'nomad_unavailable', error.message, {}, error))
  if (error instanceof DOMException && error.name === 'TimeoutError')
    return told(new Problem('nomad_unavailable', `Nomad does not answer: ${error.message}`, {}, error))
  const { code, statusCode, name } = (error ?? {}) as Partial<FastifyError>
  const known = FASTIFY[code ?? '']
  if (known !== undefined) return told(new Problem(...known))
  // The JSON parser's own errors, and those of a body that broke off.
  if (name === 'SyntaxError' && statusCode === 400)
    return told(new Problem('invalid_request', 'the body is not JSON that is safe'))
  if (code === 'ECONNRESET' && statusCode === 400) return told(new Problem('invalid_request', 'the body broke off'))
  const text = `it is in the log of this replica as request ${requestId}; please report it`
  return told(new Problem('internal', text, { request: requestId }, error))
}

/** The document (RFC 9457). */
export function documentOf({ kind, message, more }: Problem): Readonly<Record<string, unknown>> {
  const { title, status } = ERRORS[kind]
  return { type: typeOf(kind), title, status, detail: message, kind, ...more }
}

export function sendProblem(reply: FastifyReply, problem: Problem): FastifyReply {
  if (mayRetryAtOnce(problem.kind)) void reply.header('retry-after', RETRY_AFTER_S)
  if (problem.kind === 'unauthorized') void reply.header('www-authenticate', 'Bearer')
  // Bytes: they are sent as they are, so that no schema drops a field, and no charset is added to a type that has none.
  const bytes = Buffer.from(JSON.stringify(documentOf(problem)))
  return reply.code(ERRORS[problem.kind].status).type(PROBLEM_TYPE).send(bytes)
}
