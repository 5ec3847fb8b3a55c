// Figures for Prometheus. The only file that knows prom-client, so that another one may take its place.
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry as Figures } from 'prom-client'
import type { State } from './core/state.ts'
import { ON_UNAVAILABLE, type OnUnavailable } from './core/unavailable.ts'
import type { Meter } from './keeper/ports.ts'
import type { Registry } from './keeper/registry.ts'
import type { Watcher } from './keeper/watching/watcher.ts'

type Count = Parameters<Meter['count']>[0]

/** Counted by each replica for itself: what *it* did. Sum them over the replicas. */
const COUNTS: Readonly<Record<Count, string>> = {
  grants: 'Holds that were handed out',
  grants_taken_back: 'Grants that were taken back before anybody was told',
  cas_conflicts: 'Writes that lost a check-and-set, and were decided again',
  releases: 'Holds that their actor released',
  leases_lost: 'Holds whose actor went quiet',
  watch_requests: 'Requests that were made because a watched file had changed',
  requests_merged: 'Managed requests that added nothing to the one that was open',
  failures: 'Units that did not become healthy after their hold',
}
const NOMAD_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
/** A long poll takes up to ten minutes. */
const HTTP_BUCKETS = [...NOMAD_BUCKETS, 60, 300, 600]
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE']
const PHASES = ['acting', 'observing'] as const

export interface Metrics extends Meter {
  observeRequest(route: string, method: string, status: number, ms: number): void
  /** What a shim tells that it did while nobody could be asked. */
  countUnavailable(did: OnUnavailable, times: number): void
  /** Fits the `observe` of the Nomad client. */
  observeNomad(method: string, what: string, outcome: string, ms: number): void
  /** From now on the page shows this replica's semaphores. */
  watch(registry: Registry): void
  /** … and what this replica knows of its share of the watched allocations. */
  watchFiles(watcher: Watcher): void
  page(): Promise<{ readonly contentType: string; readonly text: string }>
}

/** Figures of one replica, in a register of their own. Labels are few and bounded: no job, unit, ID or URL is one. */
export function createMetrics(): Metrics {
  const figures = new Figures()
  const registers = [figures]
  collectDefaultMetrics({ register: figures })
  const counters = new Map(
    Object.entries(COUNTS).map(([what, help]) => [what, new Counter({ name: `lockkeeper_${what}_total`, help, registers })]),
  )
  const unavailable = new Counter({
    name: 'lockkeeper_unavailable_total',
    help: 'What shims did while the service was out of their reach: wait, jitter, proceed (the last two without a hold), skip',
    labelNames: ['did'],
    registers,
  })
  for (const did of ON_UNAVAILABLE) unavailable.inc({ did }, 0)
  const requests = new Histogram({
    name: 'lockkeeper_http_request_duration_seconds',
    help: 'How long requests took to be answered, the time that they waited included',
    labelNames: ['route', 'method', 'status'],
    buckets: HTTP_BUCKETS,
    registers,
  })
  const nomad = new Histogram({
    name: 'lockkeeper_nomad_request_duration_seconds',
    help: 'How long Nomad took to answer, the time that blocking queries waited included',
    labelNames: ['what', 'outcome'],
    buckets: NOMAD_BUCKETS,
    registers,
  })
  return {
    count: (what) => counters.get(what)?.inc(),
    observeRequest(route, method, status, ms) {
      requests.observe({ route, method: METHODS.includes(method) ? method : 'other', status }, ms / 1_000)
    },
    countUnavailable: (did, times) => unavailable.inc({ did }, times),
    observeNomad: (_, what, outcome, ms) => nomad.observe({ what, outcome }, ms / 1_000),
    watch: (registry) => addGauges(registry, registers),
    watchFiles: (watcher) => addWatchGauges(watcher, registers),
    page: async () => ({ contentType: figures.contentType, text: await figures.metrics() }),
  }
}

/** What every replica sees alike, as this one sees it: take the maximum over the replicas, never the sum. */
function addGauges(registry: Registry, registers: Figures[]): void {
  const states = () => registry.all().flatMap(({ stored }) => (stored === null ? [] : [stored.state]))
  const readable = () => states().filter((state): state is State => !('unreadable' in state))
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name: `lockkeeper_${name}`,
      help,
      registers,
      collect() {
        this.set(read())
      },
    })
  new Gauge({
    name: 'lockkeeper_holds',
    help: 'Holds, by phase',
    labelNames: ['phase'],
    registers,
    collect() {
      const holds = readable().flatMap((state) => state.holds)
      for (const phase of PHASES) this.set({ phase }, holds.filter((hold) => hold.phase === phase).length)
    },
  })
  gauge('waiting', 'Open requests', () => registry.all().reduce((sum, semaphore) => sum + semaphore.waiting, 0))
  gauge('semaphores', 'Semaphores with something open', () => registry.all().length)
  gauge('halted', 'Semaphores that are halted after failures', () => readable().filter(({ halted }) => halted !== null).length)
  gauge('unreadable', 'Semaphores whose stored state cannot be read: they are shut', () => states().length - readable().length)
}

/** Each allocation is looked at by one replica: sum them over the replicas. */
function addWatchGauges(watcher: Watcher, registers: Figures[]): void {
  new Gauge({
    name: 'lockkeeper_watched_allocations',
    help: 'Allocations with watched files that this replica looks at, by state; found_out is an alarm',
    labelNames: ['state'],
    registers,
    collect() {
      for (const [state, count] of Object.entries(watcher.counts())) this.set({ state }, count)
    },
  })
  new Gauge({
    name: 'lockkeeper_watch_interval_seconds',
    help: 'Between two looks at one allocation: 30 unless there are too many for 200 calls a second',
    registers,
    collect() {
      this.set(watcher.intervalMs / 1_000)
    },
  })
}
