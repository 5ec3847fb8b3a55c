import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { levelsAbove, nameOf, type GroupScope, type Level, type Scope } from '../../src/core/scope.ts'
import { paths, prefixFault, withoutTrailingSlash } from '../../src/keeper/paths.ts'

/** What Nomad takes (facts §1), and no empty segment: `a//b` is a redirect there. */
const LEGAL = /^[A-Za-z0-9\-_~]+(\/[A-Za-z0-9\-_~]+)*$/
const UUID = '0b7c1f6e-7d39-4a53-9a3c-1f0f6f0b7c1f'
const LONGEST_PREFIX = 'p'.repeat(32)
const own = paths('lockkeeper')

const expectLegal = (path: string) => {
  expect(path).toMatch(LEGAL)
  expect(path.length).toBeLessThanOrEqual(128)
}

/** Every path that is made of names, each with what it is about. */
function stored(scopes: readonly Scope[], units: readonly string[], prefix = 'lockkeeper'): Map<string, string> {
  const all = paths(prefix)
  const found = new Map<string, string>()
  const put = (path: string, about: string) => {
    const other = found.get(path)
    if (other !== undefined && other !== about) throw new Error(`${path} is shared by ${other} and ${about}`)
    found.set(path, about)
  }
  for (const scope of scopes) {
    put(all.semaphore(scope), `semaphore ${nameOf(scope)}`)
    for (const unit of units) put(all.request(scope, unit), `request ${nameOf(scope)} ${JSON.stringify(unit)}`)
    for (const level of levelsAbove(scope)) put(all.lock(level), `lock ${nameOf(level)}`)
  }
  put(all.sentinel, 'sentinel')
  put(all.lease(UUID), 'lease')
  put(all.replicaLease('replica-1', 0), 'replica lease')
  return found
}

const NASTY = [
  'a',
  'a.b',
  'a~b',
  'a:b',
  'a@b',
  'a b',
  'a/b',
  'a~2eb',
  'a~2fb',
  'a%2Fb',
  'A',
  'ä',
  'a\u0308',
  'web→api',
  '🔥',
  '日本語',
  '~',
  '~~',
  '~shared',
  '~nodes',
  '~sentinel',
  'shared',
  'nodes',
  'replicas',
  '.',
  '..',
  '/',
  '//',
  ' ',
  '\u0000',
  '\u0001' + '0',
  '\u0010',
  'app/dispatch-1699-ab',
  'app/periodic-1699',
  'x'.repeat(36),
  'x'.repeat(37),
  'x'.repeat(200),
  `${'x'.repeat(199)}y`,
  '日'.repeat(200),
  UUID,
]

const group = (job: string, name = 'api', more: Partial<GroupScope> = {}): GroupScope => ({
  namespace: 'default',
  job,
  group: name,
  ...more,
})

