import { Acl } from './acl/acl.ts'
import { Identities } from './acl/identities.ts'
import { Keyring } from './acl/keyring.ts'
import { chanceFrom } from './chance.ts'
import type { WorkloadEvent } from './client/allocation-run.ts'
import type { DevConfig } from './client/dev-config.ts'
import type { ReadVariable } from './client/template.ts'
import { Cluster } from './cluster/cluster.ts'
import type { Allocation, Task } from './cluster/shapes.ts'
import { Duties } from './duties.ts'
import { EventBuffer } from './events/event-buffer.ts'
import { EventStreams } from './events/event-stream.ts'
import { eventOf } from './events/publish.ts'
import { AclRoutes } from './http/acl-routes.ts'
import { AllocationRoutes } from './http/allocation-routes.ts'
import { EvaluationRoutes } from './http/evaluation-routes.ts'
import { EventRoutes } from './http/event-routes.ts'
import { FileRoutes } from './http/file-routes.ts'
import { JobRoutes } from './http/job-routes.ts'
import { NodeRoutes } from './http/node-routes.ts'
import { Router } from './http/router.ts'
import { SystemRoutes } from './http/system-routes.ts'
import { metadata } from './http/variable-view.ts'
import { VariableRoutes } from './http/variable-routes.ts'
import { Leader } from './leader.ts'
import type { DevNomadOptions } from './options.ts'
import { Raft } from './raft.ts'
import { Timers } from './timers.ts'
import { Variables } from './variables/variables.ts'

/** Everything that a devnomad is made of, wired together. */
export interface Parts {
  readonly timers: Timers
  readonly duties: Duties
  readonly raft: Raft
  readonly variables: Variables
  readonly leader: Leader
  readonly keyring: Keyring
  readonly identities: Identities
  readonly acl: Acl
  readonly cluster: Cluster
  readonly router: Router
  readonly system: SystemRoutes
  readonly events: EventBuffer
  readonly streams: EventStreams
}

export interface Scripts {
  readonly observe: (event: WorkloadEvent) => void
  /** How a task behaves. */
  readonly config: (alloc: Allocation, task: Task) => DevConfig
}

export function assemble(options: DevNomadOptions, scripts: Scripts): Parts {
  const { clock, newId } = options
  const wall = (): number => Math.floor(clock.wall())
  const random = options.random ?? chanceFrom(1)
  const timers = new Timers(clock)
  const duties = new Duties(timers)
  const raft = new Raft(timers, random, options.spuriousWakes)
  const events = new EventBuffer(options.eventBufferSize ?? 100)
  const streams = new EventStreams(events, timers)
  const variables = new Variables(
    raft,
    duties,
    () => wall() * 1e6,
    (variable, Index, Deleted) => {
      const { namespace: Namespace, path: Key } = variable
      const Payload = { Deleted, Metadata: metadata(variable) }
      events.publish({ Topic: 'Variable', Type: 'VariableUpdated', FilterKeys: null, Index, Key, Namespace, Payload })
    },
  )
  const leader = new Leader(timers, duties, raft, variables)
  const keyring = new Keyring(newId)
  raft.commit('keyring')
  const identities = new Identities(keyring, wall, newId, (id) => cluster.state.allocs.get(id))
  const acl = new Acl({ enabled: options.acl ?? false, raft, identities, newId, wall })
  const cluster = new Cluster({
    raft,
    timers,
    now: () => clock.now(),
    wall,
    newId,
    random,
    lagMs: options.lagMs ?? 1_000,
    duties,
    ...scripts,
    written: (written) => events.publish(eventOf(written)),
    variable: (alloc, task, path) => readableBy(alloc, task)(path),
    watchVariables: (listener) =>
      raft.listen((tables) => {
        if (tables.includes('variables') || tables.includes('acl')) void Promise.resolve().then(listener)
      }),
    issue: (alloc, task, identity) => identities.issue(alloc, task, identity),
  })
  const readableBy =
    ({ Namespace, JobID, TaskGroup }: Allocation, task: string): ReadVariable =>
    (path) => {
      const rights = acl.rightsOfWorkload({ namespace: Namespace, job: JobID, group: TaskGroup, task })
      if (!rights.variable(Namespace, path, 'read', true)) return undefined
      return variables.table.get(Namespace, path)?.items ?? undefined
    }
  const allocations = new AllocationRoutes(cluster, raft, timers)
  const system = new SystemRoutes(cluster, raft, newId())
  const router = new Router(acl, {
    acl: new AclRoutes(acl, keyring, raft),
    variables: new VariableRoutes(variables, raft, newId),
    jobs: new JobRoutes(cluster, raft),
    allocations,
    evaluations: new EvaluationRoutes(cluster, raft),
    files: new FileRoutes((call, id) => allocations.files(call, id)),
    nodes: new NodeRoutes(cluster, raft),
    events: new EventRoutes(streams, acl, () => [...cluster.state.namespaces.keys()]),
    system,
  })
  return { timers, duties, raft, variables, leader, keyring, identities, acl, cluster, router, system, events, streams }
}
