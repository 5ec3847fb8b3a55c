// What a test of a decision starts from, with everything that it does not speak of set to something ordinary.
import type { Candidate } from '../../src/core/admission.ts'
import type { Allocation, CheckResult, GroupSpec, Job, Node, TaskSpec, TaskState } from '../../src/core/cluster.ts'
import type { Policy } from '../../src/core/policy.ts'
import type { GroupScope } from '../../src/core/scope.ts'
import { grant, type NewHold } from '../../src/core/semaphore.ts'
import { emptyState, type Failure, type Hold, type State } from '../../src/core/state.ts'

export const SCOPE: GroupScope = { namespace: 'default', job: 'web', group: 'api' }
/** Wall time at which a test begins. */
export const NOW = Date.UTC(2026, 0, 1)
export const SECOND = 1_000
export const MINUTE = 60_000

export function policyOf(over: Partial<Policy> = {}): Policy {
  return {
    maxParallel: 1,
    maxUnavailable: over.maxParallel ?? 1,
    minHealthyTime: 10 * SECOND,
    healthyDeadline: 5 * MINUTE,
    healthCheck: 'checks',
    stagger: 0,
    minInterval: null,
    maxErrors: 0,
    actingDeadline: MINUTE,
    waitForDeployment: true,
    ...over,
  }
}

export function taskSpec(name: string, role: TaskSpec['role'] = 'main', over: Partial<TaskSpec> = {}): TaskSpec {
  return { name, role, meta: {}, templates: [], ...over }
}

export function groupSpec(over: Partial<GroupSpec> = {}): GroupSpec {
  return {
    name: 'api',
    count: 3,
    meta: {},
    update: null,
    tasks: [taskSpec('app')],
    healthinessChecks: 1,
    ...over,
  }
}

export function jobOf(over: Partial<Job> = {}): Job {
  return {
    id: 'web',
    namespace: 'default',
    type: 'service',
    version: 0,
    stopped: false,
    meta: {},
    groups: [groupSpec()],
    ...over,
  }
}

/** A task that has run for an hour. */
export function taskOf(over: Partial<TaskState> = {}): TaskState {
  return { state: 'running', failed: false, restarts: 0, startedAt: NOW - 60 * MINUTE, stopping: false, ...over }
}

/** The running allocation with the index `n` of the group. */
export function allocationOf(n: number, over: Partial<Allocation> = {}): Allocation {
  return {
    id: unitId(n),
    name: placeName(n),
    namespace: 'default',
    job: 'web',
    group: 'api',
    jobVersion: 0,
    node: `node-${n}`,
    nodeName: `host-${n}`,
    desired: 'run',
    client: 'running',
    next: null,
    migrating: false,
    createIndex: 100 + n,
    tasks: { app: taskOf() },
    ...over,
  }
}

/** `count` running allocations, and what is different about some of them. */
export function allocationsOf(count: number, over: Readonly<Record<number, Partial<Allocation>>> = {}): Allocation[] {
  return Array.from({ length: count }, (_, n) => allocationOf(n, over[n]))
}

export function unitId(n: number): string {
  return `alloc-${n}`
}

export function placeName(n: number): string {
  return `web.api[${n}]`
}

export function nodeOf(n: number, over: Partial<Node> = {}): Node {
  return { id: `node-${n}`, status: 'ready', eligible: true, draining: false, ...over }
}

/** A passing check; `seconds` since the epoch. */
export function checkOf(seconds: number, over: Partial<CheckResult> = {}): CheckResult {
  return { id: 'check-up', check: 'up', mode: 'healthiness', status: 'success', timestamp: seconds, ...over }
}

export function leaseOf(name: string): Hold['lease'] {
  return { path: `lockkeeper/leases/${name}`, index: 500, proof: `proof-${name}` }
}

/** What is granted to the allocation with the index `n`. */
export function newHold(n: number, over: Partial<NewHold> = {}): NewHold {
  return {
    id: `hold-${n}`,
    key: `key-${n}`,
    slot: n,
    unit: unitId(n),
    place: placeName(n),
    tasks: [],
    managed: false,
    action: 'restart',
    reason: 'the certificate was renewed',
    actor: `shim-${n}`,
    lease: leaseOf(`lease-${n}`),
    request: null,
    wasUp: true,
    baseline: { app: { restarts: 0, startedAt: NOW - 60 * MINUTE } },
    ...over,
  }
}

export function failureOf(n: number, over: Partial<Failure> = {}): Failure {
  return {
    unit: unitId(n),
    place: placeName(n),
    token: 1,
    slot: 0,
    reason: 'not healthy within 300 s: check up says failure',
    at: NOW,
    jobVersion: 0,
    ...over,
  }
}

export function stateOf(over: Partial<State> = {}): State {
  return { ...emptyState(SCOPE), ...over }
}

/** A state in which the allocations with these indexes hold the slots 0, 1, … and act; granted long enough ago for any stagger. */
export function heldBy(...units: readonly number[]): State {
  const start = emptyState(SCOPE)
  return units.reduce((state, n, slot) => grant(state, newHold(n, { slot }), NOW - 10 * MINUTE), start)
}

/** An open request of the allocation with the index `n`, asked in the order of the indexes. */
export function candidateOf(n: number, over: Partial<Candidate> = {}): Candidate {
  return {
    id: `ask-${n}`,
    unit: unitId(n),
    place: placeName(n),
    priority: 0,
    deadline: null,
    createIndex: 1_000 + n,
    ready: true,
    watched: false,
    ...over,
  }
}
