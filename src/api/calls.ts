import type { ServerResponse } from 'node:http'
import { Problem } from '../core/errors.ts'

/** The calls that are open. Each gets a signal that aborts when its caller has gone, or when the replica ends.
 *
 *  Fastify's own `request.signal` is none of that: it aborts as soon as the body of a POST is read (measured). */
export class Calls {
  readonly #open = new Set<AbortController>()
  #refused: Problem | null = null
  #ended = false

  /** From now on nothing new is begun; what is under way goes on. */
  refuse(): void {
    this.#refused = new Problem('shutting_down', 'this replica is shutting down; ask another one')
  }

  /** Why nothing new may be begun; null: it may. */
  get refused(): Problem | null {
    return this.#refused
  }

  /** Aborts all that is under way. */
  end(): void {
    this.refuse()
    this.#ended = true
    for (const control of this.#open) control.abort(this.#refused)
  }

  signalOf(response: ServerResponse): AbortSignal {
    const control = new AbortController()
    const gone = () => {
      this.#open.delete(control)
      if (!response.writableFinished) control.abort(new DOMException('the caller has gone', 'AbortError'))
    }
    if (this.#ended) control.abort(this.#refused)
    else if (response.destroyed) gone()
    else {
      this.#open.add(control)
      response.once('close', gone)
    }
    return control.signal
  }
}
