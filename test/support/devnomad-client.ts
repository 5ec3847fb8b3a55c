import { DevNomad, type Answer, type DevNomadOptions } from '../../src/devnomad/devnomad.ts'
import { ManualClock, settle } from './manual-clock.ts'
import { sequentialIds } from './sequential-ids.ts'

/** A devnomad in virtual time, without sockets, and what tests ask it. */
export class DevNomadClient {
  readonly clock = new ManualClock()
  readonly nomad: DevNomad

  constructor(options: Partial<DevNomadOptions> = {}) {
    this.nomad = new DevNomad({ clock: this.clock, newId: sequentialIds(), ...options })
  }

  ask(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Answer> {
    return this.nomad.handle({
      method,
      path,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    })
  }

  async get<T>(path: string): Promise<T> {
    return JSON.parse((await this.ask('GET', path)).body) as T
  }

  /** Closes it; fails when a timer is left. */
  async close(): Promise<void> {
    this.nomad.close()
    await settle()
    if (this.clock.pending > 0) throw new Error(`${this.clock.pending} timers are left`)
  }
}

/** Whether a promise has come to an end by now. */
export async function isOver(work: Promise<unknown>): Promise<boolean> {
  let over = false
  const end = (): void => {
    over = true
  }
  work.then(end, end)
  await settle()
  return over
}
