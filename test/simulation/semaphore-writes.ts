// What must hold of every committed state of a semaphore, and of every step from one to the next.
import { MAX_HOLDS, type Hold, type State, type Transition } from '../../src/core/state.ts'
import { Violation, type Ledger, type Semaphore } from './ledger.ts'
import { STALE_JOB_MS } from './nomad-link.ts'
import type { Policies } from './policies.ts'
import type { Committed } from './tap.ts'

/** A grant is decided on a look at the job that is at most so old when it is sent. */
const LOOK_MS = 1_500 + STALE_JOB_MS

export interface Step {
  readonly path: string
  readonly before: Semaphore | undefined
  readonly after: Semaphore
  readonly granted: readonly Hold[]
  readonly ended: readonly { readonly hold: Hold; readonly how: string }[]
  readonly transitions: readonly Transition[]
  readonly committed: Committed
}

/** Notes a committed state and says what it changed. Throws Violation. */
export function noteSemaphore(ledger: Ledger, policies: Policies, committed: Committed): Step | null {
  const { path, kind, index, items } = committed
  const before = ledger.semaphores.get(path)
  if (kind === 'remove') {
    ledger.removed(path, committed.at)
    return null
  }
  const state = JSON.parse(items['state'] as string) as State
  const after: Semaphore = { scope: state.scope, index, state }
  ledger.semaphores.set(path, after)
  const step = { path, before, after, committed, ...changesOf(before?.state, state) }
  checkSlots(path, state)
  checkTokens(ledger, step)
  checkAmount(policies, step)
  checkKept(step)
  return step
}

function changesOf(before: State | undefined, after: State) {
  const last = before?.transitions.at(-1)?.seq ?? 0
  const transitions = after.transitions.filter(({ seq }) => seq > last)
  const had = new Set(before?.holds.map(({ id }) => id))
  const has = new Set(after.holds.map(({ id }) => id))
  const granted = after.holds.filter(({ id }) => !had.has(id))
  const ended = (before?.holds ?? [])
    .filter(({ id }) => !has.has(id))
    .map((hold) => {
      const how = transitions.findLast(({ token, kind }) => token === hold.token && kind !== 'halted')
      if (how === undefined)
        throw new Violation('a hold ends with a reason', `hold ${hold.id} is gone and no transition tells why`)
      return { hold, how: how.kind }
    })
  return { transitions, granted, ended }
}

function checkSlots(path: string, { holds }: State): void {
  const slots = holds.map(({ slot }) => slot)
  if (new Set(slots).size < slots.length) throw new Violation('slots unique', `${path}: ${slots.join(', ')}`)
  const units = holds.map(({ unit }) => unit)
  if (new Set(units).size < units.length) throw new Violation('one hold a unit', `${path}: ${units.join(', ')}`)
}

function checkTokens(ledger: Ledger, { path, before, after, granted }: Step): void {
  let highest = ledger.tokens.get(path) ?? 0
  const had = new Map(before?.state.holds.map((hold) => [hold.id, hold.token]))
  const anew = after.state.holds.filter(({ id, token }) => token > (had.get(id) ?? Infinity))
  for (const { token, id } of [...granted, ...anew].toSorted((a, b) => a.token - b.token)) {
    if (token <= highest) throw new Violation('tokens rise', `${path}: hold ${id} has ${token} after ${highest}`)
    highest = token
  }
  if (after.state.grants < highest || after.state.grants < (before?.state.grants ?? 0))
    throw new Violation('tokens rise', `${path}: grants went down to ${after.state.grants}`)
  ledger.tokens.set(path, highest)
}

function checkAmount(policies: Policies, { path, after, granted, committed: { by, at } }: Step): void {
  if (granted.length === 0) return
  const { holds, scope } = after.state
  const seen = policies.between(scope, by.sentAt - LOOK_MS, at)
  const most = Math.max(...seen.map(({ maxParallel }) => (maxParallel === 0 ? MAX_HOLDS : maxParallel)))
  if (holds.length > most) throw new Violation('max_parallel', `${path}: ${holds.length} holds, ${most} allowed`)
}

/** A hold never changes but by a release, a lost lease, an adoption or a take-over, which is a grant anew. */
function checkKept({ path, before, after }: Step): void {
  for (const was of before?.state.holds ?? []) {
    const is = after.state.holds.find(({ id }) => id === was.id)
    if (is === undefined) continue
    const adopted = is.lease.path !== was.lease.path
    const tookOver = adopted && is.managed
    if (tookOver !== is.token > was.token)
      throw new Violation('tokens rise', `${path}: hold ${is.id} had ${was.token} and has ${is.token}`)
    const free = { lease: 0, adopted: 0, phase: 0, outcome: 0, phaseSince: 0 }
    // What a replica has acted on is the request as it stood then.
    const acted = is.managed && is.phase === 'observing' ? { request: 0, tasks: 0, action: 0 } : {}
    const steady = (hold: Hold) => JSON.stringify({ ...hold, ...free, ...acted, ...(tookOver ? { token: 0, actor: 0 } : {}) })
    if (steady(was) !== steady(is) || adopted !== is.adopted > was.adopted)
      throw new Violation('a hold stays what it is', `${path}: ${JSON.stringify(was)} became ${JSON.stringify(is)}`)
    if (was.phase === 'observing' && (is.phase === 'acting' || adopted))
      throw new Violation('a hold stays what it is', `${path}: hold ${is.id} acts again after its end`)
  }
}
