// The lines of acts and of histories, put together: one story for each act and for each hold.
import type { TransitionKind } from '../../../src/core/state.ts'
import type { Evidence } from '../evidence.ts'
import type { ActLine } from '../journal.ts'
import type { History, Seen } from '../recorder.ts'

export interface Call {
  readonly nth: number
  readonly address: string
  readonly at: number
  /** Null: no answer was seen. */
  answer: { readonly at: number; readonly status: number | null } | null
}

/** One command that ran under a shim. */
export interface Act {
  readonly shim: string
  readonly semaphore: string
  readonly unit: string
  readonly token: number
  readonly hold: string
  readonly beganAt: number
  readonly calls: Call[]
  endedAt: number | null
}

export interface HoldStory {
  readonly token: number
  readonly granted: Seen
  /** Lost, overdue, or released; it is observed from there. */
  actorEnded: Seen | null
  end: Seen | null
}

const ENDS: ReadonlySet<TransitionKind> = new Set(['taken_back', 'healthy', 'unchanged', 'gone', 'failed', 'forced_release'])
const ACTOR_ENDS: ReadonlySet<TransitionKind> = new Set(['released', 'lease_lost', 'overdue'])

export function actsOf({ acts, shims }: Evidence): Act[] {
  const stories = new Map<string, Act>()
  const semaphores = new Map(shims.map(({ name, wish }) => [name, wish.semaphore]))
  for (const line of acts) {
    if (line.event === 'begin') stories.set(line.shim, { ...begun(line), semaphore: semaphores.get(line.shim) ?? '' })
    const story = stories.get(line.shim)
    if (story !== undefined) add(story, line)
  }
  return [...stories.values()]
}

function begun({ shim, unit, token, hold, at }: ActLine & { event: 'begin' }): Omit<Act, 'semaphore'> {
  return { shim, unit, token, hold, beganAt: at, calls: [], endedAt: null }
}

function add(story: Act, line: ActLine): void {
  if (line.event === 'call') story.calls.push({ nth: line.nth, address: line.address, at: line.at, answer: null })
  if (line.event === 'answer') {
    const call = story.calls.find(({ nth }) => nth === line.nth)
    if (call !== undefined) call.answer = { at: line.at, status: line.status }
  }
  if (line.event === 'end' || line.event === 'terminated') story.endedAt = line.at
}

/** By token. In a shared semaphore released is over. */
export function holdsOf({ transitions, shared }: History): Map<number, HoldStory> {
  const holds = new Map<number, HoldStory>()
  for (const one of transitions) {
    if (one.token === null) continue
    if (one.kind === 'granted') holds.set(one.token, { token: one.token, granted: one, actorEnded: null, end: null })
    const hold = holds.get(one.token)
    if (hold === undefined) continue
    if (ACTOR_ENDS.has(one.kind)) hold.actorEnded ??= one
    if (ENDS.has(one.kind) || (shared && ACTOR_ENDS.has(one.kind))) hold.end ??= one
  }
  return holds
}