describe('a path', () => {
  it.each<[string, string]>([
    ['lockkeeper/semaphores/default/web/api', own.semaphore(group('web'))],
    ['lockkeeper/semaphores/default/web/api/cache', own.semaphore(group('web', 'api', { component: 'cache' }))],
    ['lockkeeper/semaphores/~shared/docker', own.semaphore({ shared: 'docker' })],
    ['lockkeeper/semaphores/~nodes/rack-1', own.semaphore({ nodes: 'rack-1' })],
    ['lockkeeper/requests/default/web/api/', own.requestsOf(group('web'))],
    [`lockkeeper/requests/default/web/api/${UUID}`, own.request(group('web'), UUID)],
    [`lockkeeper/leases/${UUID}`, own.lease(UUID)],
    ['lockkeeper/leases/replicas/replica-1/3', own.replicaLease('replica-1', 3)],
    ['lockkeeper/locks', own.lock({})],
    ['lockkeeper/locks/~sentinel', own.sentinel],
    ['lockkeeper/locks/default', own.lock({ namespace: 'default' })],
    ['lockkeeper/locks/default/web', own.lock({ namespace: 'default', job: 'web' })],
    ['lockkeeper/locks/default/web/api', own.lock(group('web'))],
    ['lockkeeper/locks/~shared', own.lock({ shared: '' })],
    ['lockkeeper/locks/~shared/docker', own.lock({ shared: 'docker' })],
    ['lockkeeper/locks/~nodes', own.lock({ nodes: '' })],
    ['lockkeeper/semaphores/default/app~2fdispatch-1699-ab/api', own.semaphore(group('app/dispatch-1699-ab'))],
    ['lockkeeper/semaphores/default/a~2eb/api', own.semaphore(group('a.b'))],
    ['lockkeeper/semaphores/default/a~7eb/api', own.semaphore(group('a~b'))],
    ['lockkeeper/semaphores/default/~c3~a4/api', own.semaphore(group('ä'))],
    ['lockkeeper/semaphores/default/web/api/~', own.semaphore(group('web', 'api', { component: '' }))],
  ])('can be read by people: %s', (expected, path) => {
    expect(path).toBe(expected)
  })

  it.each(NASTY)(
    'C6.1 is one that Nomad takes, for %j as job, group, component, shared name, node group, level and unit',
    (name) => {
      for (const prefix of ['lockkeeper', 'x', 'ops/lockkeeper', LONGEST_PREFIX]) {
        expect(prefixFault(prefix)).toBeNull()
        const scopes: Scope[] = [
          group(name),
          group('web', name),
          group('web', 'api', { component: name }),
          group(name, name, { component: name }),
          { ...group(name, name, { component: name }), namespace: 'n'.repeat(128) },
          { shared: name },
          { nodes: name },
        ]
        for (const path of stored(scopes, [name, UUID], prefix).keys()) expectLegal(path)
      }
    },
  )

  it('C6.1 is shared by no two scopes, levels or units: every nasty name in every place', () => {
    const scopes = NASTY.flatMap((name): Scope[] => [
      group(name),
      group('web', name),
      group(name, 'a'),
      group('a', name),
      group('a', 'b', { component: name }),
      group('a', name, { component: 'b' }),
      group(name, 'a', { component: 'b' }),
      group(name, name, { component: name }),
      { shared: name },
      { nodes: name },
    ])
    const different = new Set(scopes.map(nameOf)).size
    const found = stored(scopes, NASTY)
    const semaphores = [...found.keys()].filter((path) => path.startsWith('lockkeeper/semaphores/'))
    expect(semaphores).toHaveLength(different)
    expect([...found.values()].filter((about) => about.startsWith('request'))).toHaveLength(different * NASTY.length)
  })

  it('C6.1 is different for a.b and a~b, and for a/b as one name and as two levels', () => {
    const scopes: Scope[] = [
      group('a.b'),
      group('a~b'),
      group('a~2eb'),
      group('a/b', 'c'),
      group('a', 'b/c'),
      group('a', 'b', { component: 'c' }),
      group('a~2fb', 'c'),
    ]
    expect(new Set(scopes.map((scope) => own.semaphore(scope))).size).toBe(scopes.length)
    expect(own.lock({ namespace: 'default', job: 'a/b' })).not.toBe(own.lock({ namespace: 'default', job: 'a', group: 'b' }))
  })

  it('C6.1 keeps a namespace that is called shared or nodes apart from shared semaphores and node groups', () => {
    for (const namespace of ['shared', 'nodes']) {
      const team = { namespace, job: 'docker', group: 'api' }
      const all = stored([team, { shared: 'docker' }, { nodes: 'docker' }, { shared: 'api' }], ['docker'])
      expect(all.get(own.lock({ namespace }))).toBe(`lock ${nameOf({ namespace })}`)
      expect(own.semaphore(team)).toBe(`lockkeeper/semaphores/${namespace}/docker/api`)
    }
  })

  it('C6.1 tells long names apart that differ only in their last letter', () => {
    const [one, two] = ['y', 'z'].map((last) => own.semaphore(group('x'.repeat(199) + last)))
    expect(one).not.toBe(two)
    expectLegal(one as string)
    expect(own.request(group('web'), `${'u'.repeat(199)}y`)).not.toBe(own.request(group('web'), `${'u'.repeat(199)}z`))
  })

  it('C6.1 tells long names apart also where a slash stands in another one of them', () => {
    const long = 'x'.repeat(200)
    expect(own.semaphore(group(`${long}/c`, 'd'))).not.toBe(own.semaphore(group(long, 'c/d')))
    expect(own.semaphore(group(long, 'c/d'))).not.toBe(own.semaphore(group(long, 'c', { component: 'd' })))
  })

  it('begins with the literal namespace, so that a team can be given its own rights, also when the rest is hashed', () => {
    const long = { namespace: 'team-payments', job: 'x'.repeat(200), group: 'y'.repeat(200) }
    expect(own.semaphore(long)).toMatch(/^lockkeeper\/semaphores\/team-payments\/~~[A-Za-z0-9_-]{22}$/)
    expect(own.requestsOf(long)).toMatch(/^lockkeeper\/requests\/team-payments\/~~[A-Za-z0-9_-]{22}\/$/)
    expect(own.semaphore({ shared: 'x'.repeat(200) })).toMatch(/^lockkeeper\/semaphores\/~shared\/~~/)
  })

  it('of a request is directly in the folder of its scope, and of no other', () => {
    for (const name of NASTY) {
      const scope = group(name)
      const folder = own.requestsOf(scope)
      const path = own.request(scope, name)
      expect(path.startsWith(folder)).toBe(true)
      expect(path.slice(folder.length)).not.toContain('/')
    }
    // The folder of a component lies below that of its group; what is directly in the one is never directly in the other.
    const below = own.request(group('web', 'api', { component: 'cache' }), UUID)
    expect(below.slice(own.requestsOf(group('web')).length)).toContain('/')
  })

  it("of a lock is the one that a lock on the same scope has in everybody's eyes: level and scope agree", () => {
    for (const name of NASTY) {
      const scope = group(name, name, { component: name })
      const inSemaphores = own.semaphore(scope).slice('lockkeeper/semaphores/'.length)
      expect(own.lock(scope)).toBe(`lockkeeper/locks/${inSemaphores}`)
    }
  })
})

