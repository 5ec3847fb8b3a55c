import { isDeepStrictEqual } from 'node:util'
import { configFault } from '../client/dev-config.ts'
import { listed, Refusal } from '../refusal.ts'
import {
  CHANGE_SCRIPT,
  CHECK,
  GROUP,
  IDENTITY,
  JOB,
  MIGRATE,
  RESOURCES,
  SERVICE,
  TASK,
  TEMPLATE,
  UPDATE,
  VAULT,
} from './job-defaults.ts'
import type { Group, Identity, Job, ReschedulePolicy, RestartPolicy, Service, Task, Template, Update, Vault } from './shapes.ts'

type Partly<T> = { [K in keyof T]?: Loose<T[K]> | null | undefined }
type Loose<T> = T extends readonly string[]
  ? T
  : T extends readonly (infer E)[]
    ? readonly Partly<E>[]
    : T extends Record<string, unknown>
      ? T
      : T extends object
        ? Partly<T>
        : T

/** A job as somebody sends it, in Nomad's JSON: anything but its ID may be missing, and there may be more than is known here. */
export interface JobSpec {
  readonly ID: string
  readonly Namespace?: string | null
  readonly TaskGroups?: readonly object[] | null
  readonly [field: string]: unknown
}

const SECOND = 1e9
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** Fills in what Nomad fills in when a job is registered (measured; what is left out is named in test/conformance/acl.test.ts). */
export function canonical(spec: JobSpec): Job {
  const raw = spec as Partly<Job>
  const type = raw.Type ?? 'service'
  const update = type === 'batch' || type === 'sysbatch' ? null : (raw as { Update?: Partly<Update> }).Update
  return {
    ...filled(JOB, raw),
    Update: {
      AutoPromote: false,
      AutoRevert: false,
      Canary: 0,
      HealthCheck: '',
      HealthyDeadline: 0,
      MaxParallel: update === null ? 0 : (update?.MaxParallel ?? 1),
      MinHealthyTime: 0,
      ProgressDeadline: 0,
      Stagger: update === null ? 0 : 30 * SECOND,
    },
    ID: raw.ID ?? '',
    Name: raw.Name ?? raw.ID ?? '',
    Namespace: raw.Namespace || 'default',
    Type: type,
    Priority: raw.Priority ?? 50,
    Datacenters: raw.Datacenters ?? ['*'],
    NodePool: raw.NodePool || 'default',
    Meta: raw.Meta ?? null,
    TaskGroups: (raw.TaskGroups ?? []).map((group) => canonicalGroup(group, type, update)),
    Stop: raw.Stop ?? false,
    Stable: false,
    Status: 'pending',
    Version: 0,
    SubmitTime: 0,
    CreateIndex: 0,
    ModifyIndex: 0,
    JobModifyIndex: 0,
  } as unknown as Job
}

/** Throws what Nomad answers to a job that cannot be. */
export function checkJob(job: Job): void {
  const wrong = jobFaults(job)
  if (wrong.length > 0) throw new Refusal(500, listed(wrong))
}

/** What is wrong with a job. A real Nomad finds a wrong config only at the start of the task, which fails; here the scripts
 *  rely on it. */
export function jobFaults(job: Job): string[] {
  const wrong: string[] = []
  if (job.ID === '') wrong.push('Missing job ID')
  if (job.TaskGroups.length === 0) wrong.push('Missing job task groups')
  for (const { Name, Tasks } of job.TaskGroups) {
    if (Tasks.length === 0) wrong.push(`Task group ${Name} validation failed: Missing tasks for task group`)
    for (const task of Tasks) {
      const fault = task.Driver === 'dev' && task.Config !== null ? configFault(task.Config) : undefined
      if (fault !== undefined) wrong.push(`Task group ${Name} validation failed: Task ${task.Name} validation failed: ${fault}`)
    }
  }
  return wrong
}

function canonicalGroup(raw: Partly<Group>, type: Job['Type'], jobUpdate: Partly<Update> | null | undefined): Group {
  const base: RestartPolicy =
    type === 'batch' || type === 'sysbatch'
      ? { Attempts: 3, Delay: 15 * SECOND, Interval: 24 * HOUR, Mode: 'fail', RenderTemplates: false }
      : { Attempts: 2, Delay: 15 * SECOND, Interval: 30 * MINUTE, Mode: 'fail', RenderTemplates: false }
  const restart = filled(base, raw.RestartPolicy)
  return {
    ...filled(GROUP, raw),
    Name: raw.Name ?? '',
    Meta: raw.Meta ?? null,
    Services: services(raw.Services),
    RestartPolicy: restart,
    ReschedulePolicy: reschedule(raw.ReschedulePolicy, type),
    Update: updateOf(raw.Update, type, jobUpdate),
    Disconnect: disconnect(raw),
    Migrate: type === 'service' ? filled(MIGRATE, raw.Migrate) : null,
    Tasks: (raw.Tasks ?? []).map((task) => canonicalTask(task, restart)),
  } as Group
}

// What came before `disconnect` means the same.
function disconnect(raw: Partly<Group>): Group['Disconnect'] {
  const { MaxClientDisconnect } = raw as { MaxClientDisconnect?: number | null }
  const block = raw.Disconnect ?? (MaxClientDisconnect ? { LostAfter: MaxClientDisconnect } : null)
  if (block === null) return null
  return filled({ Replace: true, Reconcile: 'best_score', LostAfter: 0 }, block)
}

