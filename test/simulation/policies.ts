import type { Scope } from '../../src/core/scope.ts'
import { isGroupScope } from '../../src/core/scope.ts'

/** What the job said, resolved by whoever wrote the job, not by the product. */
export interface PolicyInForce {
  readonly maxParallel: number
  readonly maxUnavailable: number
  readonly minHealthyMs: number
  /** Whether its checks must pass too. */
  readonly checks: boolean
  readonly waitsForHealth: boolean
}

const SHARED: PolicyInForce = { maxParallel: 1, maxUnavailable: 1, minHealthyMs: 0, checks: false, waitsForHealth: false }

/** Which policy was in force when. */
export class Policies {
  readonly #jobs = new Map<string, { at: number; policy: PolicyInForce }[]>()

  set(job: string, at: number, policy: PolicyInForce): void {
    this.#jobs.set(job, [...(this.#jobs.get(job) ?? []), { at, policy }])
  }

  /** All that were in force at some moment between two times: whoever decided then may have seen any of them. */
  between(scope: Scope, from: number, to: number): PolicyInForce[] {
    if (!isGroupScope(scope)) return [SHARED]
    const all = this.#jobs.get(scope.job) ?? []
    return all.filter(({ at }, n) => at <= to && (all[n + 1]?.at ?? Infinity) >= from).map(({ policy }) => policy)
  }
}
