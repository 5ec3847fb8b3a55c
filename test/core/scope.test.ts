import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  contains,
  describe as inWords,
  isGroupScope,
  levelFault,
  levelsAbove,
  nameOf,
  segmentsOf,
  type Level,
  type Scope,
} from '../../src/core/scope.ts'

const GROUP = { namespace: 'default', job: 'web', group: 'api' }
const COMPONENT = { ...GROUP, component: 'cache' }

describe('a scope', () => {
  it.each<[string, Scope, Level[]]>([
    ['a group', GROUP, [{}, { namespace: 'default' }, { namespace: 'default', job: 'web' }, GROUP]],
    ['a component', COMPONENT, [{}, { namespace: 'default' }, { namespace: 'default', job: 'web' }, GROUP, COMPONENT]],
    ['a shared semaphore', { shared: 'docker' }, [{}, { shared: '' }, { shared: 'docker' }]],
    ['a node group', { nodes: 'rack-1' }, [{}, { nodes: '' }, { nodes: 'rack-1' }]],
  ])('that is %s is shut by a lock on each level above it, the widest first', (_what, scope, levels) => {
    expect(levelsAbove(scope)).toEqual(levels)
    for (const level of levels) expect(contains(level, scope)).toBe(true)
  })

  it.each<[Level, Scope]>([
    [{ namespace: 'other' }, GROUP],
    [{ namespace: 'default', job: 'web2' }, GROUP],
    [{ namespace: 'default', job: 'web', group: 'db' }, GROUP],
    [COMPONENT, GROUP],
    [{ ...GROUP, component: 'other' }, COMPONENT],
    [{ shared: '' }, GROUP],
    [{ nodes: '' }, GROUP],
    [{ nodes: '' }, { shared: 'docker' }],
    [{ shared: 'docker' }, { nodes: 'docker' }],
    [{ shared: 'other' }, { shared: 'docker' }],
    [{ namespace: 'shared' }, { shared: 'docker' }],
    [{ namespace: 'default' }, { nodes: 'default' }],
    [{ namespace: 'default', job: 'web/api' }, GROUP],
  ])('is left alone by a lock elsewhere: %j does not shut %j', (level, scope) => {
    expect(contains(level, scope)).toBe(false)
  })

  it('is told apart from every other: names with slashes and quotes do not run together', () => {
    const scopes: Scope[] = [
      { namespace: 'a', job: 'b/c', group: 'd' },
      { namespace: 'a', job: 'b', group: 'c/d' },
      { namespace: 'a', job: 'b', group: 'c', component: 'd' },
      { namespace: 'a', job: 'b","c', group: 'd' },
      { namespace: 'a', job: 'b', group: 'c', component: '' },
      { namespace: 'a', job: 'b', group: 'c' },
      { shared: 'a' },
      { nodes: 'a' },
    ]
    expect(new Set(scopes.map(nameOf)).size).toBe(scopes.length)
  })

  it.each<[Level | Scope, string]>([
    [{}, 'everything'],
    [{ namespace: 'default' }, 'default'],
    [GROUP, 'default/web/api'],
    [COMPONENT, 'default/web/api/cache'],
    [{ shared: '' }, 'all shared semaphores'],
    [{ shared: 'docker' }, 'shared docker'],
    [{ nodes: '' }, 'all nodes'],
    [{ nodes: 'rack-1' }, 'nodes rack-1'],
  ])('%j is called %s', (level, words) => {
    expect(inWords(level)).toBe(words)
  })

  it('of a group is one, and no other is', () => {
    expect(isGroupScope(GROUP)).toBe(true)
    expect(isGroupScope({ shared: 'group' })).toBe(false)
    expect(isGroupScope({ nodes: 'group' })).toBe(false)
  })

  it('is shut by exactly those levels whose names are the first of its own', () => {
    const name = fc.constantFrom('a', 'b', 'a/b', '')
    const scope = fc.record(
      { namespace: name, job: name, group: name, component: name },
      { requiredKeys: ['namespace', 'job', 'group'] },
    )
    const level = fc
      .tuple(fc.array(name, { maxLength: 4 }))
      .map(([[namespace, job, group, component]]) => JSON.parse(JSON.stringify({ namespace, job, group, component })) as Level)
    fc.assert(
      fc.property(level, scope, (wide, narrow) => {
        const [first, all] = [segmentsOf(wide), segmentsOf(narrow as Scope)]
        expect(contains(wide, narrow as Scope)).toBe(first.every((segment, i) => all[i] === segment))
      }),
    )
  })
})

describe('a level', () => {
  it.each<[Level]>([
    [{}],
    [{ namespace: 'default' }],
    [{ namespace: 'default', job: 'web' }],
    [GROUP],
    [COMPONENT],
    [{ shared: '' }],
    [{ shared: 'docker' }],
    [{ nodes: '' }],
    [{ nodes: 'rack-1' }],
  ])('%j is one', (level) => {
    expect(levelFault(level)).toBeNull()
  })

  it.each<[Level, string]>([
    [{ job: 'web' }, 'job needs namespace'],
    [{ group: 'api' }, 'group needs job'],
    [{ namespace: 'default', group: 'api' }, 'group needs job'],
    [{ namespace: 'default', component: 'cache' }, 'component needs group'],
    [{ namespace: 'default', job: 'web', component: 'cache' }, 'component needs group'],
    [{ component: 'cache' }, 'component needs group'],
    [{ namespace: 'default', shared: 'docker' }, 'give one of'],
    [{ shared: 'docker', nodes: 'rack-1' }, 'give one of'],
    [{ job: 'web', nodes: '' }, 'give one of'],
  ])('%j is none: %s', (level, fault) => {
    expect(levelFault(level)).toContain(fault)
  })
})
