// Room shim: what runs beside a workload and asks before it acts. It starts fast: core, the Clock and Node's own HTTP, nothing of the
// server. Time, chance, signals and the right to send them come in from outside.
// This file: what a shim tells while it works. Texts and JSON are made of these elsewhere.
import type { ErrorKind, WaitKind } from '../core/errors.ts'
import type { Absence } from '../core/unavailable.ts'

/** In the order in which they may come. None ever holds a lease. */
export type ShimEvent =
  | {
      readonly event: 'waiting'
      readonly kind: WaitKind
      readonly detail: string
      /** From 1; null: the service did not say. */
      readonly position: number | null
      readonly waiting: number | null
    }
  | { readonly event: 'unreachable'; readonly kind: ErrorKind; readonly detail: string }
  /** The service was out of reach for as long as it may be: it is acted without a hold, or not at all. */
  | { readonly event: 'unavailable'; readonly did: Absence['lastResort']; readonly kind: ErrorKind; readonly detail: string }
  /** A grant that must not be used any more: it is given up, and asked for again. */
  | { readonly event: 'given_up'; readonly hold: string; readonly detail: string }
  | { readonly event: 'granted'; readonly hold: string; readonly token: number; readonly slot: number; readonly scope: string }
  | { readonly event: 'renew_failed'; readonly hold: string; readonly detail: string }
  | { readonly event: 'started'; readonly command: string; readonly pid: number }
  | { readonly event: 'not_started'; readonly command: string; readonly detail: string }
  | { readonly event: 'lease_lost'; readonly hold: string; readonly detail: string }
  | { readonly event: 'killed'; readonly detail: string }
  | { readonly event: 'exited'; readonly code: number | null; readonly signal: string | null }
  | { readonly event: 'released'; readonly hold: string; readonly outcome: string }
  /** The command is over, but the service did not hear of it, or did not want to. */
  | { readonly event: 'not_released'; readonly hold: string; readonly detail: string }

export type Tell = (event: ShimEvent) => void
