// Which units of a group are up, and which places are not: down for whatever reason, or missing against the count.
import type { Allocation, GroupSpec, Job, Node } from './cluster.ts'

/** One allocation that should run. `place` is the same for its replacement. */
export interface Unit {
  readonly id: string
  readonly place: string
  readonly up: boolean
  /** Why it is not up, for people. */
  readonly why: string
  /** When the newest of its tasks was started, on its host's clock; null: none was. */
  readonly startedAt: number | null
}

export interface GroupView {
  readonly units: readonly Unit[]
  /** Places that are not up, with the reason. A missing allocation has the place where Nomad would put it: held or failed
   *  there, it counts once. */
  readonly down: ReadonlyMap<string, string>
}

/** A group that nobody looks at: a shared semaphore has no budget of units. */
export const NO_GROUP: GroupView = { units: [], down: new Map() }

/** What is up in a group. `nodes` are needed for system jobs only: nodes that are down or not eligible do not count there. */
export function groupView(job: Job, group: GroupSpec, allocations: readonly Allocation[], nodes: readonly Node[]): GroupView {
  const system = job.type === 'system'
  const away = new Set(system ? nodes.filter(({ status, eligible }) => status !== 'ready' || !eligible).map(({ id }) => id) : [])
  const current = allocations.filter((a) => a.group === group.name && shouldRun(a) && !away.has(a.node))
  const units = current.map((allocation) => {
    const why = whyDown(allocation, group)
    const startedAt = newestStart(allocation, group)
    return { id: allocation.id, place: placeOf(job, allocation), up: why === null, why: why ?? '', startedAt }
  })
  // A node that is away has an old and a new allocation at one place: the place is up when either is.
  const upAt = new Set(units.filter(({ up }) => up).map(({ place }) => place))
  const down = new Map(units.filter(({ place }) => !upAt.has(place)).map(({ place, why }) => [place, why]))
  const there = new Set(units.map(({ place }) => place))
  const missing = system ? 0 : Math.max(0, group.count - there.size)
  const names = Array.from({ length: group.count }, (_, n) => `${job.id}.${group.name}[${n}]`).filter((name) => !there.has(name))
  for (const name of names.slice(0, missing))
    down.set(name, `${name} is missing: ${there.size} of ${group.count} allocations are there`)
  return { units, down }
}

/** Where an allocation stands: its name, and on a system job, where all have the same name, also its node. */
export function placeOf(job: Job, allocation: Allocation): string {
  return job.type === 'system' ? `${allocation.name}@${allocation.node}` : allocation.name
}

/** Null when the allocation is up as far as the servers see it; else why not. Health checks are the gate's business. */
export function whyDown(allocation: Allocation, group: GroupSpec): string | null {
  const name = `${allocation.name} (${allocation.id.slice(0, 8)})`
  if (allocation.migrating) return `${name} is draining`
  if (allocation.client !== 'running') return `${name} is ${allocation.client}`
  for (const { name: task, role } of group.tasks) {
    if (role === 'once') continue
    const state = allocation.tasks[task]
    if (state === undefined || state.state !== 'running') return `${name}: task ${task} is ${state?.state ?? 'not known'}`
    if (state.failed) return `${name}: task ${task} has failed`
    if (state.stopping) return `${name}: task ${task} was told to stop`
  }
  return null
}

function newestStart(allocation: Allocation, group: GroupSpec): number | null {
  const lasting = group.tasks.filter(({ role }) => role !== 'once')
  const starts = lasting.map(({ name }) => allocation.tasks[name]?.startedAt ?? null).filter((start) => start !== null)
  return starts.length === 0 ? null : Math.max(...starts)
}

/** Whether Nomad wants it to run and it may still do so: it has not ended, or nothing has taken its place yet. */
function shouldRun(allocation: Allocation): boolean {
  if (allocation.desired !== 'run') return false
  if (allocation.client === 'failed') return allocation.next === null
  return allocation.client === 'pending' || allocation.client === 'running' || allocation.client === 'unknown'
}
