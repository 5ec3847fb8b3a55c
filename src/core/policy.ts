// The policy of a semaphore: words and rules of Nomad's `update` block, then `lockkeeper_*` meta of job and group.
import type { GroupSpec, Job } from './cluster.ts'
import { parseDuration } from './duration.ts'
import { LAG_MS } from './cluster.ts'
import { Problem } from './errors.ts'
import { describe, type Scope } from './scope.ts'

export type HealthCheck = 'checks' | 'task_states' | 'none'

/** All durations in milliseconds. Amounts are resolved against the group's count. */
export interface Policy {
  /** How many holds at once; 0 = not gated. */
  readonly maxParallel: number
  /** How many units may be held or down at once when the next one to go is up. */
  readonly maxUnavailable: number
  readonly minHealthyTime: number
  readonly healthyDeadline: number
  readonly healthCheck: HealthCheck
  readonly stagger: number
  /** Between two starts of the same unit; null: not set (see `minIntervalOf`). */
  readonly minInterval: number | null
  readonly maxErrors: number
  readonly actingDeadline: number
  readonly waitForDeployment: boolean
}

/** `origin`: where each value came from. `faults`: values that were refused; while there are any, nobody is granted. */
export interface ResolvedPolicy {
  readonly policy: Policy
  readonly origin: Readonly<Record<keyof Policy, string>>
  readonly faults: readonly string[]
}

const DEFAULTS: Policy = {
  maxParallel: 1,
  maxUnavailable: 1,
  minHealthyTime: 10_000,
  healthyDeadline: 300_000,
  healthCheck: 'checks',
  stagger: 0,
  minInterval: null,
  maxErrors: 0,
  actingDeadline: 60_000,
  waitForDeployment: true,
}

const { minHealthyTime, healthyDeadline, actingDeadline } = DEFAULTS
const ENDS = { minHealthyTime, healthyDeadline, actingDeadline }

/** Amounts are "n" or "n%" of the count, rounded down, at least 1 (design §5). Null: not an amount. */
function parseAmount(text: string, count: number): number | null {
  const match = /^(\d+)(%?)$/.exec(text.trim())
  if (match === null) return null
  const value = Number(match[1])
  if (match[2] === '') return value
  return value <= 100 && value > 0 ? Math.max(1, Math.floor((value * count) / 100)) : null
}

function parseHealthCheck(text: string): HealthCheck | null {
  return text === 'checks' || text === 'task_states' || text === 'none' ? text : null
}

function parseBoolean(text: string): boolean | null {
  return text === 'true' ? true : text === 'false' ? false : null
}

/** One row a setting: its word outside, its name inside, how to read it, and what was expected when that fails. */
const SETTINGS: readonly {
  readonly word: string
  readonly key: keyof Policy
  readonly expected: string
  readonly parse: (text: string, count: number) => number | string | boolean | null
}[] = [
  { word: 'max_parallel', key: 'maxParallel', expected: 'a number, or a percentage such as 10%', parse: parseAmount },
  {
    word: 'max_unavailable',
    key: 'maxUnavailable',
    expected: 'a number, or a percentage such as 10%',
    parse: parseAmount,
  },
  { word: 'min_healthy_time', key: 'minHealthyTime', expected: 'a duration such as 10s', parse: parseDuration },
  { word: 'healthy_deadline', key: 'healthyDeadline', expected: 'a duration such as 5m', parse: parseDuration },
  { word: 'health_check', key: 'healthCheck', expected: 'checks, task_states or none', parse: parseHealthCheck },
  { word: 'stagger', key: 'stagger', expected: 'a duration such as 5s', parse: parseDuration },
  { word: 'min_interval', key: 'minInterval', expected: 'a duration such as 5m', parse: parseDuration },
  {
    word: 'max_errors',
    key: 'maxErrors',
    expected: 'a number',
    parse: (text) => (/^\d+$/.test(text) ? Number(text) : null),
  },
  { word: 'acting_deadline', key: 'actingDeadline', expected: 'a duration such as 60s', parse: parseDuration },
  { word: 'wait_for_deployment', key: 'waitForDeployment', expected: 'true or false', parse: parseBoolean },
]

/** What a job may say that is no policy: what is watched (core/watch). */
const NO_POLICY = ['watch', 'action', 'signal']

const WATCHED_INTERVAL_MS = 300_000

/** How long a unit must have run before it is acted on again. What the service asks for by itself, from watched files, leaves more
 *  time unless the job says otherwise (design §5). */
export function minIntervalOf(policy: Policy, watched: boolean): number {
  return policy.minInterval ?? (watched ? WATCHED_INTERVAL_MS : 0)
}

