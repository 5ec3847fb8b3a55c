// What decisions know about the cluster: the part of Nomad's answers that they need, in our types.

/** The servers' view of a restart lags by about a second (facts §4); health must last longer than that to mean anything. */
export const LAG_MS = 2_000

export interface TaskState {
  readonly state: 'pending' | 'running' | 'dead'
  readonly failed: boolean
  readonly restarts: number
  /** Milliseconds since the epoch on the node's own clock; null before the first start. */
  readonly startedAt: number | null
  /** Its process was told to stop and may still run: no restart is counted yet (facts §4). */
  readonly stopping: boolean
}

export interface Allocation {
  readonly id: string
  /** `job.group[index]`: the same for a replacement. */
  readonly name: string
  readonly namespace: string
  readonly job: string
  readonly group: string
  readonly jobVersion: number
  readonly node: string
  readonly nodeName: string
  readonly desired: 'run' | 'stop' | 'evict'
  readonly client: 'pending' | 'running' | 'complete' | 'failed' | 'lost' | 'unknown'
  /** The replacement, once Nomad has named it. */
  readonly next: string | null
  /** A drain or an operator moves it away (DesiredTransition). */
  readonly migrating: boolean
  readonly createIndex: number
  readonly tasks: Readonly<Record<string, TaskState>>
}

/** Whether Nomad wants it to run, and it has not ended. */
export function mayRun({ desired, client }: Allocation): boolean {
  return desired === 'run' && client !== 'complete' && client !== 'failed' && client !== 'lost'
}

export interface TaskSpec {
  readonly name: string
  /** `main`: must run for the allocation to be up. `sidecar`: a lifecycle task that must run too. `once`: finishes by design. */
  readonly role: 'main' | 'sidecar' | 'once'
  readonly meta: Readonly<Record<string, string>>
  readonly templates: readonly TemplateSpec[]
}

export interface TemplateSpec {
  /** Where it is rendered to, relative to the task's directory: `secrets/app.env`. */
  readonly path: string
  /** Its values are put into the environment: a process gets them at its start and never again. */
  readonly env: boolean
  readonly changeMode: string
}

export interface GroupSpec {
  readonly name: string
  readonly count: number
  readonly meta: Readonly<Record<string, string>>
  /** The four values of the `update` block that are policy here; null when there is none. Milliseconds. */
  readonly update: {
    readonly maxParallel: number
    readonly minHealthyTime: number
    readonly healthyDeadline: number
    readonly healthCheck: string
  } | null
  readonly tasks: readonly TaskSpec[]
  /** How many healthiness checks of provider `nomad` an allocation of this group must show (Consul's cannot be seen). */
  readonly healthinessChecks: number
}

export interface Job {
  readonly id: string
  readonly namespace: string
  readonly type: 'service' | 'system' | 'batch' | 'sysbatch'
  readonly version: number
  readonly stopped: boolean
  readonly meta: Readonly<Record<string, string>>
  readonly groups: readonly GroupSpec[]
}

export interface CheckResult {
  readonly id: string
  readonly check: string
  readonly mode: 'healthiness' | 'readiness'
  readonly status: 'success' | 'failure' | 'pending'
  /** Whole seconds since the epoch, on the node's clock. */
  readonly timestamp: number
}

export interface Node {
  readonly id: string
  readonly status: 'initializing' | 'ready' | 'down' | 'disconnected'
  readonly eligible: boolean
  readonly draining: boolean
}
