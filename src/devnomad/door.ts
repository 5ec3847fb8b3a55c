import type { Faults } from './faults.ts'
import { ConnectionLost, json, text, type Answer, type Request } from './http/exchange.ts'
import { split } from './http/router.ts'
import type { Parts } from './parts.ts'
import { LeaderLost } from './raft.ts'

export interface RecordedCall {
  readonly at: number
  readonly method: string
  readonly path: string
  /** 0: the connection broke, or the caller gave up. */
  readonly status: number
}

/** Where requests come in: first the faults that wait for them, then the leader, then the rooms. */
export class Door {
  readonly #parts: Parts
  readonly #faults: Faults
  readonly #now: () => number
  readonly #open = new Set<(error: unknown) => void>()
  #calls: RecordedCall[] = []
  #recorded = 0
  #closed = false

  constructor(parts: Parts, faults: Faults, now: () => number) {
    this.#parts = parts
    this.#faults = faults
    this.#now = now
  }

  get calls(): readonly RecordedCall[] {
    return this.#calls
  }

  record(n: number): void {
    this.#recorded = n
    this.#calls = n === 0 ? [] : this.#calls.slice(-n)
  }

  /** Fails everybody who waits, and everybody who comes. */
  close(): void {
    this.#closed = true
    for (const reject of this.#open) reject(new ConnectionLost())
  }

  async handle(request: Request): Promise<Answer> {
    const at = this.#now()
    let status = 0
    try {
      const answer = await this.#attempt(request)
      status = answer.status
      return answer
    } finally {
      this.#remember({ at, method: request.method, path: request.path, status })
    }
  }

  #attempt(request: Request): Promise<Answer> {
    const { signal } = request
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new ConnectionLost())
      if (signal?.aborted === true) return reject(signal.reason)
      const leave = (): void => reject(signal?.reason)
      const done = (): void => {
        this.#open.delete(reject)
        signal?.removeEventListener('abort', leave)
      }
      this.#open.add(reject)
      signal?.addEventListener('abort', leave, { once: true })
      this.#serve(request).then(resolve, reject).finally(done)
    })
  }

  async #serve(request: Request): Promise<Answer> {
    const fault = this.#faults.take(request)
    if (fault?.kind === 'drop') throw new ConnectionLost()
    if (fault?.kind === 'answer') {
      if (fault.done === true) await this.#led(request)
      return text(fault.status, fault.body)
    }
    if (fault?.kind === 'delay') await this.#parts.timers.wait(fault.ms)
    const answer = await this.#led(request)
    if (fault?.kind === 'drop-answer') throw new ConnectionLost()
    return answer
  }

  // All but the agents' own affairs, and reads that may be stale, needs the leader. Its answers too: one that stalls meanwhile
  // gives them when it goes on.
  async #led(request: Request): Promise<Answer> {
    const { leader } = this.#parts
    const { pathname, query } = split(request.path)
    const stale = request.method === 'GET' && query.has('stale')
    if (/^\/v1\/(client|status|agent)\//.test(pathname) || stale) return this.#routed(request, pathname)
    try {
      await leader.ready()
      const answer = await this.#routed(request, pathname)
      await leader.awake()
      return answer
    } catch (error) {
      if (error instanceof LeaderLost) return text(500, error.message)
      throw error
    }
  }

  #routed(request: Request, pathname: string): Answer | Promise<Answer> {
    const { leader, router } = this.#parts
    if (pathname === '/v1/status/leader' && !leader.leads) return json('')
    return router.answer(leader.answersFromThePast(request) ? { ...request, past: true } : request)
  }

  #remember(call: RecordedCall): void {
    if (this.#recorded === 0) return
    this.#calls.push(call)
    if (this.#calls.length > this.#recorded) this.#calls.shift()
  }
}
