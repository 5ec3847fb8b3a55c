// The proof that the checks bite: with each of these deliberate faults the simulation finds the promise that it breaks.
import { describe, expect, it } from 'vitest'
import { simulate, type SimulationOptions } from './simulation.ts'
import {
  acquires,
  answers,
  forgotten,
  frozen,
  hidden,
  holds,
  looksUp,
  losesSight,
  ONE_LOCK_ID,
  onlySeemsRenewed,
  shuffled,
  startedJustNow,
  states,
  takesBackTheLast,
  undying,
  unremoved,
  writes,
} from './tampering.ts'

type Row = readonly [invariant: string, fault: string, options: () => Partial<SimulationOptions>]

interface JobAnswer {
  readonly TaskGroups: { Update: Record<string, unknown>; Meta: Record<string, unknown> }[]
}
const generous = (job: JobAnswer) => ({
  ...job,
  TaskGroups: job.TaskGroups.map((group) => ({
    ...group,
    Update: { ...group.Update, MaxParallel: 6 },
    Meta: { ...group.Meta, lockkeeper_max_unavailable: '6' },
  })),
})
const tight = { maxParallel: 1, maxUnavailable: 1 }
/** Few ask, and nothing else goes wrong. */
const calm = { steps: 200, everyMs: Infinity, peaceMs: 60_000, scenery: { shims: 2 } }
const unrenewed = (thinkMs: number): Partial<SimulationOptions> => ({
  everyMs: Infinity,
  scenery: { leaseTtlMs: 10_000, shared: 1, shims: 8 },
  plan: { course: 'acts', thinkMs },
  tamper: onlySeemsRenewed(),
})
const wide = { maxParallel: 3, maxUnavailable: 3 }

/** Replicas act for nearly everybody. */
const errands = { scenery: { managed: 0.9, shims: 6, shared: 0 } }

