import type { ErrorKind } from './errors.ts'

/** What a shim does while nobody can be asked: it waits, acts at a moment of its own, acts at once, or does not act. */
export const ON_UNAVAILABLE = ['wait', 'jitter', 'proceed', 'skip'] as const
export type OnUnavailable = (typeof ON_UNAVAILABLE)[number]

export interface UnavailablePolicy {
  readonly onUnavailable: OnUnavailable
  /** Of `wait`: how long, and what is done after it. */
  readonly waitMs: number
  readonly lastResort: Exclude<OnUnavailable, 'wait'>
  /** Of `jitter`. */
  readonly windowMs: number
  readonly index: number
}

/** A policy in force: the service may be out of reach for `waitMs` as far as the asker's patience goes, and then for `jitterMs`. */
export interface Absence {
  readonly waitMs: number
  readonly jitterMs: number
  readonly lastResort: Exclude<OnUnavailable, 'wait'>
}

/** `jitter` is a wait as well, so a service that is back before an allocation's moment has come decides as ever. */
export function absenceOf({ onUnavailable, waitMs, lastResort, windowMs, index }: UnavailablePolicy): Absence {
  const last = onUnavailable === 'wait' ? lastResort : onUnavailable
  return {
    waitMs: onUnavailable === 'wait' ? waitMs : 0,
    jitterMs: last === 'jitter' ? jitterMs(index, windowMs) : 0,
    lastResort: last,
  }
}

const GOLDEN_RATIO = 0.618_033_988_749_895

/** The moment of an allocation within the window. It depends on its index alone, so it is the same for each action and on each run
 *  (C3.3). Multiples of the golden ratio lie evenly in the window, however many allocations there are.
 *  Hole: in a system job every allocation has the index 0. */
export function jitterMs(index: number, windowMs: number): number {
  return Math.round(((index * GOLDEN_RATIO) % 1) * windowMs)
}

/** Whether it means that nobody could be asked. A replica that has too much to do, or shuts down, is there: to act all the same would
 *  hit it when it can bear least. */
export function isOutOfReach({ kind }: { readonly kind: ErrorKind }): boolean {
  return kind === 'service_unavailable' || kind === 'nomad_unavailable' || kind === 'nomad_denied'
}
