// Nomad as the judge sees it: whichever server answers.
import { setTimeout as sleep } from 'node:timers/promises'

export interface Answer {
  readonly status: number
  readonly body: unknown
  readonly index: number
}

export class Nomad {
  readonly addresses: readonly string[]
  readonly token: string | null
  #current = 0

  constructor(addresses: readonly string[], token: string | null) {
    this.addresses = addresses
    this.token = token
  }

  /** Asks one server after another until one gives an answer that is none of its troubles, for a minute. */
  async ask(method: string, path: string, body?: object, boundMs = 4_000): Promise<Answer> {
    const endsAt = Date.now() + 60_000
    for (;;) {
      const answer = await this.at(this.#current, method, path, body, boundMs)
      if (answer !== null && answer.status < 500) return answer
      if (Date.now() > endsAt) throw new Error(`Nomad does not answer ${method} ${path}: ${JSON.stringify(answer)}`)
      this.#current = (this.#current + 1) % this.addresses.length
      await sleep(200)
    }
  }

  /** Asks one server. Null: no answer. */
  async at(nth: number, method: string, path: string, body?: object, boundMs = 2_000): Promise<Answer | null> {
    try {
      const headers: Record<string, string> = this.token === null ? {} : { 'x-nomad-token': this.token }
      const sent = body === undefined ? {} : { body: JSON.stringify(body) }
      const signal = AbortSignal.timeout(boundMs)
      const answer = await fetch(`${this.addresses[nth]}${path}`, { method, headers, signal, ...sent })
      const text = await answer.text()
      return { status: answer.status, body: json(text), index: Number(answer.headers.get('x-nomad-index') ?? 0) }
    } catch {
      return null
    }
  }
}

function json(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
