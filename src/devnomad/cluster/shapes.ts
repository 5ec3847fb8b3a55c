// Room cluster: what the servers know about jobs, allocations, deployments and nodes, and what they decide.
// This file: Nomad's own JSON, as far as something here looks at it. Rows of the tables have this shape too.

/** Nanoseconds, as in all of Nomad's JSON. */
export type Nanoseconds = number

export interface Check {
  Name: string
  Type: string
  Interval: Nanoseconds
  OnUpdate: string
  TaskName?: string
}
export interface Service {
  Name: string
  Provider: string
  Checks: Check[] | null
  OnUpdate: string
  PortLabel: string
  TaskName?: string
}
export interface RestartPolicy {
  Attempts: number
  Interval: Nanoseconds
  Delay: Nanoseconds
  Mode: string
  RenderTemplates: boolean
}
export interface ReschedulePolicy {
  Attempts: number
  Interval: Nanoseconds
  Delay: Nanoseconds
  DelayFunction: string
  MaxDelay: Nanoseconds
  Unlimited: boolean
}
export interface Update {
  MaxParallel: number
  HealthCheck: string
  MinHealthyTime: Nanoseconds
  HealthyDeadline: Nanoseconds
  AutoPromote: boolean
  AutoRevert: boolean
  Canary: number
  ProgressDeadline: Nanoseconds
}
export interface Migrate {
  MaxParallel: number
  HealthCheck: string
  MinHealthyTime: Nanoseconds
  HealthyDeadline: Nanoseconds
}
export interface Identity {
  Name: string
  Audience: string[]
  TTL: Nanoseconds
  File: boolean
  Env: boolean
  ChangeMode: string
  ChangeSignal: string
}
export interface ChangeScript {
  Command: string
  Args: string[] | null
  Timeout: Nanoseconds
  FailOnError: boolean
}
export interface Template {
  EmbeddedTmpl: string
  DestPath: string
  ChangeMode: string
  ChangeSignal: string
  ChangeScript: ChangeScript | null
  Envvars: boolean
  Perms: string
  Splay: Nanoseconds
  Once: boolean
  Wait: { Min: Nanoseconds; Max: Nanoseconds } | null
}
export interface Task {
  Name: string
  Driver: string
  Config: Record<string, unknown> | null
  Lifecycle: { Hook: string; Sidecar: boolean } | null
  Services: Service[] | null
  RestartPolicy: RestartPolicy
  Meta: Record<string, string> | null
  Identity: Identity
  Identities: Identity[] | null
  Templates: Template[] | null
  Resources: { MemoryMB: number }
  KillSignal: string
  KillTimeout: Nanoseconds
  ShutdownDelay: Nanoseconds
  Vault: Vault | null
}
export interface Vault {
  ChangeMode: string
  ChangeSignal: string
  DisableFile: boolean
}
export interface Group {
  Name: string
  Count: number
  Tasks: Task[]
  Services: Service[] | null
  RestartPolicy: RestartPolicy
  ReschedulePolicy: ReschedulePolicy | null
  Update: Update | null
  Migrate: Migrate | null
  Disconnect: { LostAfter: Nanoseconds; Replace: boolean; Reconcile: string } | null
  ShutdownDelay: Nanoseconds | null
  Meta: Record<string, string> | null
}
export interface Job {
  ID: string
  Name: string
  Namespace: string
  Type: 'service' | 'batch' | 'system' | 'sysbatch'
  Priority: number
  Datacenters: string[]
  NodePool: string
  Meta: Record<string, string> | null
  TaskGroups: Group[]
  Stop: boolean
  Stable: boolean
  Status: 'pending' | 'running' | 'dead'
  Version: number
  SubmitTime: Nanoseconds
  CreateIndex: number
  ModifyIndex: number
  JobModifyIndex: number
}

export interface TaskEvent {
  Type: string
  Time: Nanoseconds
  DisplayMessage: string
  Details: Record<string, string>
  Message: string
  ExitCode: number
  Signal: number
  RestartReason: string
  FailsTask: boolean
  KillTimeout: Nanoseconds
  StartDelay: Nanoseconds
  DiskLimit: number
}
export interface TaskState {
  State: 'pending' | 'running' | 'dead'
  Failed: boolean
  Restarts: number
  LastRestart: string | null
  StartedAt: string | null
  FinishedAt: string | null
  Paused: string
  Events: TaskEvent[]
}
interface DeploymentStatus {
  /** null: not decided yet, on a canary. */
  Healthy: boolean | null
  Timestamp: string
  Canary: boolean
  ModifyIndex: number
}
export type ClientStatus = 'pending' | 'running' | 'complete' | 'failed' | 'lost' | 'unknown'

