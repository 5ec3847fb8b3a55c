import type { DevNomad, WorkloadEvent } from '../../src/devnomad/devnomad.ts'
import type { Allocation } from '../../src/core/cluster.ts'
import { allocationOf } from '../../src/nomad/allocations.ts'
import { shapes } from '../../src/nomad/shape.ts'

/** A stretch of true time; `to` null: it goes on. */
export interface Stretch {
  readonly from: number
  to: number | null
}

/** What is truly so with one allocation, whatever the servers see. */
export interface Process {
  /** When all its tasks ran. One that was told to stop does not run any more. */
  readonly up: Stretch[]
  /** When its main task would pass its check. */
  readonly healthy: Stretch[]
  /** Since when one of its processes is not there; null: all are. */
  downSince: number | null
  readonly running: Set<string>
  /** When each task began to run last. */
  readonly started: Map<string, number>
}

/** The true world of workloads, told by them and not by the servers. */
export class Truth {
  readonly #nomad: DevNomad
  readonly #processes = new Map<string, Process>()
  readonly #now: () => number
  readonly #tasks: readonly string[]

  constructor(nomad: DevNomad, tasks: readonly string[], now: () => number) {
    this.#nomad = nomad
    this.#tasks = tasks
    this.#now = now
    nomad.observe((event) => this.#saw(event))
  }

  /** Undefined: it never started. */
  of(alloc: string): Process | undefined {
    return this.#processes.get(alloc)
  }

  /** The allocations of a job as the servers know them this moment, without lag on the way; none when all is over. */
  async allocations(job: string): Promise<Allocation[]> {
    const request = { method: 'GET', path: `/v1/job/${job}/allocations?all=true&stale=true` }
    const answer = await this.#nomad.handle(request).catch(() => null)
    if (answer?.status !== 200) return []
    return shapes(JSON.parse(answer.body), 'truth').map(allocationOf)
  }

  #saw({ alloc, task, event }: WorkloadEvent): void {
    const at = this.#now()
    const process: Process = this.#processes.get(alloc) ?? {
      up: [],
      healthy: [],
      downSince: at,
      running: new Set(),
      started: new Map(),
    }
    this.#processes.set(alloc, process)
    const isMain = task === this.#tasks[0]
    if (event === 'running') {
      process.started.set(task, at)
      process.running.add(task)
      if (process.running.size < this.#tasks.length) return
      process.up.push({ from: at, to: null })
      process.downSince = null
    } else if (event === 'healthy') {
      if (isMain) process.healthy.push({ from: at, to: null })
    } else if (event !== 'starting') {
      if (isMain) end(process.healthy, at)
      if (event === 'unhealthy') return
      end(process.up, at)
      process.running.delete(task)
      // One that was told to stop runs on for a while, and Nomad shows it running.
      if (event === 'dead') process.downSince ??= at
    }
  }
}

/** When both hold. */
export function both(some: readonly Stretch[], others: readonly Stretch[]): Stretch[] {
  return some.flatMap((one) =>
    others
      .map((other) => ({ from: Math.max(one.from, other.from), to: earlier(one.to, other.to) }))
      .filter(({ from, to }) => to === null || from < to),
  )
}

function earlier(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.min(a, b)
}

function end(stretches: Stretch[], at: number): void {
  const last = stretches.at(-1)
  if (last?.to === null) last.to = at
  // What is long over proves nothing any more.
  if (stretches.length > 60) stretches.shift()
}

/** The unit and all that replaced it. */
export function chainOf(unit: string, allocations: readonly Allocation[]): Allocation[] {
  const byId = new Map(allocations.map((allocation) => [allocation.id, allocation]))
  const chain: Allocation[] = []
  let next = byId.get(unit)
  while (next !== undefined && !chain.includes(next)) {
    chain.push(next)
    next = next.next === null ? undefined : byId.get(next.next)
  }
  // What was placed after a wait for room names no predecessor: it has the same name, which all of a system job have.
  const last = chain.at(-1)
  if (last === undefined) return chain
  const same = allocations.filter(({ name }) => name === last.name)
  const isSystem = new Set(same.map(({ createIndex }) => createIndex)).size < same.length
  return [...chain, ...same.filter((one) => one.createIndex > last.createIndex && (!isSystem || one.node === last.node))]
}
