// What is asked for, what is answered. The words of `POST /v1/holds`.
import type { Wait } from '../core/admission.ts'
import type { Scope } from '../core/scope.ts'
import type { Action, Hold } from '../core/state.ts'

export interface Ask {
  readonly scope: Scope
  /** An allocation's ID; in a shared semaphore any text. */
  readonly unit: string
  readonly place: string
  /** Random, one per asking process. */
  readonly key: string
  readonly tasks: readonly string[]
  readonly action: Action
  readonly reason: string
  readonly actor: string
  readonly priority: number
  readonly deadline: number | null
}

export interface Granted {
  readonly kind: 'granted'
  readonly scope: Scope
  readonly hold: Hold
  /** The secret of the lease: the lock ID. Only the holder is ever told. */
  readonly lease: string
}

export interface Waiting {
  readonly kind: 'waiting'
  readonly wait: Wait
  /** From 1. */
  readonly position: number
  /** How many wait in all. */
  readonly waiting: number
  readonly holds: readonly Hold[]
}

/** Started after what was asked for: there is nothing to do. */
export interface SatisfiedAsk {
  readonly kind: 'satisfied'
}

export type Answer = Granted | Waiting | SatisfiedAsk
