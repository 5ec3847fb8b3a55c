import { appendFile, readFile, rename, rm, stat } from 'node:fs/promises'
import { ERRORS, kindOf } from '../core/errors.ts'
import { isOutOfReach, ON_UNAVAILABLE, type OnUnavailable } from '../core/unavailable.ts'
import type { Clock, NewId } from '../keeper/ports.ts'
import { problemOf } from './answers.ts'
import type { ServiceClient } from './client.ts'
import type { ShimEvent, Tell } from './events.ts'

export interface AbsenceDeps {
  readonly client: ServiceClient
  readonly clock: Clock
  readonly newId: NewId
  readonly allocation: string | undefined
  /** Where is noted what could not be reported: the next process of this task reports it. null: nowhere. */
  readonly file: string | null
}

const BOUND_MS = 1_000
/** Bytes: a service that stays away for ever must not fill a disk. */
const MOST_NOTED = 10_000

/** What this process did while the service was out of reach, for the figures of the service.
 *  A figure, no ledger: a report whose answer is lost is counted twice, and what was noted goes with its allocation. */
export class Absences {
  readonly #deps: AbsenceDeps
  #did: OnUnavailable | null = null

  constructor(deps: AbsenceDeps) {
    this.#deps = deps
  }

  /** Hands on what is told, and takes from it what there will be to report. */
  listen(tell: Tell): Tell {
    return (event) => {
      this.#see(event)
      tell(event)
    }
  }

  /** Reports what there is, in one call that may take a second; what cannot be reported is noted. Never throws. */
  async report(): Promise<void> {
    const { file } = this.#deps
    const words = await this.#taken()
    if (this.#did !== null) words.push(this.#did)
    if (words.length === 0) return
    try {
      await this.#send(words)
    } catch (error) {
      // A service that knows no such report is not told the same for ever.
      if (file !== null && (kindOf(error) === 'internal' || ERRORS[kindOf(error)].retry)) await note(file, words)
    }
  }

  async #send(words: readonly string[]): Promise<void> {
    const { client, clock, allocation } = this.#deps
    const counts = ON_UNAVAILABLE.map((one) => [one, words.filter((word) => word === one).length] as const)
    const unavailable = Object.fromEntries(counts.filter(([, times]) => times > 0))
    const body = { ...(allocation === undefined ? {} : { allocation }), unavailable }
    const answer = await clock.within(BOUND_MS, undefined, (signal) =>
      client.call({ method: 'POST', path: '/v1/reports', body, boundMs: BOUND_MS }, signal),
    )
    if (answer.status !== 200) throw problemOf(answer, 'the address of the service')
  }

  #see(event: ShimEvent): void {
    if (event.event === 'unavailable') this.#did = event.did
    else if (event.event === 'unreachable' && isOutOfReach(event)) this.#did ??= 'wait'
  }

  /** What earlier processes noted. It is taken away first, so that no two of us report it. */
  async #taken(): Promise<string[]> {
    const { file, newId } = this.#deps
    if (file === null) return []
    const ours = `${file}-${newId()}`
    try {
      await rename(file, ours)
      const text = await readFile(ours, 'utf8')
      await rm(ours)
      return text.split('\n').filter((word) => ON_UNAVAILABLE.some((one) => one === word))
    } catch {
      return []
    }
  }
}

async function note(file: string, words: readonly string[]): Promise<void> {
  try {
    const size = await stat(file).then(
      (found) => found.size,
      () => 0,
    )
    if (size < MOST_NOTED) await appendFile(file, `${words.join('\n')}\n`)
  } catch {
    // A folder that is not ours to write: the log has told it.
  }
}
