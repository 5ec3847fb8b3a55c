import type { GroupSpec, Job, TaskSpec, TemplateSpec } from '../core/cluster.ts'
import type { Shape } from './shape.ts'

export function jobOf(from: Shape): Job {
  return {
    id: from.text('ID'),
    namespace: from.text('Namespace'),
    type: from.oneOf('Type', ['service', 'system', 'batch', 'sysbatch']),
    version: from.count('Version'),
    stopped: from.flag('Stop'),
    meta: from.texts('Meta'),
    groups: from.list('TaskGroups').map(groupOf),
  }
}

function groupOf(from: Shape): GroupSpec {
  return {
    name: from.text('Name'),
    count: from.count('Count'),
    meta: from.texts('Meta'),
    update: updateOf(from.object('Update')),
    tasks: from.list('Tasks').map(taskOf),
    healthinessChecks: healthinessChecks(from),
  }
}

/** Durations of a job are nanoseconds (facts §6). A batch group has no update block. */
function updateOf(from: Shape | null): GroupSpec['update'] {
  if (from === null) return null
  return {
    maxParallel: from.count('MaxParallel'),
    minHealthyTime: from.count('MinHealthyTime') / 1e6,
    healthyDeadline: from.count('HealthyDeadline') / 1e6,
    healthCheck: from.text('HealthCheck'),
  }
}

/** A lifecycle task that is no sidecar (prestart, poststart, poststop) finishes by design (facts §5). */
function taskOf(from: Shape): TaskSpec {
  const lifecycle = from.object('Lifecycle')
  const role = lifecycle === null ? 'main' : lifecycle.flag('Sidecar') ? 'sidecar' : 'once'
  return { name: from.text('Name'), role, meta: from.texts('Meta'), templates: from.list('Templates').map(templateOf) }
}

/** The variables are put in by the client, so they stand in the job as they were written. */
function templateOf(from: Shape): TemplateSpec {
  const path = from
    .text('DestPath')
    .replace('${NOMAD_TASK_DIR}', 'local')
    .replace('${NOMAD_SECRETS_DIR}', 'secrets')
    .replace(/^\/+/, '')
  return { path, env: from.flag('Envvars'), changeMode: from.text('ChangeMode') }
}

/** What makes a check of Nomad's own another one than the next: the client keeps one result for each of these, so two services
 *  that repeat a check show one (source: structs.NomadCheckID; allocation and group are the same here). */
const IDENTITY = [
  'Name',
  'Type',
  'PortLabel',
  'OnUpdate',
  'AddressMode',
  'Interval',
  'Timeout',
  'Protocol',
  'Path',
  'Method',
  'TLSSkipVerify',
]

/** Every check of provider `nomad` counts but those with `on_update = "ignore"`, which are readiness (source:
 *  structs.GetCheckMode). `ignore_warnings` is refused for them at registration (source: validateNomad). */
function healthinessChecks(group: Shape): number {
  const found = new Set<string>()
  const add = (task: string, holder: Shape) => {
    for (const service of holder.list('Services')) {
      if (service.optional('Provider') !== 'nomad') continue
      for (const check of service.list('Checks')) {
        if (check.optional('OnUpdate') === 'ignore') continue
        const owner = check.optional('TaskName') ?? ''
        found.add(JSON.stringify([owner === '' ? task : owner, ...IDENTITY.map((key) => check.optional(key))]))
      }
    }
  }
  add('', group)
  for (const task of group.list('Tasks')) add(task.text('Name'), task)
  return found.size
}
