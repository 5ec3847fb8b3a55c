import type { JobSpec } from '../../src/devnomad/devnomad.ts'
import type { Keeper } from '../../src/keeper/keeper.ts'
import { Watcher, type WatchedView } from '../../src/keeper/watching/watcher.ts'
import type { WatchRequest } from '../../src/keeper/watching/watched-allocation.ts'
import { jobOfDev, World, type WorldOptions } from './world.ts'

export interface WatchedJob extends WorldOptions {
  /** Of the job itself. */
  readonly jobMeta?: Record<string, string>
  readonly id?: string
  readonly templates?: readonly object[]
  readonly identities?: readonly object[]
}

const TEMPLATE = {
  DestPath: 'secrets/app.env',
  EmbeddedTmpl: '{{ with nomadVar "nomad/jobs/web" }}{{ .v }}{{ end }}',
  ChangeMode: 'noop',
}

/** A job whose task `app` renders `secrets/app.env` from the variable nomad/jobs/web, and wants it watched. */
export function watchedJob(options: WatchedJob = {}): JobSpec {
  const { jobMeta = { lockkeeper_watch: 'secrets/app.env' }, templates = [TEMPLATE], identities = [] } = options
  const job = jobOfDev({ checks: false, ...options }, options.id ?? 'web')
  const groups = (job.TaskGroups as { Tasks: object[] }[]).map((group) => ({
    ...group,
    Tasks: group.Tasks.map((task) => ({ ...task, Templates: templates, Identities: identities })),
  }))
  return { ...job, Meta: jobMeta, TaskGroups: groups }
}

/** A world whose replicas watch files. What they ask for is written down, and done at once if `acts`. */
export class WatchingWorld extends World {
  readonly asked: WatchRequest[] = []
  readonly watchers = new Map<Keeper, Watcher>()
  readonly #managed: boolean
  /** What becomes of a request: an act, after which it is over; by default a restart. */
  act: (request: WatchRequest) => Promise<void> = async ({ allocation, action }) => {
    if (action === 'restart')
      await this.nomad.handle({ method: 'PUT', path: `/v1/client/allocation/${allocation}/restart`, body: '{}' })
  }

  /** `managed`: what is asked for is a managed request of the replica. */
  constructor({ managed = false } = {}) {
    super()
    this.#managed = managed
  }

  async set(v: string, path = 'nomad/jobs/web'): Promise<void> {
    const body = JSON.stringify({ Path: path, Items: { v } })
    const { status } = await this.soon(this.nomad.handle({ method: 'PUT', path: `/v1/var/${path}`, body }))
    if (status !== 200) throw new Error(`the variable was not written: ${status}`)
  }

  /** The job runs, for a quarter of an hour already. */
  async withWatched(options: WatchedJob = {}): Promise<string[]> {
    const { id = 'web', allocations = 3 } = options
    await this.set('1')
    this.nomad.registerJob(watchedJob({ allocations, ...options }))
    await this.until(async () => {
      const all = await this.cluster.allocations('default', id)
      return all.filter(({ client }) => client === 'running').length === allocations
    })
    await this.until(async () => !(await this.cluster.deploying('default', id)), 600_000)
    await this.clock.advance(15 * 60_000)
    return await this.allocations(id)
  }

  async watcher(keeper?: Keeper): Promise<Watcher> {
    const replica = keeper ?? (await this.replica())
    const watcher = new Watcher({
      ...this.portsOf(replica),
      meter: { count: () => undefined },
      paths: replica.paths,
      replica: replica.replica,
      snapshot: () => replica.registry.snapshot,
      request: async (request, signal) => {
        this.asked.push(request)
        if (this.#managed) return await replica.requests.put(request, signal)
        await this.act(request)
        return { kind: 'stored' }
      },
    })
    this.watchers.set(replica, watcher)
    watcher.start()
    return watcher
  }

  override async kill(keeper: Keeper): Promise<void> {
    const watcher = this.watchers.get(keeper)
    this.watchers.delete(keeper)
    const ended = watcher?.stop()
    await super.kill(keeper)
    if (ended !== undefined) await this.soon(ended)
  }

  override async close(): Promise<void> {
    for (const watcher of this.watchers.values()) await this.soon(watcher.stop())
    await super.close()
  }

  async statusOf(watcher: Watcher, allocation: string): Promise<string> {
    const { groups } = await this.seen(watcher)
    const found = groups.flatMap(({ allocations }) => allocations).find((one) => one.allocation === allocation)
    return found === undefined ? 'not watched' : `${found.state} ${found.detail}`.trim()
  }

  async seen(watcher: Watcher): Promise<{ groups: WatchedView[]; missing: string[] }> {
    return await this.soon(watcher.watched({}, new AbortController().signal))
  }

  /** How many of the watched allocations run with their current files. */
  async converged(watcher: Watcher): Promise<string> {
    const all = (await this.seen(watcher)).groups.flatMap(({ allocations }) => allocations)
    return `${all.filter(({ state }) => state === 'current').length} of ${all.length}`
  }
}
