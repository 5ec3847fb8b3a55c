// What a replica does to allocations, on its way to Nomad: which lease it has by its own clock, and how long each call may be executed.
import type { Answer, Request } from '../../src/devnomad/devnomad.ts'
import type { Actions } from '../../src/keeper/ports.ts'
import type { Chance } from './chance.ts'
import type { Host } from './host.ts'
import type { Act } from './ledger.ts'
import type { Timeline } from './timeline.ts'
import type { Truth } from './truth.ts'

/** An act of a replica under a managed hold. All times are true. */
export interface Errand extends Act {
  readonly host: Host
  /** Null: all that run. */
  readonly task: string | null
  /** Until when the lease of the replica is valid by its own clock, by path. */
  readonly leases: ReadonlyMap<string, number>
  /** After this it is executed no more. */
  readonly until: number
  /** The hold and the lease that it is sent under; empty: none was found. */
  hold: string
  lease: string
  /** What it is asked by: the id of the request, and its ModifyIndex. */
  request: string
  /** Whether its sender was told that it was done, and has not crashed or been paused since. */
  answered: boolean
}

export interface ErrandWatch {
  sent(errand: Errand): void
  executed(errand: Errand): void
}

interface ErrandLinkDeps {
  readonly timeline: Timeline
  readonly chance: Chance
  readonly truth: Truth
  readonly watch: ErrandWatch
  readonly ttlMs: number
  /** How often a call loses its connection at once, and is executed all the same. */
  readonly torn: () => number
  /** A deliberate fault: another bound than the replica's. */
  readonly bound: (ms: number) => number
}

export class ErrandLink {
  readonly #host: Host
  readonly #deps: ErrandLinkDeps
  readonly #leases = new Map<string, number>()
  /** The newest of each path. */
  readonly #calls = new Map<string, Errand>()

  constructor(host: Host, deps: ErrandLinkDeps) {
    this.#host = host
    this.#deps = deps
  }

  /** An answer has reached us. */
  saw({ method, path }: Request, sentAt: number, { status }: Pick<Answer, 'status'>): void {
    if (method !== 'PUT' || status !== 200 || !/lock-(acquire|renew)/.test(path)) return
    this.#leases.set(nameOf(path), sentAt + this.#deps.ttlMs)
  }

  /** The same, each call watched. */
  actions(real: Actions): Actions {
    const bound = (ms: number) => this.#deps.bound(ms)
    return {
      restart: (id, task, ms) => this.#watched('restart', id, task, bound(ms), (within) => real.restart(id, task, within)),
      signal: (id, task, name, ms) =>
        this.#watched('signal', id, task, bound(ms), (within) => real.signal(id, task, name, within)),
      stop: (id, ms) => this.#watched('replace', id, null, bound(ms), (within) => real.stop(id, within)),
    }
  }

  of({ method, path }: Request): Errand | undefined {
    return method === 'PUT' ? this.#calls.get(pathOf(path)) : undefined
  }

  /** When its connection breaks at once, and it arrives nevertheless; null: it does not. */
  tornUntil({ until }: Errand): number | null {
    const { chance, timeline, torn } = this.#deps
    return chance.happens(torn()) ? chance.skewed(1, Math.max(2, until - timeline.now())) : null
  }

  /** It has arrived. Takes effect at once or never: an agent that hangs refuses in the end. */
  async execute(errand: Errand, handle: () => Promise<Answer>): Promise<Answer> {
    const { timeline, truth, watch } = this.#deps
    if (timeline.now() >= errand.until) throw new Error('it came too late')
    watch.executed(errand)
    const running = truth.of(errand.unit)?.up.at(-1)
    const before = running?.to === null ? running : undefined
    const work = handle()
    timeline.after(0, () => {
      if (errand.action === 'restart') errand.effectAt = before?.to ?? null
      errand.inFlight = false
    })
    const answer = await work
    if (answer.status === 200 && errand.action !== 'restart') errand.effectAt = timeline.now()
    return answer
  }

  async #watched<T extends { kind: string }>(
    action: Errand['action'],
    unit: string,
    task: string | null,
    boundMs: number,
    call: (boundMs: number) => Promise<T>,
  ): Promise<T> {
    const { timeline, watch } = this.#deps
    const beganAt = timeline.now()
    const errand: Errand = {
      shim: this.#host.name,
      host: this.#host,
      unit,
      action,
      task,
      beganAt,
      until: beganAt + boundMs,
      leases: this.#leases,
      effectAt: null,
      inFlight: true,
      hold: '',
      lease: '',
      request: '',
      answered: false,
    }
    const verb = action === 'replace' ? `allocation/${unit}/stop` : `client/allocation/${unit}/${action}`
    this.#calls.set(`/v1/${verb}`, errand)
    timeline.after(boundMs, () => (errand.inFlight = false))
    watch.sent(errand)
    const said = await call(boundMs)
    errand.answered = said.kind === 'done'
    return said
  }
}

function pathOf(path: string): string {
  return path.split('?')[0] as string
}

function nameOf(path: string): string {
  return decodeURIComponent(pathOf(path).slice('/v1/var/'.length))
}
