// The changes that are wanted of one semaphore. All that are there when it writes go into one write (group commit).
import { Problem } from '../core/errors.ts'
import type { Policy } from '../core/policy.ts'
import type { State } from '../core/state.ts'
import type { Clock } from './ports.ts'

/** Applied to whatever is stored by then; the very same state: it does not apply (see core/semaphore). */
export type Change = (state: State, policy: Policy, now: number) => State

export interface Committed {
  readonly state: State
  readonly index: number
  /** False: it did not apply to the state, read after it was asked for. */
  readonly changed: boolean
}

export type Commit = (change: Change, signal?: AbortSignal) => Promise<Committed>

interface Wanted {
  readonly change: Change
  readonly at: number
  readonly done: (result: Committed) => void
  readonly fail: (error: unknown) => void
}

/** Those of one attempt to write, applied. */
export interface Applied {
  readonly state: State
  /** Whether some that do not apply were asked for after the state was read: that must not be told, only read anew. */
  readonly unproved: boolean
  /** They are written: everybody is told. */
  settle(state: State, index: number): void
}

export class Changes {
  readonly #clock: Clock
  readonly #wake: () => void
  #wanted: readonly Wanted[] = []

  constructor(clock: Clock, wake: () => void) {
    this.#clock = clock
    this.#wake = wake
  }

  get size(): number {
    return this.#wanted.length
  }

  /** Resolves when the change is written, or when the state, read after this call, shows that it does not apply. When the signal
   *  aborts first it rejects: the change may be on its way, and may be asked for again. */
  commit(change: Change, signal?: AbortSignal): Promise<Committed> {
    return new Promise((resolve, reject) => {
      const ended = (tell: () => void) => {
        signal?.removeEventListener('abort', giveUp)
        this.#wanted = this.#wanted.filter((other) => other !== wanted)
        tell()
      }
      const wanted: Wanted = {
        change,
        at: this.#clock.now(),
        done: (result) => ended(() => resolve(result)),
        fail: (error) => ended(() => reject(error)),
      }
      const giveUp = () =>
        wanted.fail(
          new Problem('nomad_unavailable', 'Nomad gives no answer; the change may be on its way, and may be asked for again'),
        )
      if (signal?.aborted === true) return giveUp()
      signal?.addEventListener('abort', giveUp, { once: true })
      this.#wanted = [...this.#wanted, wanted]
      this.#wake()
    })
  }

  /** They stay wanted until they are settled: an attempt that fails is simply made again. `readAt`: when the state was read. */
  apply(before: State, readAt: number, policy: Policy, now: number): Applied {
    const tried = this.#wanted.map((wanted) => ({ wanted, changed: false }))
    let state = before
    for (const one of tried) {
      const after = one.wanted.change(state, policy, now)
      one.changed = after !== state
      state = after
    }
    return {
      state,
      unproved: tried.some(({ wanted, changed }) => !changed && wanted.at > readAt),
      settle(written, index) {
        for (const { wanted, changed } of tried) wanted.done({ state: written, index, changed })
      },
    }
  }

  fail(error: unknown): void {
    for (const wanted of this.#wanted) wanted.fail(error)
  }
}
