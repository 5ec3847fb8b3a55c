import { ERRORS, Problem, textOf } from '../core/errors.ts'
import { NomadFault } from '../core/nomad-fault.ts'
import { plain, writeJson, type Io } from './io.ts'

/** Tells the user what went wrong, in one line or as a problem document, on stderr; comes back with the exit code. Only a
 *  fault of ours shows where it happened. */
export function fail(name: string, error: unknown, json: boolean, { stderr }: Pick<Io, 'stderr'>): number {
  const problem = problemOf(error)
  const { kind, message, more } = problem
  const { status, title, exit } = ERRORS[kind]
  if (json) writeJson(stderr, { ...more, type: `urn:lockkeeper:problem:${kind}`, title, status, detail: message, kind })
  else stderr.write(`${name}: ${plain(message)}\n`)
  if (!json && kind === 'internal' && error instanceof Error) stderr.write(`${error.stack}\n`)
  return exit
}

function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error
  if (error instanceof NomadFault) return ofNomad(error)
  // An address that is taken or not ours, a file that is not there: the message says it.
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (typeof code === 'string' && /^E[A-Z]+$/.test(code))
    return new Problem('invalid_request', (error as Error).message, {}, error)
  return new Problem('internal', `a fault of ours: ${textOf(error)}`, {}, error)
}

function ofNomad({ kind, message, maybeDone }: NomadFault): Problem {
  if (kind === 'denied') return new Problem('forbidden', `${message}; the token of NOMAD_TOKEN has no right to this`)
  if (kind === 'rejected' || kind === 'too_large') return new Problem('invalid_request', message)
  return new Problem(
    'nomad_unavailable',
    maybeDone ? `${message}; it may have been done all the same: look, then repeat` : message,
  )
}
