import type { Timers } from '../timers.ts'
import type { Behaviour } from './dev-config.ts'

/** Whether a process would pass its checks: some time after its start, unless its config says that it never does. */
export class ProcessHealth {
  readonly #seams: { timers: Timers; now: () => number; tell: (event: 'healthy' | 'unhealthy') => void }
  #healthy = false
  #startedAt = 0
  #cancel: () => void = () => {}

  constructor(seams: { timers: Timers; now: () => number; tell: (event: 'healthy' | 'unhealthy') => void }) {
    this.#seams = seams
  }

  get healthy(): boolean {
    return this.#healthy
  }

  started(behaviour: Behaviour): void {
    this.#startedAt = this.#seams.now()
    this.#healthy = false
    this.reread(behaviour)
  }

  reread({ healthy, healthyAfterMs }: Behaviour): void {
    this.#cancel()
    if (!healthy) {
      this.#healthy = false
      this.#seams.tell('unhealthy')
    } else if (!this.#healthy) {
      const remaining = Math.max(0, this.#startedAt + healthyAfterMs - this.#seams.now())
      this.#cancel = this.#seams.timers.after(remaining, () => {
        this.#healthy = true
        this.#seams.tell('healthy')
      })
    }
  }

  ended(): void {
    this.#cancel()
    this.#healthy = false
  }
}
