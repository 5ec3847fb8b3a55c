import { mayRun, type Allocation } from '../../core/cluster.ts'
import { textOf } from '../../core/errors.ts'
import type { GroupScope } from '../../core/scope.ts'
import { groupWatch, type GroupWatch } from '../../core/watch.ts'
import type { Clock, Cluster, JobStub, Log } from '../ports.ts'
import type { Pace } from './pace.ts'

const META_KEY = 'lockkeeper_watch'
/** A job whose row in the list stays the same is read again after this. */
const RESYNC_MS = 300_000

/** A group with watched files, and its allocations that are to run. */
export interface WatchedGroup {
  readonly scope: GroupScope
  readonly watch: GroupWatch
  readonly allocations: readonly Allocation[]
}

interface Known {
  readonly version: string
  readonly at: number
  readonly groups: readonly WatchedGroup[]
}

/** The jobs that want files watched: one filtered list for all namespaces (facts §9), and each job only when its row has changed. */
export class WatchedJobs {
  readonly #cluster: Cluster
  readonly #clock: Clock
  readonly #pace: Pace
  readonly #log: Log
  #jobs: ReadonlyMap<string, Known> = new Map()
  /** What keeps jobs from being found; null: nothing. */
  missing: string | null = null

  constructor(cluster: Cluster, clock: Clock, pace: Pace, log: Log) {
    this.#cluster = cluster
    this.#clock = clock
    this.#pace = pace
    this.#log = log
  }

  groups(): WatchedGroup[] {
    return [...this.#jobs.values()].flatMap(({ groups }) => groups)
  }

  /** Never throws: while Nomad does not answer, what was known stays known. */
  async refresh(signal: AbortSignal): Promise<void> {
    const stubs = await this.#list(signal)
    if (stubs === null) return
    const jobs = new Map<string, Known>()
    for (const stub of stubs) {
      const key = JSON.stringify([stub.namespace, stub.id])
      const known = this.#jobs.get(key)
      const read = known !== undefined && this.#isFresh(known, stub) ? known : ((await this.#read(stub, signal)) ?? known)
      if (read !== undefined) jobs.set(key, read)
    }
    if (!signal.aborted) this.#jobs = jobs
  }

  #isFresh({ version, at }: Known, stub: JobStub): boolean {
    return version === stub.version && this.#clock.now() - at < RESYNC_MS
  }

  async #list(signal: AbortSignal): Promise<readonly JobStub[] | null> {
    try {
      await this.#pace.take(1, signal)
      const stubs = await this.#cluster.jobsWithMeta(META_KEY, signal)
      this.missing = null
      return stubs
    } catch (error) {
      if (signal.aborted) return null
      this.missing = `jobs with watched files cannot be found: ${textOf(error)}`
      this.#log.warn({ error: textOf(error) }, 'the jobs with watched files cannot be listed')
      return null
    }
  }

  async #read({ namespace, id, version }: JobStub, signal: AbortSignal): Promise<Known | null> {
    try {
      await this.#pace.take(2, signal)
      const at = this.#clock.now()
      const job = await this.#cluster.job(namespace, id, signal)
      const allocations = await this.#cluster.allocations(namespace, id, signal)
      const groups = (job?.groups ?? []).flatMap((group) => {
        const watch = groupWatch(job as NonNullable<typeof job>, group)
        if (watch.tasks.length === 0 && watch.faults.length === 0) return []
        const scope = { namespace, job: id, group: group.name }
        return [{ scope, watch, allocations: allocations.filter((one) => one.group === group.name && mayRun(one)) }]
      })
      return { version, at, groups }
    } catch (error) {
      if (!signal.aborted) this.#log.warn({ job: id, namespace, error: textOf(error) }, 'a job with watched files cannot be read')
      return null
    }
  }
}
