import { describe, expect, it } from 'vitest'
import { ERRORS, kindOf, Problem, WAIT_KINDS, type ErrorKind, type ErrorRow } from '../../src/core/errors.ts'
import { NomadFault } from '../../src/core/nomad-fault.ts'

const rows = Object.entries(ERRORS) as [ErrorKind, ErrorRow][]

describe('the error table', () => {
  it.each([
    ['locked', 423],
    ['halted', 429],
    ['window', 429],
    ['deployment', 429],
    ['too_soon', 429],
    ['full', 429],
    ['lease_lost', 409],
    ['not_holder', 409],
    ['unknown_hold', 404],
    ['unknown_allocation', 404],
    ['invalid_request', 400],
    ['unauthorized', 401],
    ['forbidden', 403],
    ['nomad_unavailable', 503],
    ['nomad_denied', 503],
    ['state_unreadable', 409],
  ] as const)('tells of %s with the status %d', (kind, status) => {
    expect(ERRORS[kind].status).toBe(status)
  })

  it('has the reasons for waiting in the order in which they are asked', () => {
    expect(WAIT_KINDS).toEqual(['locked', 'halted', 'window', 'deployment', 'too_soon', 'full'])
  })

  it('C8.1 never says that waiting is a failure of the service', () => {
    for (const kind of WAIT_KINDS) expect(ERRORS[kind]).toMatchObject({ retry: true, status: expect.toSatisfy(below500) })
  })

  it.each(rows)('%s has a title, an exit code other than 0 and a status that is an error', (_kind, { title, exit, status }) => {
    expect(title).toMatch(/^[A-Z].*[^.]$/)
    expect(exit).toBeGreaterThan(0)
    expect(status).toBeGreaterThanOrEqual(400)
    expect(status).toBeLessThan(600)
  })

  it('says of everything that is the fault of Nomad, or of a replica going away, that it may be tried again', () => {
    for (const [, { status, retry }] of rows.filter(([, { status }]) => status === 503))
      expect({ status, retry }).toEqual({ status, retry: true })
  })

  it('says of no mistake of the caller that it may be tried again as it is', () => {
    const mistakes = rows.filter(([, { status }]) => [400, 401, 403, 404, 405, 413].includes(status))
    expect(mistakes.filter(([, { retry }]) => retry)).toEqual([])
  })
})

describe('a problem', () => {
  it('keeps its kind, what more there is to tell, and its cause', () => {
    const cause = new Error('ECONNREFUSED')
    const problem = new Problem('nomad_unavailable', 'no answer from http://nomad', { tried: 3 }, cause)
    expect(problem).toMatchObject({
      kind: 'nomad_unavailable',
      message: 'no answer from http://nomad',
      more: { tried: 3 },
      cause,
    })
    expect(kindOf(problem)).toBe('nomad_unavailable')
  })

  it('that is not ours is internal', () => {
    expect(kindOf(new TypeError('x is not a function'))).toBe('internal')
    expect(kindOf('thrown text')).toBe('internal')
    expect(kindOf(undefined)).toBe('internal')
  })

  it.each([
    ['unavailable', true],
    ['denied', false],
    ['rejected', false],
  ] as const)('of Nomad that is %s leaves open whether the write happened: %s', (kind, maybeDone) => {
    expect(new NomadFault(kind, 'variable.put').maybeDone).toBe(maybeDone)
    expect(new NomadFault(kind, 'variable.put', false).maybeDone).toBe(false)
  })
})

function below500(status: unknown): boolean {
  return typeof status === 'number' && status < 500
}
