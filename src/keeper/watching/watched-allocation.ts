import { mayRun, type Allocation } from '../../core/cluster.ts'
import { Problem } from '../../core/errors.ts'
import type { TaskWatch } from '../../core/watch.ts'
import { FOUND_OUT, isDatedAhead, judge, type Decision, type SeenFile } from '../../core/watch-decision.ts'
import type { Clock, Cluster, Files, Log, Meter } from '../ports.ts'
import type { WatchedGroup } from './jobs.ts'
import { callsOf, look, type Call, type Sight } from './look.ts'
import type { WatchMemory } from './memory.ts'
import type { Pace } from './pace.ts'

/** What is asked for when a file has changed. */
export interface WatchRequest {
  readonly allocation: string
  readonly task: string
  readonly action: 'restart' | 'signal'
  readonly signal?: string
  readonly reason: string
  /** The date of the newest file, on the unit's own host; missing when no start can be later. */
  readonly since?: number
  readonly watched: true
}

export interface WatchDeps {
  readonly cluster: Cluster
  readonly files: Files
  readonly clock: Clock
  readonly log: Log
  readonly meter: Meter
  readonly pace: Pace
  readonly memory: WatchMemory
  /** Asks for it; asking again for the same unit merges. Rejects with a Problem. */
  readonly request: (request: WatchRequest, signal: AbortSignal) => Promise<{ readonly kind: 'satisfied' | 'stored' }>
  /** Whether a request of the allocation is stored, as a list shows it that was begun at `notBefore` or later; null: no list is. */
  readonly isOpen: (group: WatchedGroup, allocation: string, notBefore: number) => boolean | null
}

/** `current`: it runs with its files as they are. `changed`: it does not, yet. `found_out`: it does not, and no more is done about it. */
export type WatchState = 'current' | 'changed' | 'found_out' | 'unknown'
export interface WatchStatus {
  readonly state: WatchState
  /** For people; empty when it is current. */
  readonly detail: string
}

/** A file is written to its end when it has not changed for so long … */
const QUIET_MS = 5_000
/** … and one that changes all the time is not waited for longer than this. */
const NEVER_QUIET_MS = 120_000
/** What was asked for, and is neither open nor done, is asked for again after this. */
const ASK_AGAIN_MS = 300_000
/** About what a request costs: the allocation, its job, the write. */
const CALLS_OF_REQUEST = 3
const NOT_LOOKED: WatchStatus = { state: 'unknown', detail: 'it has not been looked at yet' }

interface Finding extends Decision {
  readonly watch: TaskWatch
  readonly file: SeenFile
  readonly startedAt: number
}

export class WatchedAllocation {
  readonly #deps: WatchDeps
  readonly #quiet = new Map<string, { mtime: number; since: number }>()
  #group: WatchedGroup
  #allocation: Allocation
  #calls: readonly Call[]
  #unquietSince: number | null = null
  #asked: { readonly what: string; readonly at: number } | null = null
  /** Whether somebody has looked since the request was over. */
  #isFollowed = true
  status: WatchStatus = NOT_LOOKED

  constructor(deps: WatchDeps, group: WatchedGroup, allocation: Allocation) {
    this.#deps = deps
    this.#group = group
    this.#allocation = allocation
    this.#calls = callsOf(group.watch)
  }

  get allocation(): Allocation {
    return this.#allocation
  }
  get group(): WatchedGroup {
    return this.#group
  }
  /** How many calls a look takes. */
  get calls(): number {
    return this.#calls.length
  }

  /** Whether what was asked for is not open any more, and nobody has looked since. */
  get isOver(): boolean {
    return this.#asked !== null && !this.#isFollowed && this.#isOpen(this.#asked.at) === false
  }