const ROWS: readonly Row[] = [
  ['max_parallel', 'a replica reads another policy', () => ({ knobs: tight, tamper: answers(/^\/v1\/job\/web\?/, generous) })],
  ['tokens rise', 'tokens begin anew', () => ({ tamper: holds(() => ({ token: 1 })) })],
  ['slots unique', 'every hold gets the first slot', () => ({ knobs: wide, tamper: holds(() => ({ slot: 0 })) })],
  [
    'operator locks',
    'no list shows an operator lock',
    () => ({ tamper: hidden((path) => /\/locks($|\/(?!~sentinel))/.test(path)) }),
  ],
  [
    'act in time',
    'shims do not look at their deadline',
    () => ({
      scenery: { leaseTtlMs: 10_000, managed: 0, shims: 8 },
      plan: { careful: false, course: 'acts', thinkMs: 30_000 },
      everyMs: 2_000,
    }),
  ],
  ['lost means lost', 'no list shows a lease', () => ({ tamper: hidden((path) => path.startsWith('lockkeeper/leases/0')) })],
  [
    'healthy when healthy',
    'every check passes',
    () => ({
      scenery: { checks: true, healthyAfterMs: 14_000, minHealthyTime: 3, healthyDeadline: 120 },
      tamper: answers<Record<string, object>>(/\/checks\?/, (checks) =>
        Object.fromEntries(Object.entries(checks).map(([id, check]) => [id, { ...check, Status: 'success', Timestamp: 4e9 }])),
      ),
    }),
  ],
  ['unchanged when unchanged', 'restarts are not seen', () => ({ plan: { course: 'dies in the act' }, tamper: frozen() })],
  [
    'gone when gone',
    'allocations are not seen for a while',
    // Of a service job Nomad owes a replacement by its count.
    () => ({ scenery: { type: 'system' }, plan: { course: 'dies early', thinkMs: 1 }, tamper: losesSight() }),
  ],
  [
    'max_unavailable',
    'everything always looks up',
    () => ({
      knobs: { maxParallel: 3, maxUnavailable: 1 },
      scenery: { startAfterMs: 9_000, lagMs: 200, allocations: 6, shared: 0, shims: 8 },
      tamper: looksUp(),
      everyMs: 1_000,
    }),
  ],
  [
    'a gate must pass',
    'released is over',
    () => ({ tamper: states(({ holds: all }) => ({ holds: all.filter(({ phase }) => phase === 'acting') })) }),
  ],
  [
    'a hold ends with a reason',
    'nothing is written down of what was done',
    () => ({ tamper: states(({ holds: all }) => ({ holds: all.filter(({ phase }) => phase === 'acting'), transitions: [] })) }),
  ],
  ['ended by force', 'a release looks like that of an operator', () => ({ tamper: forgotten('forced_release') })],
  ['taken back before told', 'a grant is taken back although it was told', () => ({ tamper: forgotten('taken_back') })],
  [
    'told while it stands',
    'what was granted a moment ago is taken back',
    () => ({ knobs: wide, scenery: { managed: 0, shims: 8 }, tamper: takesBackTheLast(20) }),
  ],
  [
    'a failure is remembered',
    'failures are not stored',
    () => ({
      scenery: { checks: true, healthyAfterMs: 40_000, healthyDeadline: 20 },
      tamper: states(() => ({ failures: [] })),
    }),
  ],
  ['one hold a unit', 'all holds are of one unit', () => ({ knobs: wide, tamper: holds(() => ({ unit: 'one' })) })],
  [
    'a hold stays what it is',
    'a hold changes when it is released',
    () => ({ tamper: holds(({ phase }) => (phase === 'observing' ? { reason: 'another' } : {})) }),
  ],
  [
    'told when committed',
    'another hold is stored than the one granted',
    () => ({ tamper: holds(({ id }) => ({ id: `${id}x` })) }),
  ],
  [
    'one asker',
    'all processes of a unit show the same key',
    () => ({
      scenery: { allocations: 2, shims: 8 },
      plan: { course: 'dies early', thinkMs: 5_000 },
      tamper: { ask: (input) => ({ ...input, key: input.allocation ?? input.unit ?? '' }) },
    }),
  ],
  [
    'renew, then act',
    'somebody else than the service answers renewals',
    () => ({
      tamper: { instead: ({ path }) => (path.endsWith('/renew') ? { status: 200, body: {}, retryAfterMs: null } : null) },
    }),
  ],
  ['act under a hold', 'a renewal renews nothing', () => unrenewed(9_800)],
  ['one at a time', 'a renewal renews nothing, and the act is long', () => unrenewed(1)],
  [
    'no fault of ours',
    'a replica fails at an ask',
    () => ({
      tamper: {
        ask() {
          throw new TypeError('a fault')
        },
      },
    }),
  ],
  ['lock IDs used once', 'all leases have one lock ID', () => ({ tamper: ONE_LOCK_ID })],
  [
    'lease path used once',
    'all leases have one path',
    () => ({ tamper: acquires((request) => ({ ...request, path: '/v1/var/lockkeeper/leases/one?lock-acquire' })) }),
  ],
  [
    'a lease sees no plain set',
    'a lease is put, not acquired',
    () => ({ tamper: acquires((request) => ({ ...request, path: request.path.replace('lock-acquire', 'cas=0') })) }),
  ],
  [
    'only leases are locked',
    'a semaphore is locked',
    () => ({
      tamper: writes('semaphores', (request) => ({ ...request, path: request.path.replace(/cas=\d+/, 'lock-acquire') })),
    }),
  ],
  [
    'no Lock in a plain set',
    'a state is written with a lock',
    () => ({
      tamper: writes('semaphores', (request) => ({
        ...request,
        body: JSON.stringify({ ...(JSON.parse(request.body as string) as object), Lock: { ID: 'x' } }),
      })),
    }),
  ],
  [
    'writes are check-and-set',
    'a write does not name what it replaces',
    () => ({ tamper: writes('semaphores', (request) => ({ ...request, path: request.path.replace(/cas=\d+/, 'cas=') })) }),
  ],
  [
    'nobody is lost',
    'no grant is ever committed',
    () => ({
      ...calm,
      tamper: writes('semaphores', (request) => ({ ...request, path: request.path.replace(/cas=\d+/, 'cas=999999') })),
    }),
  ],
  ['nobody is lost', 'no state fits into a variable', () => ({ ...calm, tamper: states(() => ({ more: 'x'.repeat(70_000) })) })],
  [
    'first come, first served',
    'the queue is seen in another order',
    () => ({
      knobs: tight,
      scenery: { shims: 8, components: [undefined], priorities: false },
      plan: { thinkMs: 3_000, course: 'acts' },
      tamper: shuffled(),
    }),
  ],
  [
    'an act has a hold',
    'the hold of a replica is stored as one of a shim',
    () => ({ ...errands, tamper: holds(() => ({ managed: false })) }),
  ],
  [
    'the call ends before its lease',
    'a replica waits for its act for a minute',
    () => ({ ...errands, tamper: { bound: () => 60_000 } }),
  ],
  ['no request is lost', 'every task looks as if it had been started just now', () => ({ ...errands, tamper: startedJustNow() })],
  [
    'one act a request',
    'no request is ever removed',
    () => ({ ...errands, everyMs: Infinity, peaceMs: 10_000, tamper: unremoved() }),
  ],
  ['taken back before any act', 'a hold is taken back after its act', () => ({ ...errands, tamper: forgotten('taken_back') })],
  [
    'taken over when still',
    'no list shows the lease of a replica, and its calls take long',
    () => ({
      ...errands,
      tamper: { ...hidden((path) => path.startsWith('lockkeeper/leases/replicas/')), torn: 1 },
    }),
  ],
  [
    'the request is read again',
    'a request that was removed is still listed',
    () => ({ ...errands, plan: {}, everyMs: 2_000, tamper: undying() }),
  ],
  [
    'operator locks',
    'no list shows an operator lock, and replicas act',
    () => ({ ...errands, everyMs: 1_000, tamper: hidden((path) => /\/locks($|\/(?!~sentinel))/.test(path)) }),
  ],
]

const SEEDS = 25

describe('the simulation finds it when', () => {
  it.each(ROWS.map(([invariant, fault, options]) => ({ invariant, fault, options })))(
    '$fault',
    async ({ invariant, options }) => {
      const found: string[] = []
      for (let seed = 1; seed <= SEEDS && !found.includes(invariant); seed++) {
        const { violation } = await simulate({ seed, steps: 2_500, ...options() })
        if (violation !== null) found.push(violation.invariant)
      }
      expect(found).toContain(invariant)
    },
  )
})
