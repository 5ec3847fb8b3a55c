// What is there to begin with: how large, how patient, under which policy. All of it from the seed.
import type { JobSpec } from '../../src/devnomad/devnomad.ts'
import type { Chance } from './chance.ts'
import type { PolicyInForce } from './policies.ts'

export const JOB = 'web'
export const GROUP = 'api'
const MAIN_TASK = 'app'
const SECOND = 1e9

export interface Scenery {
  readonly replicas: number
  readonly nodes: readonly string[]
  readonly type: 'service' | 'system'
  readonly allocations: number
  readonly leaseTtlMs: number
  readonly lagMs: number
  readonly healthyAfterMs: number
  readonly startAfterMs: number
  readonly stopAfterMs: number
  /** Of each task beside the main one: from the signal to its end. */
  readonly besides: readonly number[]
  /** Whether what runs on a node that is away may come back. */
  readonly mayReturn: boolean
  readonly healthyDeadline: number
  readonly minHealthyTime: number
  readonly checks: boolean
  readonly maxErrors: number
  readonly staggerMs: number
  /** Names of components that shims ask for; undefined: the group as a whole. */
  readonly components: readonly (string | undefined)[]
  readonly priorities: boolean
  /** Which part of the shims ask for the shared semaphore. */
  readonly shared: number
  /** Which part of those who ask go away again: a replica acts for them. */
  readonly managed: number
  /** How many shims there are at a time. */
  readonly shims: number
}

export interface Knobs {
  readonly maxParallel: number
  readonly maxUnavailable: number
  /** A change that replaces every allocation. */
  readonly version: number
  /** `checks` where there are some. */
  readonly healthCheck: 'checks' | 'task_states' | 'none'
}

/** The main one first. */
export function tasksOf({ besides }: Scenery): string[] {
  return [MAIN_TASK, ...besides.map((_, n) => `side-${n}`)]
}

export function sceneryOf(chance: Chance): Scenery {
  const replicas = chance.pick([2, 2, 3])
  return {
    replicas,
    nodes: Array.from({ length: chance.whole(2, 5) }, (_, n) => `node-${n + 1}`),
    type: chance.happens(0.2) ? 'system' : 'service',
    allocations: chance.whole(2, 6),
    leaseTtlMs: chance.pick([10_000, 15_000]),
    lagMs: chance.pick([200, 1_000, 1_000, 1_000]),
    healthyAfterMs: chance.skewed(200, 15_000),
    startAfterMs: chance.skewed(10, 5_000),
    stopAfterMs: chance.skewed(50, 4_000),
    besides: chance.happens(0.3) ? [chance.skewed(50, 15_000)] : [],
    mayReturn: chance.happens(0.4),
    healthyDeadline: chance.pick([20, 40, 60, 120]),
    minHealthyTime: chance.pick([0, 1, 3, 10]),
    checks: chance.happens(0.7),
    maxErrors: chance.pick([0, 0, 0, 1, 2]),
    staggerMs: chance.pick([0, 0, 0, 3_000]),
    components: chance.pick([[undefined], [undefined], [undefined], ['tls', 'config']]),
    priorities: chance.happens(0.3),
    shared: 0.2,
    shims: chance.whole(2, 8),
    managed: chance.pick([0.1, 0.4, 0.7]),
  }
}

export function jobOf(scenery: Scenery, { maxParallel, maxUnavailable, version, healthCheck }: Knobs): JobSpec {
  const service = {
    Name: 'web',
    Provider: 'nomad',
    Checks: [{ Name: 'up', Type: 'http', Path: '/', Interval: SECOND, Timeout: SECOND }],
  }
  const { healthyAfterMs, startAfterMs, stopAfterMs } = scenery
  const ms = (value: number) => `${Math.round(value)}ms`
  const stops = [stopAfterMs, ...scenery.besides]
  return {
    ID: JOB,
    Type: scenery.type,
    TaskGroups: [
      {
        Name: GROUP,
        Count: scenery.type === 'system' ? 1 : scenery.allocations,
        Meta: {
          lockkeeper_max_unavailable: String(maxUnavailable),
          lockkeeper_max_errors: String(scenery.maxErrors),
          lockkeeper_stagger: ms(scenery.staggerMs),
          ...(healthCheck === 'none' ? { lockkeeper_health_check: 'none' } : {}),
        },
        Update: {
          MaxParallel: maxParallel,
          HealthCheck: scenery.checks && healthCheck === 'checks' ? 'checks' : 'task_states',
          MinHealthyTime: scenery.minHealthyTime * SECOND,
          HealthyDeadline: scenery.healthyDeadline * SECOND,
          ProgressDeadline: 600 * SECOND,
        },
        RestartPolicy: { Attempts: 10, Delay: SECOND, Interval: 60 * SECOND, Mode: 'delay' },
        Services: scenery.checks ? [service] : [],
        ...(scenery.mayReturn ? { Disconnect: { LostAfter: 60 * SECOND, Replace: true, Reconcile: 'best_score' } } : {}),
        Tasks: tasksOf(scenery).map((name, n) => ({
          Name: name,
          Driver: 'dev',
          Meta: { version: String(version) },
          KillTimeout: 30 * SECOND,
          Config: {
            start_after: ms(startAfterMs),
            healthy_after: ms(healthyAfterMs),
            stop_after: ms(stops[n] as number),
          },
        })),
      },
    ],
  } as unknown as JobSpec
}

export function policyOf(scenery: Scenery, { maxParallel, maxUnavailable, healthCheck }: Knobs): PolicyInForce {
  const { minHealthyTime } = scenery
  const checks = scenery.checks && healthCheck === 'checks'
  return { maxParallel, maxUnavailable, minHealthyMs: minHealthyTime * 1_000, checks, waitsForHealth: healthCheck !== 'none' }
}
