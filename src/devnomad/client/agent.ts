import { isTerminal, type Allocation } from '../cluster/shapes.ts'
import { AllocationRun, type ClientReport, type RunSeams } from './allocation-run.ts'

export interface AgentSeams extends Omit<RunSeams, 'changed'> {
  /** How long after a change the servers hear of it: readers see the old state, and then a jump (facts §4). */
  readonly lagMs: number
  /** Tells the servers; false when they cannot listen now. */
  readonly report: (reports: ReadonlyMap<string, ClientReport>) => boolean
}

/** The client agent of one node. `up`: the machine runs; `speaks`: the servers and we can talk to the agent. */
export class Agent {
  readonly name: string
  readonly #seams: AgentSeams
  readonly #runs = new Map<string, AllocationRun>()
  /** The tasks that ran here when the machine died. */
  readonly #disk = new Map<string, ClientReport['tasks']>()
  readonly #dirty = new Set<AllocationRun>()
  readonly #missed = new Set<() => void>()
  #reporting: (() => void) | undefined
  #up = true
  #silence: 'none' | 'refuses' | 'hangs' = 'none'
  #skewMs = 0

  constructor(name: string, seams: AgentSeams) {
    this.name = name
    this.#seams = seams
  }

  /** How it answers calls: an agent that hangs lets its caller wait. */
  get reachable(): 'yes' | 'refuses' | 'hangs' {
    if (!this.#up) return 'refuses'
    return this.#silence === 'none' ? 'yes' : this.#silence
  }

  /** The run of an allocation that is known here. */
  run(id: string): AllocationRun | undefined {
    return this.#runs.get(id)
  }

  get runs(): readonly AllocationRun[] {
    return [...this.#runs.values()]
  }

  /** Brings what runs here in line with what the servers want. */
  sync(wanted: readonly Allocation[]): void {
    if (this.reachable !== 'yes') return
    for (const alloc of wanted) {
      const run = this.#runs.get(alloc.ID)
      // Also what ran here when the machine died: nobody has given it up, so it is started anew (source: client/allocrunner).
      if (run === undefined && !isTerminal(alloc)) this.#start(alloc)
      if (run !== undefined && alloc.DesiredStatus !== 'run') run.stop()
      run?.watchHealth()
    }
    const ids = new Set(wanted.map((alloc) => alloc.ID))
    for (const id of this.#disk.keys()) if (!ids.has(id)) this.#disk.delete(id)
    for (const [id, run] of this.#runs) {
      if (ids.has(id)) continue
      if (run.over) this.#runs.delete(id)
      else run.stop()
    }
  }

  /** The machine dies with all that runs on it. */
  down(): void {
    this.#up = false
    this.#reporting?.()
    this.#reporting = undefined
    this.#dirty.clear()
    for (const [id, run] of this.#runs) {
      this.#disk.set(id, run.report.tasks)
      run.vanish()
    }
    this.#runs.clear()
  }

  up(): void {
    this.#up = true
  }

  /** The machine and its workloads go on, but the agent answers nobody and reports nothing. */
  silence(how: 'refuses' | 'hangs'): void {
    this.#silence = how
  }

  speak(): void {
    this.#silence = 'none'
    for (const look of this.#missed) look()
    this.#missed.clear()
    this.#schedule()
  }

  /** Its process ends; workloads go on. What it had in mind is lost, and the sockets of the tasks are closed (facts §7, §8). */
  stop(): void {
    this.silence('refuses')
    for (const run of this.#runs.values()) run.detach()
  }

  /** It is started again, and takes up what runs here. It is still to `speak`. */
  start(): void {
    for (const run of this.#runs.values()) run.restore()
  }

  /** Its clock goes on from another time: starts, files and checks have their times from it. */
  setClock(skewMs: number): void {
    this.#skewMs = skewMs
  }

  /** Says of everything that runs here how it is, though nothing has changed. */
  tellAll(): void {
    for (const run of this.#runs.values()) this.#dirty.add(run)
    this.#schedule()
  }

  #start(alloc: Allocation): void {
    const watchVariables: RunSeams['watchVariables'] = (listener) =>
      this.#seams.watchVariables(() => (this.reachable === 'yes' ? listener() : void this.#missed.add(listener)))
    const wall = () => this.#seams.wall() + this.#skewMs
    const seams = { ...this.#seams, wall, watchVariables, changed: (changed: AllocationRun) => this.#changed(changed) }
    const run = new AllocationRun(alloc, seams, this.#disk.get(alloc.ID))
    this.#disk.delete(alloc.ID)
    this.#runs.set(alloc.ID, run)
    run.start()
  }

  #changed(run: AllocationRun): void {
    this.#dirty.add(run)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#dirty.size === 0) return
    this.#reporting ??= this.#seams.timers.after(this.#seams.lagMs, () => {
      this.#reporting = undefined
      if (this.reachable !== 'yes') return
      const reports = new Map([...this.#dirty].map((run) => [run.alloc.ID, run.report]))
      if (this.#seams.report(reports)) this.#dirty.clear()
      else this.#schedule()
    })
  }
}