function canonicalTask(raw: Partly<Task>, restart: RestartPolicy): Task {
  return {
    ...filled(TASK, raw),
    Vault: raw.Vault ? (filled(VAULT, raw.Vault) as Vault) : null,
    Name: raw.Name ?? '',
    Driver: raw.Driver ?? 'dev',
    Config: raw.Config ?? null,
    Lifecycle: raw.Lifecycle ? { Hook: raw.Lifecycle.Hook, Sidecar: raw.Lifecycle.Sidecar ?? false } : null,
    Services: services(raw.Services),
    RestartPolicy: filled(restart, raw.RestartPolicy),
    Meta: raw.Meta ?? null,
    Resources: filled(RESOURCES, raw.Resources),
    Identity: { ...identity(raw.Identity), Name: 'default', Audience: ['nomadproject.io'] },
    Identities: raw.Identities?.map(identity) ?? null,
    Templates: raw.Templates?.map(template) ?? null,
  } as Task
}

function identity(raw: Partly<Identity> | null | undefined): Identity {
  const { Audience, ...said } = filled(IDENTITY, raw) as Identity
  return { ...said, Audience: [...Audience], ChangeMode: said.ChangeMode || (said.Name === 'default' ? '' : 'noop') }
}

function template(raw: Partly<Template>): Template {
  const ChangeScript = raw.ChangeScript ? filled(CHANGE_SCRIPT, raw.ChangeScript) : null
  return { ...filled(TEMPLATE, raw), ChangeScript } as Template
}

function services(raw: readonly Partly<Service>[] | null | undefined): Service[] | null {
  if (raw == null) return null
  return raw.map((service) => {
    const onUpdate = service.OnUpdate || 'require_healthy'
    return {
      ...filled(SERVICE, service),
      Name: service.Name ?? '',
      Provider: service.Provider || 'consul',
      OnUpdate: onUpdate,
      Checks:
        service.Checks?.map((check) => ({
          ...filled(CHECK, check),
          Interval: check.Interval || CHECK.Interval,
          OnUpdate: check.OnUpdate || onUpdate,
        })) ?? null,
    } as Service
  })
}

// A group without an update block has one all the same, unless it is batch (facts §6).
function updateOf(
  raw: Partly<Update> | null | undefined,
  type: Job['Type'],
  job: Partly<Update> | null | undefined,
): Update | null {
  if (type === 'batch' || type === 'sysbatch') return null
  return filled(filled(UPDATE, nonZero(job)), raw)
}

function reschedule(raw: Partly<ReschedulePolicy> | null | undefined, type: Job['Type']): ReschedulePolicy | null {
  if (type === 'system' || type === 'sysbatch') return null
  const base: ReschedulePolicy =
    type === 'batch'
      ? { Attempts: 1, Delay: 5 * SECOND, DelayFunction: 'constant', Interval: 24 * HOUR, MaxDelay: 0, Unlimited: false }
      : { Attempts: 0, Delay: 30 * SECOND, DelayFunction: 'exponential', Interval: 0, MaxDelay: HOUR, Unlimited: true }
  return filled(base, raw)
}

/** The defaults, and what is said instead of them. Of another kind it is refused as by Go, which cannot read it: a duration
 *  in Go style, for example. */
function filled<T extends object>(defaults: T, raw: object | null | undefined): T {
  const said = without(raw)
  for (const [key, value] of Object.entries(said)) {
    const kind = typeof (defaults as Record<string, unknown>)[key]
    if (kind !== 'undefined' && kind !== 'object' && typeof value !== kind) {
      throw new Refusal(400, `json: cannot unmarshal ${JSON.stringify(value)} into Go struct field ${key} of type ${kind}`)
    }
  }
  return { ...defaults, ...said }
}

/** What is really said: fields that are null or undefined are not. */
function without<T extends object>(raw: T | null | undefined): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(raw ?? {}).filter(([, value]) => value != null)) as {
    [K in keyof T]?: NonNullable<T[K]>
  }
}

// The job's update block comes back with zeros for what it did not say.
function nonZero(raw: Partly<Update> | null | undefined): Partial<Update> {
  return Object.fromEntries(Object.entries(raw ?? {}).filter(([, value]) => value !== 0 && value !== '' && value != null))
}

/** Whether running allocations must be replaced for the new spec; otherwise they are updated in place. */
export function isDestructive(before: Job, after: Job, group: string): boolean {
  const view = (job: Job): unknown => {
    const { Tasks, Services, Meta } = job.TaskGroups.find((candidate) => candidate.Name === group) ?? {}
    return [Tasks, Services, Meta, job.Meta]
  }
  return !isDeepStrictEqual(view(before), view(after))
}

/** Whether two registrations say the same. */
export function sameSpec(a: Job, b: Job): boolean {
  const spec = (job: Job): unknown => ({ ...job, ...NOT_SPEC })
  return isDeepStrictEqual(spec(a), spec(b))
}

const NOT_SPEC = { Stable: 0, Status: 0, Version: 0, SubmitTime: 0, CreateIndex: 0, ModifyIndex: 0, JobModifyIndex: 0 }