  see(group: WatchedGroup, allocation: Allocation): void {
    if (group.watch !== this.#group.watch) this.#calls = callsOf(group.watch)
    this.#group = group
    this.#allocation = allocation
  }

  /** Somebody else looks at it from now on. */
  leave(): void {
    this.status = NOT_LOOKED
    this.#asked = null
    this.#quiet.clear()
    this.#unquietSince = null
  }

  /** One look, and what follows from it. `soonMs`: after so long the next one should follow; null: at its usual turn. */
  async look(signal: AbortSignal): Promise<{ readonly blocked: Sight['blocked']; readonly soonMs: number | null }> {
    const { files, clock, pace } = this.#deps
    if (this.#allocation.client === 'unknown') {
      this.status = { state: 'unknown', detail: 'its client is away' }
      return { blocked: null, soonMs: null }
    }
    if (this.isOver) this.#isFollowed = true
    await pace.take(this.#calls.length, signal)
    const sight = await look(files, clock, this.#allocation.id, this.#calls, signal)
    const soonMs = await this.#follow(sight, signal)
    return { blocked: sight.blocked, soonMs }
  }

  async #follow(sight: Sight, signal: AbortSignal): Promise<number | null> {
    const { memory, cluster, pace } = this.#deps
    const isNewer = this.#running().some(({ watch, startedAt }) =>
      (sight.files.get(watch.task) ?? []).some(({ mtime }) => mtime > startedAt),
    )
    if (!isNewer && !memory.has(this.#allocation.id)) return this.#settle(sight, [])
    let findings = await this.#judge(sight, signal)
    if (this.#isAsked(findings) && this.#isOpen(this.#asked?.at ?? 0) !== false) return this.#settle(sight, findings)
    if (!this.#isQuiet(findings)) return this.#settle(sight, findings, QUIET_MS)
    if (findings.some(({ verdict }) => verdict !== 'current')) {
      // A start that is read after the file was seen: only then does "newer than the start" mean anything.
      await pace.take(1, signal)
      const now = await cluster.allocation(this.#allocation.id, signal)
      if (now === null || !mayRun(now)) return this.#settle(sight, [])
      this.#allocation = now
      findings = await this.#judge(sight, signal)
    }
    const isLate = this.#isAsked(findings) && this.#deps.clock.now() - (this.#asked?.at ?? 0) < ASK_AGAIN_MS
    if (isLate) return this.#settle(sight, findings)
    const isSignal = ({ verdict, watch }: Finding) => verdict === 'changed' && watch.action === 'signal'
    await this.#remember(
      findings.filter((finding) => !isSignal(finding)),
      signal,
    )
    const refused = await this.#ask(findings.filter(isChanged), signal)
    if (refused === null) await this.#remember(findings.filter(isSignal), signal)
    return this.#settle(sight, findings, null, refused)
  }

  /** The watched tasks that have a process now. One that is between two starts will start with what is there. */
  #running(): { watch: TaskWatch; startedAt: number }[] {
    return this.#group.watch.tasks.flatMap((watch) => {
      const task = this.#allocation.tasks[watch.task]
      return task?.state === 'running' && task.startedAt !== null ? [{ watch, startedAt: task.startedAt }] : []
    })
  }

  async #judge(sight: Sight, signal: AbortSignal): Promise<Finding[]> {
    const remembered = await this.#deps.memory.read(this.#allocation.id, signal)
    const wall = this.#deps.clock.wall()
    return this.#running().flatMap(({ watch, startedAt }) =>
      (sight.files.get(watch.task) ?? []).map((file) => {
        const known = remembered.find(({ task, path }) => task === watch.task && path === file.path) ?? null
        return { watch, file, startedAt, ...judge(file, watch, startedAt, known, wall) }
      }),
    )
  }

