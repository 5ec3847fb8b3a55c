import type { DevConfig, DevNomadOptions, JobSpec, WorkloadEvent } from '../../src/devnomad/devnomad.ts'
import { DevNomadClient } from '../support/devnomad-client.ts'

const SECOND = 1e9

export interface AllocationView {
  readonly ID: string
  readonly Name: string
  readonly NodeName: string
  readonly DesiredStatus: string
  readonly DesiredDescription: string
  readonly ClientStatus: string
  readonly NextAllocation: string
  readonly FollowupEvalID: string
  readonly JobVersion: number
  readonly DeploymentStatus: { readonly Healthy: boolean } | null
  readonly RescheduleTracker: { readonly Events: readonly { readonly PrevAllocID: string }[] } | null
  readonly TaskStates: Record<
    string,
    {
      readonly State: string
      readonly Restarts: number
      readonly StartedAt: string
      readonly Failed: boolean
      readonly Events: readonly { readonly Type: string; readonly DisplayMessage: string }[]
    }
  > | null
}

/** A job `web` with one group `g`, one task `app` and one Nomad check every two seconds. */
export function webJob(
  more: { count?: number; type?: 'service' | 'batch' | 'system'; config?: DevConfig; meta?: Record<string, string> } = {},
): JobSpec {
  return {
    ID: 'web',
    Type: more.type ?? 'service',
    Meta: more.meta ?? null,
    TaskGroups: [
      {
        Name: 'g',
        Count: more.count ?? 2,
        Update: { MaxParallel: 1, MinHealthyTime: 2 * SECOND, HealthyDeadline: 60 * SECOND, ProgressDeadline: 120 * SECOND },
        RestartPolicy: { Attempts: 1, Delay: 2 * SECOND, Interval: 1_800 * SECOND, Mode: 'fail' },
        ...(more.type === 'system' ? {} : { ReschedulePolicy: { Delay: 5 * SECOND, DelayFunction: 'constant' } }),
        Services: [{ Name: 'web', Provider: 'nomad', Checks: [{ Name: 'up', Type: 'http', Interval: 2 * SECOND }] }],
        Tasks: [{ Name: 'app', Driver: 'dev', Config: { healthy_after: '3s', ...more.config } }],
      },
    ],
  }
}

/** The job `web` with one allocation of these tasks instead of its own; `more` is said of its group. */
export function webJobOf(tasks: readonly object[], more: object = {}): JobSpec {
  const job = webJob({ count: 1 })
  const [group] = job.TaskGroups as [{ Tasks: readonly [object] }]
  return { ...job, TaskGroups: [{ ...group, ...more, Tasks: tasks.map((task) => ({ ...group.Tasks[0], ...task })) }] }
}

/** A template of `.v` in the variable that `set` writes, or in the one below it. */
export const template = (below = ''): string => `{{ with nomadVar "nomad/jobs/web${below}" }}{{ .v }}{{ end }}`

/** The job `web` with these templates. */
export const jobWith = (...templates: readonly object[]): JobSpec => webJobOf([{ Templates: templates }])

/** A cluster on which a job has come up whose templates read what is `1` so far. */
export async function givenRendered(job: JobSpec): Promise<World> {
  const world = await given(job)
  await world.set('1')
  await world.set('1', '/b')
  await world.clock.advance(20_000)
  return world
}

/** A cluster of three nodes, on which the job has come up. */
export async function given(job: JobSpec = webJob()): Promise<World> {
  const world = new World()
  world.nomad.registerJob(job)
  await world.clock.advance(20_000)
  return world
}

export class World extends DevNomadClient {
  readonly events: WorkloadEvent[] = []

  constructor(options: Partial<DevNomadOptions> = {}) {
    super(options)
    this.nomad.observe((event) => this.events.push(event))
  }

  allocations(job = 'web'): Promise<AllocationView[]> {
    return this.get(`/v1/job/${job}/allocations`)
  }

  async running(job = 'web'): Promise<AllocationView[]> {
    return (await this.allocations(job)).filter((one) => one.DesiredStatus === 'run' && one.ClientStatus === 'running')
  }

  async first(): Promise<AllocationView> {
    return (await this.running())[0] as AllocationView
  }

  async again(alloc: AllocationView): Promise<AllocationView> {
    return (await this.allocations()).find((one) => one.ID === alloc.ID) as AllocationView
  }

  set(v: string, below = ''): Promise<unknown> {
    return this.ask('PUT', `/v1/var/nomad/jobs/web${below}`, { Items: { v } })
  }

  read(alloc: AllocationView, name = 'conf'): string | undefined {
    return this.nomad.files(alloc.ID).read(`/app/local/${name}`)
  }

  async restart(alloc: AllocationView): Promise<number> {
    const answer = this.ask('PUT', `/v1/client/allocation/${alloc.ID}/restart`, {})
    await this.clock.advance(100)
    return (await answer).status
  }

  async check(alloc: AllocationView): Promise<{ Status: string; Timestamp: number } | undefined> {
    const results = await this.get<Record<string, { Status: string; Timestamp: number }> | null>(
      `/v1/client/allocation/${alloc.ID}/checks`,
    )
    return Object.values(results ?? {})[0]
  }

  eventsOf(alloc: AllocationView, since = 0): string[] {
    return this.events.filter((one) => one.alloc === alloc.ID && one.at >= since).map((one) => one.event)
  }
}
