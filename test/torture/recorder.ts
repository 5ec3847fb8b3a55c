// Follows what is stored of each semaphore. The ring of transitions tells what was committed between two reads.
import { setTimeout as sleep } from 'node:timers/promises'
import type { State, Transition } from '../../src/core/state.ts'
import type { Nomad } from './nomad.ts'

/** One committed transition. It was committed at an index above `after` and not above `index`, and no later than `seenAt`. */
export interface Seen extends Transition {
  readonly after: number
  readonly index: number
  readonly seenAt: number
}

export interface History {
  /** `group solo`, `shared north`: for people. */
  readonly name: string
  readonly path: string
  readonly maxParallel: number
  readonly shared: boolean
  readonly transitions: Seen[]
  /** Hold IDs by token, as far as they were seen. */
  readonly holds: Map<number, { readonly id: string; readonly unit: string }>
  /** The most holds that one stored state had. */
  mostHolds: number
  /** Transitions that passed unseen: the ring is short. */
  missed: number
  /** What must never be: a history that was rewritten, tokens that fall. */
  readonly faults: string[]
  state: State | null
  index: number
}

interface Variable {
  readonly ModifyIndex: number
  readonly Items: Readonly<Record<string, string>>
}

export class Recorder {
  readonly histories: readonly History[]
  readonly #nomad: Nomad
  readonly #over = new AbortController()
  #done: Promise<unknown> = Promise.resolve()

  constructor(nomad: Nomad, semaphores: readonly Pick<History, 'name' | 'path' | 'maxParallel' | 'shared'>[]) {
    this.#nomad = nomad
    this.histories = semaphores.map((one) => ({
      ...one,
      transitions: [],
      holds: new Map(),
      mostHolds: 0,
      missed: 0,
      faults: [],
      state: null,
      index: 0,
    }))
  }

  start(): void {
    this.#done = Promise.all(this.histories.map((history, nth) => this.#follow(history, nth)))
  }

  async stop(): Promise<void> {
    this.#over.abort()
    await this.#done
  }

  get openHolds(): number {
    return this.histories.reduce((sum, { state }) => sum + (state?.holds.length ?? 0), 0)
  }

  async #follow(history: History, nth: number): Promise<void> {
    const { addresses } = this.#nomad
    for (let server = nth; !this.#over.signal.aborted;) {
      const path = `/v1/var/${history.path}?index=${history.index}&wait=2s`
      const answer = await this.#nomad.at(server % addresses.length, 'GET', path, undefined, 4_000)
      if (answer?.status === 200) note(history, answer.body as Variable, Date.now())
      else {
        if (answer?.status !== 404) server++
        await sleep(200)
      }
    }
  }
}

/** A stored version that is newer than all before it. */
export function note(history: History, { ModifyIndex, Items }: Variable, seenAt: number): void {
  if (ModifyIndex <= history.index) return
  const after = history.index
  const before = history.state
  const state = JSON.parse(Items['state'] ?? 'null') as State
  history.index = ModifyIndex
  history.state = state
  history.mostHolds = Math.max(history.mostHolds, state.holds.length)
  if (before !== null && state.grants < before.grants) history.faults.push(`grants fell from ${before.grants} to ${state.grants}`)
  for (const { token, id, unit } of state.holds) {
    const known = history.holds.get(token)
    if (known !== undefined && known.id !== id) history.faults.push(`token ${token} belongs to hold ${known.id} and to ${id}`)
    history.holds.set(token, { id, unit })
  }
  for (const one of state.transitions) noteTransition(history, { ...one, after, index: ModifyIndex, seenAt })
}

function noteTransition(history: History, one: Seen): void {
  const { transitions } = history
  const last = transitions.at(-1)
  if (last === undefined || one.seq > last.seq) {
    if (one.seq > (last?.seq ?? 0) + 1) history.missed += one.seq - (last?.seq ?? 0) - 1
    transitions.push(one)
    return
  }
  const known = transitions.findLast(({ seq }) => seq === one.seq)
  if (known !== undefined && (known.kind !== one.kind || known.token !== one.token || known.at !== one.at))
    history.faults.push(`transition ${one.seq} was ${known.kind} #${known.token} and is ${one.kind} #${one.token}`)
}
