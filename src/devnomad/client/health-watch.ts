import type { Timers } from '../timers.ts'

export interface HealthRule {
  readonly minHealthyMs: number
  readonly deadlineMs: number
}

/** Decides once whether an allocation became healthy: up without a break for the minimum, before the deadline
 *  (facts §5, Nomad's own rule). */
export class HealthWatch {
  readonly #timers: Timers
  readonly #rule: HealthRule
  readonly #decide: (healthy: boolean) => void
  #cancel: (() => void) | undefined
  #cancelDeadline: () => void

  constructor(timers: Timers, rule: HealthRule, decide: (healthy: boolean) => void) {
    this.#timers = timers
    this.#rule = rule
    this.#decide = decide
    this.#cancelDeadline = timers.after(rule.deadlineMs, () => this.#decided(false))
  }

  /** To be told at every change. */
  saw(state: 'up' | 'down' | 'failed'): void {
    if (state === 'failed') return this.#decided(false)
    if (state === 'down') {
      this.#cancel?.()
      this.#cancel = undefined
    } else {
      this.#cancel ??= this.#timers.after(this.#rule.minHealthyMs, () => this.#decided(true))
    }
  }

  close(): void {
    this.#cancel?.()
    this.#cancelDeadline()
  }

  #decided(healthy: boolean): void {
    this.close()
    this.#decide(healthy)
  }
}
