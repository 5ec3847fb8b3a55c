// Room keeper: use cases, ports in and effects out; owns time and concurrency. Knows neither HTTP nor Nomad's URLs.
// This file: what the keeper needs of the world. The room nomad implements it; the simulation does so too.
import type { Workload } from '../core/caller.ts'
import type { Allocation, CheckResult, Job, Node } from '../core/cluster.ts'

/** All time. `now` is monotonic and only its differences mean something; `wall` is for people and deadlines of minutes. */
export interface Clock {
  now(): number
  wall(): number
  /** Resolves after `ms`; rejects with the signal's reason as soon as it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
  /** Calls `run` after `ms`, unless what it answers with is called before. What waits by the thousand needs no signal of its own. */
  after(ms: number, run: () => void): () => void
  /** Runs `work` with a signal that aborts with `signal`'s reason, or after `ms` with a TimeoutError. Leaves no timer behind. */
  within<T>(ms: number, signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T>
}

/** Random UUIDs: lock IDs, lease paths, hold ids. A port, so that a simulation can be repeated. */
export type NewId = () => string

/** Structured logging; no secret, token or lock ID ever goes in. */
export interface Log {
  debug(fields: object, text: string): void
  info(fields: object, text: string): void
  warn(fields: object, text: string): void
  error(fields: object, text: string): void
}

/** Figures that somebody may watch. */
export interface Meter {
  count(
    what:
      | 'grants'
      | 'grants_taken_back'
      | 'cas_conflicts'
      | 'releases'
      | 'leases_lost'
      | 'failures'
      | 'requests_merged'
      | 'watch_requests',
  ): void
}

export interface VariableMeta {
  readonly path: string
  readonly createIndex: number
  readonly modifyIndex: number
}
export interface Variable extends VariableMeta {
  readonly items: Readonly<Record<string, string>>
}

/** Where to wait from: answers when the index has passed `index`, or after `waitMs` at the latest (a hint, never a proof). */
export interface Blocking {
  readonly index: number
  readonly waitMs: number
}

export type Written =
  | { readonly kind: 'written'; readonly index: number; readonly createIndex: number }
  /** The check-and-set failed: `current` is what is there now (null: nothing). The next decision needs no second read. */
  | { readonly kind: 'conflict'; readonly current: Variable | null }
export type Removed =
  { readonly kind: 'removed'; readonly index: number } | { readonly kind: 'conflict'; readonly current: Variable | null }

/** Nomad Variables in the one namespace that the service uses. Everything throws NomadFault when there is no usable answer.
 *  Reads are repeated inside; writes never are, so a lost answer surfaces as `unavailable` with `maybeDone`. */
export interface Variables {
  get(path: string, blocking?: Blocking, signal?: AbortSignal): Promise<{ index: number; variable: Variable | null }>
  /** Metadata of all variables below a prefix (all pages). `index` is that of the whole table: a list with `index` ≥ the
   *  index of a write has seen everything committed before that write (facts §1). Without the right to list: empty, no error. */
  list(prefix: string, blocking?: Blocking, signal?: AbortSignal): Promise<{ index: number; variables: VariableMeta[] }>
  /** `cas`: the ModifyIndex that must still be there; 0 = nothing may be there. */
  put(path: string, items: Readonly<Record<string, string>>, cas: number, signal?: AbortSignal): Promise<Written>
  remove(path: string, cas: number, signal?: AbortSignal): Promise<Removed>
  /** Makes and locks a fresh variable. Called once per path and lock ID (protocol G8). `taken`: somebody else's. */
  acquire(path: string, lock: LeaseLock, items: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<Acquired>
  /** Extends the lock to 2 × TTL from now. `lost`: it is not held under this ID any more, for good. May be repeated. */
  renew(path: string, lockId: string, signal?: AbortSignal): Promise<'renewed' | 'lost'>
  /** `not_held`: nothing to release. May be repeated. */
  release(path: string, lockId: string, signal?: AbortSignal): Promise<Released>
}
export interface LeaseLock {
  readonly id: string
  readonly ttlMs: number
  readonly delayMs: number
}
export type Released = { readonly kind: 'released'; readonly index: number } | { readonly kind: 'not_held' }
export type Acquired = { readonly kind: 'acquired'; readonly index: number } | { readonly kind: 'taken' }

export interface JobStub {
  readonly namespace: string
  readonly id: string
  /** Moves when the job is registered anew, and when the number of its allocations in some state changes. */
  readonly version: string
}

/** Files of an allocation as the client agent shows that runs it: names and times, never what is in them (facts §9). Throws
 *  NomadFault: `unavailable` when that agent gives no answer, `denied` without the right `read-fs`. */
export interface Files {
  /** Null: nothing is there. `path` in the allocation's directory: `/app/secrets/key`. */
  stat(allocation: string, path: string, signal?: AbortSignal): Promise<FileEntry | null>
  /** `too_many`: more than anybody should watch; nothing of it is known then. */
  list(allocation: string, path: string, signal?: AbortSignal): Promise<readonly FileEntry[] | 'too_many' | null>
}
export interface FileEntry {
  readonly name: string
  readonly isDirectory: boolean
  /** Milliseconds since the epoch, on the clock of the allocation's host. */
  readonly mtime: number
}

/** How an act ended that Nomad has answered. `not_running`: nothing was done, the task is between two starts or has ended. `over`: nor
 *  was anything done, the allocation has finished. `refused`: it cannot be done, with why. */
export type Acted = { readonly kind: 'done' | 'not_running' | 'over' } | { readonly kind: 'refused'; readonly why: string }

/** What a replica does to allocations (facts §4). Each is sent at most once, bounded by `boundMs`, and cannot be given up; without an answer it throws
 *  NomadFault with `maybeDone`, and may still be executed until the bound is over. `denied` says that nothing was done. */
export interface Actions {
  /** `task` null: all that run. `done`: the old process has ended; nothing is said about the new one. */
  restart(allocation: string, task: string | null, boundMs: number): Promise<Acted>
  signal(allocation: string, task: string, name: string, boundMs: number): Promise<Acted>
  /** Nomad places a replacement. */
  stop(allocation: string, boundMs: number): Promise<Acted>
}

/** Jobs and allocations. Throws NomadFault; what does not exist is null or empty. Reads are repeated inside. */
export interface Cluster {
  allocation(id: string, signal?: AbortSignal): Promise<Allocation | null>
  job(namespace: string, id: string, signal?: AbortSignal): Promise<Job | null>
  /** All allocations of a job that Nomad still remembers, finished ones too. Asks the leader: not older than the call. */
  allocations(namespace: string, job: string, signal?: AbortSignal): Promise<Allocation[]>
  /** Whether a deployment of the job is active (facts §6). */
  deploying(namespace: string, job: string, signal?: AbortSignal): Promise<boolean>
  /** Why Nomad finds no node for an allocation of this group; null: none waits for one. */
  unplaced(namespace: string, job: string, group: string, signal?: AbortSignal): Promise<string | null>
  /** Results that the allocation's own client agent holds. An answer proves that this agent is there (protocol E6). */
  checks(allocation: string, signal?: AbortSignal): Promise<CheckResult[]>
  nodes(signal?: AbortSignal): Promise<Node[]>
  /** The service and system jobs of all namespaces that the token may see whose own meta has this key: not those of a dispatch or of
   *  a schedule, and none that was stopped. */
  jobsWithMeta(key: string, signal?: AbortSignal): Promise<JobStub[]>
  namespaceExists(name: string, signal?: AbortSignal): Promise<boolean>
}

/** Who a workload is, by the identity that Nomad has signed for it. */
export interface Identities {
  /** Rejects with a Problem: `unauthorized`, or `nomad_unavailable` when it cannot be told. Takes a few seconds at most; the token is
   *  in no text. Where it ends: an identity without an expiry is good for as long as Nomad publishes its key. */
  workload(token: string): Promise<Workload>
}