  /** Whether just this was asked for. */
  #isAsked(findings: readonly Finding[]): boolean {
    const changed = findings.filter(isChanged)
    return changed.length > 0 && this.#asked?.what === whatOf(changed)
  }

  /** Null: no list tells that is as new as that. */
  #isOpen(notBefore: number): boolean | null {
    return this.#deps.isOpen(this.#group, this.#allocation.id, notBefore)
  }

  #isQuiet(findings: readonly Finding[]): boolean {
    const now = this.#deps.clock.now()
    const changed = findings.filter(isChanged)
    if (changed.length === 0) {
      this.#quiet.clear()
      this.#unquietSince = null
      return true
    }
    this.#unquietSince ??= now
    let quiet = true
    for (const { watch, file } of changed) {
      const key = JSON.stringify([watch.task, file.path])
      const last = this.#quiet.get(key)
      if (last?.mtime !== file.mtime) this.#quiet.set(key, { mtime: file.mtime, since: now })
      if (last?.mtime !== file.mtime || now - last.since < QUIET_MS) quiet = false
    }
    return quiet || now - this.#unquietSince >= NEVER_QUIET_MS
  }

  /** One request a task: they are merged, as all asks for one unit are. Null: all are stored; else why one is not. */
  async #ask(changed: readonly Finding[], signal: AbortSignal): Promise<string | null> {
    const { request, meter, clock } = this.#deps
    for (const watch of new Set(changed.map((finding) => finding.watch))) {
      const files = changed.filter((finding) => finding.watch === watch).map(({ file }) => file)
      const dated = files.filter((file) => !isDatedAhead(file, clock.wall())).map(({ mtime }) => mtime)
      const others = files.length === 1 ? '' : ` and ${files.length - 1} more`
      try {
        await this.#deps.pace.take(CALLS_OF_REQUEST, signal)
        const since = dated.length === 0 ? {} : { since: Math.max(...dated) }
        const how = watch.signal === null ? {} : { signal: watch.signal }
        const reason = `${files[0]?.path}${others} changed since ${watch.task} was started`
        const { task, action } = watch
        await request({ allocation: this.#allocation.id, task, action, ...how, reason, ...since, watched: true }, signal)
        meter.count('watch_requests')
      } catch (error) {
        if (!(error instanceof Problem)) throw error
        return error.message
      }
    }
    if (changed.length > 0) {
      this.#asked = { what: whatOf(changed), at: clock.now() }
      this.#isFollowed = false
    }
    return null
  }

  async #remember(findings: readonly Finding[], signal: AbortSignal): Promise<void> {
    const { memory, log } = this.#deps
    const changes = findings.map(({ watch, file, remember }) => ({ task: watch.task, path: file.path, remember }))
    if (changes.length === 0) return
    const before = await memory.read(this.#allocation.id, signal)
    await memory.write(this.#allocation, changes, signal)
    const { id, name } = this.#allocation
    for (const { watch, file } of findings.filter(({ verdict }) => verdict === 'found_out')) {
      const known = before.find(({ task, path }) => task === watch.task && path === file.path)
      if ((known?.times ?? 0) < FOUND_OUT) log.warn({ allocation: id, place: name, file: file.path }, foundOut(file.path))
    }
  }

  #settle(
    sight: Sight,
    findings: readonly Finding[],
    soonMs: number | null = null,
    refused: string | null = null,
  ): number | null {
    this.status = this.#statusOf(sight, findings, refused)
    return soonMs
  }

  #statusOf({ unknown }: Sight, findings: readonly Finding[], refused: string | null): WatchStatus {
    const newer = findings.filter(({ startedAt, file }) => file.mtime > startedAt)
    const changed = newer.filter(isChanged)
    if (changed.length > 0) {
      const names = namesOf(changed)
      return { state: 'changed', detail: refused === null ? `${names} changed` : `${names} changed, but ${refused}` }
    }
    // A signal is remembered as soon as it is asked for.
    if (newer.some(({ verdict }) => verdict === 'current') && this.#isOpen(-Infinity) === true)
      return { state: 'changed', detail: `${namesOf(newer)} changed` }
    const ahead = newer.filter(({ verdict }) => verdict === 'found_out')
    if (ahead.length > 0) return { state: 'found_out', detail: foundOut(namesOf(ahead)) }
    return unknown.length > 0 ? { state: 'unknown', detail: unknown.join('; ') } : { state: 'current', detail: '' }
  }
}

function isChanged({ verdict }: Finding): boolean {
  return verdict === 'changed'
}

function whatOf(changed: readonly Finding[]): string {
  return JSON.stringify(changed.map(({ watch, file, startedAt }) => [watch.task, file.path, file.mtime, startedAt]))
}

function namesOf(findings: readonly Finding[]): string {
  return [...new Set(findings.map(({ file }) => file.path))].join(', ')
}

function foundOut(names: string): string {
  return `${names}: new again after each act, so the task writes it itself or it is dated in the future; no more is done about it`
}