export interface Allocation {
  ID: string
  Name: string
  Namespace: string
  EvalID: string
  NodeID: string
  NodeName: string
  JobID: string
  Job: Job
  TaskGroup: string
  DeploymentID: string
  DesiredStatus: 'run' | 'stop' | 'evict'
  DesiredDescription: string
  DesiredTransition: {
    Migrate: boolean | null
    Reschedule: boolean | null
    ForceReschedule: boolean | null
    MigrateDisablePlacement: boolean | null
    NoShutdownDelay: boolean | null
  }
  ClientStatus: ClientStatus
  ClientDescription: string
  TaskStates: Record<string, TaskState> | null
  DeploymentStatus: DeploymentStatus | null
  PreviousAllocation: string
  NextAllocation: string
  FollowupEvalID: string
  RescheduleTracker: {
    Events: { RescheduleTime: Nanoseconds; PrevAllocID: string; PrevNodeID: string; Delay: Nanoseconds }[]
    LastReschedule: string
  } | null
  CreateIndex: number
  ModifyIndex: number
  AllocModifyIndex: number
  CreateTime: Nanoseconds
  ModifyTime: Nanoseconds
}

interface DeploymentGroup {
  AutoPromote: boolean
  AutoRevert: boolean
  DesiredCanaries: number
  DesiredTotal: number
  HealthyAllocs: number
  PlacedAllocs: number
  PlacedCanaries: string[] | null
  ProgressDeadline: Nanoseconds
  Promoted: boolean
  RequireProgressBy: string
  UnhealthyAllocs: number
}
export interface Deployment {
  ID: string
  Namespace: string
  JobID: string
  JobVersion: number
  JobModifyIndex: number
  JobSpecModifyIndex: number
  JobCreateIndex: number
  IsMultiregion: boolean
  EvalPriority: number
  Status: 'running' | 'paused' | 'failed' | 'successful' | 'cancelled'
  StatusDescription: string
  TaskGroups: Record<string, DeploymentGroup>
  CreateIndex: number
  ModifyIndex: number
  CreateTime: Nanoseconds
  ModifyTime: Nanoseconds
}

export interface Node {
  ID: string
  Name: string
  Address: string
  Datacenter: string
  NodeClass: string
  NodePool: string
  Status: 'initializing' | 'ready' | 'down' | 'disconnected'
  StatusDescription: string
  SchedulingEligibility: 'eligible' | 'ineligible'
  Drain: boolean
  DrainStrategy: {
    Deadline: Nanoseconds
    IgnoreSystemJobs: boolean
    ForceDeadline: string
    StartedAt: string
  } | null
  LastDrain: {
    StartedAt: string
    UpdatedAt: string
    Status: 'draining' | 'complete' | 'canceled'
    AccessorID: string
    Meta: Record<string, string> | null
  } | null
  CreateIndex: number
  ModifyIndex: number
}

export interface Namespace {
  Name: string
  Description: string
  Meta: Record<string, string> | null
  CreateIndex: number
  ModifyIndex: number
}

/** Whether the servers expect nothing more of it. */
export function isTerminal(alloc: Allocation): boolean {
  return alloc.DesiredStatus !== 'run' || isClientTerminal(alloc)
}
export function isClientTerminal(alloc: Allocation): boolean {
  return alloc.ClientStatus === 'complete' || alloc.ClientStatus === 'failed' || alloc.ClientStatus === 'lost'
}
/** Deployments that still go on (of those that exist here). */
export function isActive(deployment: Deployment): boolean {
  return deployment.Status === 'running' || deployment.Status === 'paused'
}
export const milliseconds = (nanoseconds: Nanoseconds): number => nanoseconds / 1e6
export const nanoseconds = (milliseconds: number): Nanoseconds => milliseconds * 1e6
export const timestamp = (wallMs: number): string => new Date(wallMs).toISOString()

export function groupOf(job: Job, name: string): Group {
  const group = job.TaskGroups.find((candidate) => candidate.Name === name)
  if (group === undefined) throw new Error(`job ${job.ID} has no group ${name}`)
  return group
}

/** Those of the provider nomad, each with who has it, as their IDs say. */
export function nomadServices({ Job: job, TaskGroup }: Allocation): { readonly of: string; readonly service: Service }[] {
  const { Services, Tasks } = groupOf(job, TaskGroup)
  return [
    ...(Services ?? []).map((service) => ({ of: `group-${TaskGroup}`, service })),
    ...Tasks.flatMap(({ Name, Services: own }) => (own ?? []).map((service) => ({ of: Name, service }))),
  ].filter(({ service }) => service.Provider === 'nomad')
}
