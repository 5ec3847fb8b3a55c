import { describe, expect, it } from 'vitest'
import { groupInSubject, mayTouch, owns, type Caller } from '../../src/core/caller.ts'

const workload: Caller = {
  kind: 'workload',
  namespace: 'default',
  job: 'web',
  group: 'api',
  task: 'app',
  allocation: 'alloc-1',
}
const group = { namespace: 'default', job: 'web', group: 'api' }

describe('a workload', () => {
  it('asks for its own allocation and for nothing else', () => {
    expect(owns(workload, 'alloc-1')).toBe(true)
    for (const unit of ['alloc-2', 'alloc-1/2', 'alloc', '']) expect(owns(workload, unit), unit).toBe(false)
  })

  it.each([
    [group, 'alloc-1', true],
    [{ ...group, component: 'cache' }, 'alloc-1', true],
    // What its predecessor began, its replacement may end.
    [group, 'alloc-0', true],
    [{ ...group, namespace: 'other' }, 'alloc-1', false],
    [{ ...group, job: 'web2' }, 'alloc-1', false],
    [{ ...group, group: 'db' }, 'alloc-1', false],
    [{ shared: 'docker' }, 'alloc-1', true],
    [{ shared: 'docker' }, 'alloc-0', false],
    [{ nodes: 'blue' }, 'alloc-1', false],
  ] as const)('in %j may touch %s: %s', (scope, unit, may) => {
    expect(mayTouch(workload, scope, unit)).toBe(may)
  })
})

it.each([{ kind: 'anyone' }, { kind: 'operator', token: 't' }] as const)('nothing is judged here of $kind', (caller) => {
  expect([owns(caller, 'x'), mayTouch(caller, group, 'x'), mayTouch(caller, { nodes: 'blue' }, 'x')]).toEqual([true, true, true])
})

describe('the group in a subject', () => {
  it.each([
    ['global:default:web:api:app:lockkeeper', 'web', 'app', 'api'],
    ['global:default:a:b/c:d:api:app:lockkeeper', 'a:b/c:d', 'app', 'api'],
    // A job whose ID ends as if it had a group in it, and a group with a colon: only the other claims tell them apart.
    ['global:default:web:api:api:app:lockkeeper', 'web:api', 'app', 'api'],
    ['global:default:web:api:api:app:lockkeeper', 'web', 'app', 'api:api'],
    ['global:default:web:api:a:b:lockkeeper', 'web', 'a:b', 'api'],
    ['global:default:x:x:x:x', 'x', 'x', 'x'],
  ])('%s of job %s and task %s is %s', (subject, job, task, expected) => {
    expect(groupInSubject(subject, { namespace: 'default', job, task })).toBe(expected)
  })

  it.each([
    '',
    'web',
    ':::::',
    'global:default:web:api:app',
    'global:default:web::app:lockkeeper',
    'global:default:web:app:lockkeeper',
    'global:other:web:api:app:lockkeeper',
    'global:default:web2:api:app:lockkeeper',
    'global:default:web:api:app2:lockkeeper',
    'global:x:default:web:api:app:lockkeeper',
  ])('%j is none of this workload', (subject) => {
    expect(groupInSubject(subject, { namespace: 'default', job: 'web', task: 'app' })).toBeNull()
  })
})
