import type { Allocation, CheckResult, TaskState } from '../core/cluster.ts'
import { NomadFault } from '../core/nomad-fault.ts'
import type { Shape } from './shape.ts'

export const ALLOCATION_ID = /^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/

/** A whole allocation, or the stub that lists hold: a stub has JobVersion, the whole one has the Job (facts §5). */
export function allocationOf(from: Shape): Allocation {
  const version = from.optional('JobVersion') === null ? from.object('Job') : null
  const next = from.optional('NextAllocation') ?? ''
  return {
    id: from.text('ID'),
    name: from.text('Name'),
    namespace: from.text('Namespace'),
    job: from.text('JobID'),
    group: from.text('TaskGroup'),
    jobVersion: version === null ? from.count('JobVersion') : version.count('Version'),
    node: from.text('NodeID'),
    nodeName: from.text('NodeName'),
    desired: from.oneOf('DesiredStatus', ['run', 'stop', 'evict']),
    client: from.oneOf('ClientStatus', ['pending', 'running', 'complete', 'failed', 'lost', 'unknown']),
    next: next === '' ? null : from.text('NextAllocation'),
    migrating: from.object('DesiredTransition')?.flag('Migrate') ?? false,
    createIndex: from.count('CreateIndex'),
    tasks: Object.fromEntries(from.map('TaskStates').map(([name, state]) => [name, taskStateOf(state)])),
  }
}

function taskStateOf(from: Shape): TaskState {
  const startedAt = from.optional('StartedAt') === null ? null : timeOf(from.text('StartedAt'))
  return {
    state: from.oneOf('State', ['pending', 'running', 'dead']),
    failed: from.flag('Failed'),
    restarts: from.optional('Restarts') === null ? 0 : from.count('Restarts'),
    startedAt,
    stopping: isStopping(from.list('Events')),
  }
}

/** Only the last ten events are kept (facts §4), so that it was told to stop may be forgotten, never invented. By their order: the
 *  clock of its node may have been set meanwhile. */
function isStopping(events: readonly Shape[]): boolean {
  const types = events.map((event) => event.optional('Type'))
  const told = types.findLastIndex((type) => type === 'Restart Signaled' || type === 'Killing')
  return told > types.lastIndexOf('Started')
}

/** One result of a check as the client agent holds it; its Timestamp is in whole seconds (facts §5). */
export function checkResultOf([id, from]: [string, Shape]): CheckResult {
  return {
    id,
    check: from.text('Check'),
    mode: from.oneOf('Mode', ['healthiness', 'readiness']),
    status: from.oneOf('Status', ['success', 'failure', 'pending']),
    timestamp: from.count('Timestamp'),
  }
}

const TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/

/** Milliseconds since the epoch of an RFC 3339 time, whole microseconds kept (a double holds no more); null for Go's zero time. */
export function timeOf(text: string): number | null {
  const [, seconds, fraction = '', zone] = TIME.exec(text) ?? []
  const whole = Date.parse(`${seconds}${zone}`)
  if (seconds === undefined || Number.isNaN(whole))
    throw new NomadFault('rejected', "Nomad's answer has an unexpected shape: expected an RFC 3339 time")
  if (seconds.startsWith('0001-')) return null
  return whole + Number(fraction.slice(0, 6).padEnd(6, '0')) / 1_000
}
