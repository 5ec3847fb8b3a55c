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
    void lock(this.#variables, this.#paths, wanted, here()).catch(() => undefined)
    return () => void this.#unlock(level)
  }

  /** Until it is gone: an operator tries again. */
  async #unlock(level: Level): Promise<void> {
    await unlock(this.#variables, this.#paths, level, here()).catch((error: { kind?: string }) => {
      if (error.kind !== 'unknown_lock') this.#cluster.timeline.after(1_000, () => void this.#unlock(level))
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
