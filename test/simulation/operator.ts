import type { Level } from '../../src/core/scope.ts'
import { lock, releaseByForce, resumeSemaphore, unlock } from '../../src/keeper/operate.ts'
import { paths as pathsOf } from '../../src/keeper/paths.ts'
import type { Chance } from './chance.ts'
import type { Cluster } from './cluster.ts'
import { EPOCH } from './host.ts'
import { GROUP, JOB } from './scenery.ts'

const LEVELS: readonly Level[] = [
  {},
  { namespace: 'default' },
  { namespace: 'default', job: JOB },
  { namespace: 'default', job: JOB, group: GROUP },
  { shared: '' },
  { shared: 'docker' },
]

/** A message may be so long under way, and more. */
const UNDER_WAY_MS = 60_000

/** What people do to the service, under way over the network like everything else. The monitor is told what they mean to do. */
export class Operator {
  readonly #cluster: Cluster
  readonly #paths = pathsOf('lockkeeper')
  readonly #trace: (text: string) => void

  constructor(cluster: Cluster, trace: (text: string) => void) {
    this.#cluster = cluster
    this.#trace = trace
  }

  /** Shuts some level. Returns what opens it again. */
  lock(chance: Chance, until: number | null): () => void {
    const level = chance.pick(LEVELS)
    this.#trace(`   on ${JSON.stringify(level)}`)
    const wanted = { level, reason: 'freeze', by: 'ann', until }
    const locked = lock(this.#variables, this.#paths, wanted, here()).then(
      () => true,
      () => false,
    )
    return () => void this.#unlock(level, locked, this.#cluster.timeline.now() + UNDER_WAY_MS)
  }

  /** Until it is gone: an operator tries again, also when the write that had no answer may be under way yet. */
  async #unlock(level: Level, locked: Promise<boolean>, until: number): Promise<void> {
    const { timeline } = this.#cluster
    const isSure = await locked
    await unlock(this.#variables, this.#paths, level, here()).catch((error: { kind?: string }) => {
      if (error.kind === 'unknown_lock' && (isSure || timeline.now() > until)) return
      timeline.after(5_000, () => void this.#unlock(level, locked, until))
    })
  }

  /** All semaphores may go on. */
  resume(): void {
    const { ledger } = this.#cluster.monitor
    for (const [path, { scope }] of ledger.semaphores) {
      ledger.resumed.add(path)
      void resumeSemaphore(this.#variables, this.#paths, scope, 'go on', this.#wall, here()).catch(() => undefined)
    }
  }

  /** Ends some hold. */
  force(chance: Chance): void {
    const { ledger } = this.#cluster.monitor
    const holds = [...ledger.semaphores.values()].flatMap(({ state }) => state.holds)
    if (holds.length === 0) return
    const { id } = chance.pick(holds)
    ledger.forced.add(id)
    void releaseByForce(this.#variables, this.#paths, id, 'it hangs', this.#wall, here()).catch(() => undefined)
  }

  /** Removes the state of some semaphore, with all that is held there. */
  removeState(chance: Chance): void {
    const { ledger } = this.#cluster.monitor
    if (ledger.semaphores.size === 0) return
    const [path, { index, state }] = chance.pick([...ledger.semaphores])
    for (const { id } of state.holds) ledger.forced.add(id)
    void this.#variables.remove(path, index, here()).catch(() => undefined)
  }

  get #variables() {
    return this.#cluster.operator.variables
  }

  readonly #wall = (): number => EPOCH + this.#cluster.timeline.now()
}

const here = (): AbortSignal => new AbortController().signal