describe('any names at all', () => {
  const name = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 40 }),
    fc.string({ unit: fc.constantFrom('a', 'b', '/', '~', '.', '2', 'e', 'f', ' ', 'é', '-', '_'), maxLength: 8 }),
    fc.string({ unit: 'grapheme', minLength: 150, maxLength: 200 }),
    fc.constantFrom(...NASTY),
  )
  /** Nomad: `^[a-zA-Z0-9-]{1,128}$` */
  const namespace = fc.oneof(
    fc.constantFrom('default', 'shared', 'nodes', 'locks', 'a', 'b'),
    fc.string({ unit: fc.constantFrom('a', 'Z', '0', '-'), minLength: 1, maxLength: 128 }),
  )
  const scope: fc.Arbitrary<Scope> = fc.oneof(
    fc.record({ namespace, job: name, group: name }),
    fc.record({ namespace, job: name, group: name, component: name }),
    fc.record({ shared: name.filter((text) => text !== '') }),
    fc.record({ nodes: name.filter((text) => text !== '') }),
  )
  const prefix = fc.constantFrom('lockkeeper', 'l', 'ops/lockkeeper', LONGEST_PREFIX)

  it('C6.1 give legal paths, each for one thing only', () => {
    fc.assert(
      fc.property(
        prefix,
        fc.array(scope, { minLength: 2, maxLength: 6 }),
        fc.array(name, { maxLength: 4 }),
        (at, scopes, units) => {
          for (const path of stored(scopes, units, at).keys()) expectLegal(path)
        },
      ),
      { numRuns: 500 },
    )
  })

  it('C6.1 give the same path every time', () => {
    fc.assert(
      fc.property(scope, name, (one, unit) => {
        const again = JSON.parse(JSON.stringify(one)) as Scope
        expect(paths('lockkeeper').semaphore(again)).toBe(own.semaphore(one))
        expect(paths('lockkeeper').request(again, unit)).toBe(own.request(one, unit))
      }),
    )
  })
})

describe('a prefix', () => {
  it.each(['lockkeeper', 'ops/lockkeeper', 'Team_1/x', 'a', 'nomads', LONGEST_PREFIX])('may be %s', (prefix) => {
    expect(prefixFault(prefix)).toBeNull()
  })

  it.each<[string, string]>([
    ['', 'letters'],
    ['/lockkeeper', 'letters'],
    ['lockkeeper/', 'letters'],
    ['lock//keeper', 'letters'],
    ['lock keeper', 'letters'],
    ['lock.keeper', 'letters'],
    ['lock~keeper', 'letters'],
    ['löck', 'letters'],
    ['lockkeeper\n', 'letters'],
    ['nomad', 'reserved'],
    ['nomad/jobs', 'reserved'],
    ['p'.repeat(33), '32 characters'],
  ])('may not be %j', (prefix, why) => {
    expect(prefixFault(prefix)).toContain(why)
  })
})

describe('a path that somebody wrote by hand', () => {
  it.each<[string, Level]>([
    ['lockkeeper/locks/', {}],
    ['lockkeeper/locks//', {}],
    ['lockkeeper/locks/default/', { namespace: 'default' }],
    ['lockkeeper/locks/default/web', { namespace: 'default', job: 'web' }],
  ])('may end in slashes: %s shuts its level', (path, level) => {
    expect(withoutTrailingSlash(path)).toBe(own.lock(level))
  })
})
