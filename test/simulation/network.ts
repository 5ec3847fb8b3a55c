import type { Chance } from './chance.ts'
import type { Host } from './host.ts'
import type { Timeline } from './timeline.ts'

/** What may happen to a message; probabilities. */
export interface Weather {
  /** It never arrives, and nobody is told. */
  readonly lost: number
  /** The connection breaks instead. */
  readonly broken: number
  /** It takes up to `slowMs` instead of a few milliseconds. */
  readonly slow: number
  readonly slowMs: number
  /** A connection that was closed at one end stays open at the other. */
  readonly halfOpen: number
}

export const FINE: Weather = { lost: 0, broken: 0, slow: 0, slowMs: 50, halfOpen: 0 }
export const USUAL: Weather = { lost: 0.004, broken: 0.006, slow: 0.02, slowMs: 8_000, halfOpen: 0.3 }
export const STORM: Weather = { lost: 0.1, broken: 0.1, slow: 0.3, slowMs: 20_000, halfOpen: 0.5 }

export class Broken extends Error {}

/** Carries requests and answers between hosts; each is late, lost or cut off as chance and weather have it. Requests of one host
 *  overtake each other. */
export class Network {
  weather: Weather = FINE
  /** How many exchanges were begun. */
  sent = 0
  readonly #timeline: Timeline
  readonly #chance: Chance
  /** Hosts that reach nobody, and nobody reaches them. */
  readonly #cut = new Set<Host>()
  readonly #delivered: () => void

  constructor(timeline: Timeline, chance: Chance, delivered: () => void) {
    this.#timeline = timeline
    this.#chance = chance
    this.#delivered = delivered
  }

  cut(host: Host): void {
    this.#cut.add(host)
  }
  mend(host: Host): void {
    this.#cut.delete(host)
  }

  /** One exchange. `serve` is called when the request arrives, at most once; what it was asked to do may be done although the
   *  caller got Broken, or nothing until its `signal` aborted. `server` null: Nomad, which is always there. */
  exchange<T>(client: Host, server: Host | null, signal: AbortSignal, serve: (closed: AbortSignal) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      // The rest of a crashed process says nothing any more.
      if (!client.alive) return
      this.sent++
      const closed = new AbortController()
      const close = (): void => {
        if (!closed.signal.aborted) closed.abort(new Broken('the caller has gone'))
      }
      const end = (tell: () => void): void => {
        signal.removeEventListener('abort', leave)
        client.gone.removeEventListener('abort', hangUp)
        server?.gone.removeEventListener('abort', serverGone)
        tell()
      }
      const hangUp = (): void => {
        // A server that does not notice keeps the exchange open until it answers; Nomad always notices.
        if (server === null || !this.#chance.happens(this.weather.halfOpen)) this.#timeline.after(this.#quick(), close)
      }
      const leave = (): void =>
        end(() => {
          hangUp()
          reject(signal.reason)
        })
      const breakOff = (): void => client.deliver(() => end(() => reject(new Broken('the connection broke'))))
      const serverGone = (): void => {
        if (!this.#chance.happens(this.weather.halfOpen)) this.#timeline.after(this.#quick(), breakOff)
      }
      if (signal.aborted) return reject(signal.reason)
      signal.addEventListener('abort', leave, { once: true })
      client.gone.addEventListener('abort', hangUp, { once: true })
      server?.gone.addEventListener('abort', serverGone, { once: true })

      const arrive = (): void => {
        this.#delivered()
        const answer = (tell: () => void): void => this.#carry(server, client, () => client.deliver(() => end(tell)), breakOff)
        serve(closed.signal).then(
          (value) => answer(() => resolve(value)),
          (error: unknown) => answer(() => reject(error)),
        )
      }
      const enter = server === null ? arrive : () => server.deliver(arrive)
      this.#carry(client, server, enter, breakOff)
    })
  }

  #carry(from: Host | null, to: Host | null, arrive: () => void, breakOff: () => void): void {
    const { weather } = this
    const cut = [from, to].some((host) => host !== null && this.#cut.has(host))
    const fate = this.#chance.next()
    if (cut || fate < weather.lost) return
    if (fate < weather.lost + weather.broken) {
      this.#timeline.after(this.#quick(), breakOff)
      return
    }
    const slow = this.#chance.happens(weather.slow)
    this.#timeline.after(slow ? this.#chance.skewed(10, weather.slowMs) : this.#quick(), arrive)
  }

  #quick(): number {
    return this.#chance.skewed(0.1, 8)
  }
}