type Values = { -readonly [K in keyof Policy]?: Policy[K] }
interface Layer {
  readonly from: string
  readonly values: Values
}

/** The policy of a group: defaults < `update` block < job meta < group meta. A word that is unknown, or a value that cannot
 *  be read, is a fault: it is never silently another policy. */
export function groupPolicy(job: Job, group: GroupSpec): ResolvedPolicy {
  const faults: string[] = []
  const layers = [
    { from: 'update', values: fromUpdate(group) },
    { from: 'job meta', values: fromMeta(job.meta, group.count, 'job meta', faults) },
    { from: 'group meta', values: fromMeta(group.meta, group.count, 'group meta', faults) },
  ]
  return resolve(layers, faults)
}

/** A shared semaphore in its simplest form: one slot, released is over. */
export function sharedPolicy(): ResolvedPolicy {
  return resolve([{ from: 'shared', values: { healthCheck: 'none' } }], [])
}

/** What holds for a scope while its job cannot be read or is gone: the defaults, so that open holds still end. */
export function fallbackPolicy(scope: Scope): ResolvedPolicy {
  return 'shared' in scope ? sharedPolicy() : resolve([], [])
}

function fromUpdate(group: GroupSpec): Values {
  if (group.update === null) return {}
  const { maxParallel, minHealthyTime, healthyDeadline, healthCheck } = group.update
  // Nomad's `manual` means that people judge a deployment; a restart is judged by task states then.
  return {
    maxParallel,
    minHealthyTime,
    healthyDeadline,
    healthCheck: healthCheck === 'checks' ? 'checks' : 'task_states',
  }
}

function fromMeta(meta: Readonly<Record<string, string>>, count: number, from: string, faults: string[]): Values {
  const values: Record<string, unknown> = {}
  for (const { word, key, expected, parse } of SETTINGS) {
    const text = meta[`lockkeeper_${word}`]
    if (text === undefined) continue
    const value = parse(text, count)
    if (value === null) faults.push(`lockkeeper_${word} in ${from}: "${text}" is not ${expected}`)
    else values[key] = value
  }
  const known = [...SETTINGS.map(({ word }) => word), ...NO_POLICY].map((word) => `lockkeeper_${word}`)
  for (const name of Object.keys(meta)) {
    if (name.startsWith('lockkeeper_') && !known.includes(name)) faults.push(`${name} in ${from} is not a word of the policy`)
  }
  return values as Values
}

function resolve(layers: readonly Layer[], faults: readonly string[]): ResolvedPolicy {
  const policy: Record<string, unknown> = { ...DEFAULTS }
  const origin: Record<string, string> = Object.fromEntries(Object.keys(DEFAULTS).map((key) => [key, 'default']))
  let unavailableFrom = 'max_parallel'
  for (const { from, values } of layers) {
    for (const [key, value] of Object.entries(values)) {
      policy[key] = value
      origin[key] = from
      if (key === 'maxUnavailable') unavailableFrom = from
    }
  }
  if (unavailableFrom === 'max_parallel') policy['maxUnavailable'] = policy['maxParallel']
  origin['maxUnavailable'] = unavailableFrom
  const wanted = policy as unknown as Policy
  const wrong = contradictions(wanted)
  // Nobody is granted under a policy with a fault, but what is held already still needs an end.
  const resolved = wrong.length === 0 ? wanted : { ...wanted, ...ENDS }
  return {
    policy: resolved,
    origin: origin as Record<keyof Policy, string>,
    faults: [...faults, ...wrong],
  }
}

/** Nomad's own rules for the block, and that every hold has an end (case C2.9). */
function contradictions(policy: Policy): string[] {
  // Nothing is believed of a restart before the lag of the servers' view is over (facts §4): a shorter deadline always fails.
  if (policy.healthyDeadline <= LAG_MS) return [`healthy_deadline must be longer than ${LAG_MS / 1_000}s`]
  if (policy.minHealthyTime >= policy.healthyDeadline) return ['min_healthy_time must be shorter than healthy_deadline']
  if (policy.maxUnavailable < 1 && policy.maxParallel > 0) return ['max_unavailable must be at least 1']
  if (policy.actingDeadline <= 0) return ['acting_deadline must be longer than 0']
  return []
}

/** What whoever asks is told of a policy that is wrong. */
export function policyFault(scope: Scope, faults: readonly string[]): Problem {
  return new Problem(
    'invalid_request',
    `the policy of ${describe(scope)} is wrong: ${faults.join('; ')}. Mend the job and ask again`,
  )
}
