// What must hold of requests that the service acts on itself (protocol M).
import type { Allocation } from '../../src/core/cluster.ts'
import type { Scope } from '../../src/core/scope.ts'
import { paths as pathsOf } from '../../src/keeper/paths.ts'
import type { Errand } from './errand-link.ts'
import { checkBudget } from './hand-outs.ts'
import { Violation, type HoldStory, type Ledger, type StoredRequest } from './ledger.ts'
import type { Policies } from './policies.ts'
import type { Step } from './semaphore-writes.ts'
import type { Truth } from './truth.ts'

/** What somebody asked for and was told that it is stored, or satisfied. Times are true. */
export interface Asked {
  readonly unit: string
  readonly task: string | null
  readonly action: 'restart' | 'signal' | 'replace'
  /** On the clock of the nodes; null: none was named. */
  readonly since: number | null
  /** When that was which must be read: the change, or the ask itself. */
  readonly changedAt: number
  readonly by: string
  /** The id that it was told; null: it is satisfied. */
  readonly id: string | null
}

interface ErrandRulesDeps {
  readonly ledger: Ledger
  readonly policies: Policies
  readonly truth: Truth
  readonly tasks: readonly string[]
  readonly now: () => number
  /** How much older than the truth a baseline may be, and until when the servers may not have heard of this node. */
  readonly lagMs: number
  readonly trouble: (node: string) => number
}

export class ErrandRules {
  readonly #deps: ErrandRulesDeps
  readonly #paths = pathsOf('lockkeeper')
  /** Asked for, stored, and not over. */
  #open: Asked[] = []
  readonly #errands: Errand[] = []

  constructor(deps: ErrandRulesDeps) {
    this.#deps = deps
  }

  /** A replica sends a call, now. */
  sent(errand: Errand): void {
    const { ledger, policies, truth, now } = this.#deps
    const story = this.#holdOf(errand)
    const text = `${errand.shim} sends ${errand.action} of ${errand.unit}`
    if (story === undefined) throw new Violation('an act has a hold', `${text}, which it never held`)
    const { hold, scope } = story
    errand.hold = hold.id
    errand.lease = hold.lease.path
    const first = story.acts.length === 0 && hold.adopted === 0
    const validUntil = errand.leases.get(hold.lease.path) ?? -Infinity
    if (errand.until >= validUntil)
      throw new Violation('the call ends before its lease', `${text} until ${errand.until}, its lease ends at ${validUntil}`)
    const given = ledger.leaseGiven.get(`${hold.id} ${hold.lease.path}`) ?? 0
    const lock = ledger.lockAt(given, scope)
    if (lock !== undefined)
      throw new Violation(
        'operator locks',
        `${text} under hold ${hold.id}, given at ${given} after ${lock.path} at ${lock.index}`,
      )
    const request = this.#requestOf(scope, errand.unit, given)
    if (request === null)
      throw new Violation('the request is read again', `${text} under hold ${hold.id}, whose request was gone at ${given}`)
    errand.request = `${request.record.key}@${request.modifyIndex}`
    this.#checkOnce(errand, text)
    this.#errands.push(errand)
    const told = { hold, scope, by: errand.shim, key: hold.key }
    if (first) checkBudget(ledger, policies, truth, told, now())
    story.acts.push(errand)
  }

  /** A call is executed, now. */
  executed(errand: Errand): void {
    const { ledger } = this.#deps
    const story = ledger.holds.get(errand.hold)
    if (story === undefined || ledger.forced.has(errand.hold)) return
    const { phase, lease, outcome } = story.hold
    const stands = story.over === null && lease.path === errand.lease && (phase === 'acting' || outcome === 'overdue')
    if (stands) return
    const how = story.over?.how ?? `${phase} (${outcome}) under ${lease.path}`
    throw new Violation('act under a hold', `${errand.shim} acts on ${errand.unit} under ${errand.hold}, which is ${how}`)
  }

  /** A semaphore has changed. */
  changed({ before, after, ended }: Step): void {
    const { ledger } = this.#deps
    for (const hold of after.state.holds) {
      const was = before?.state.holds.find(({ id }) => id === hold.id)
      if (!hold.managed || was === undefined || was.lease.path === hold.lease.path) continue
      const story = ledger.holds.get(hold.id)
      if (story?.acts.some(({ inFlight }) => inFlight) === true)
        throw new Violation('taken over when still', `hold ${hold.id} of ${hold.unit} is taken over during a call`)
    }
    for (const { hold, how } of ended) {
      const story = ledger.holds.get(hold.id)
      if (how !== 'taken_back' || !hold.managed) continue
      if (story?.acts.some(({ effectAt, inFlight }) => effectAt !== null || inFlight) === true)
        throw new Violation('taken back before any act', `hold ${hold.id} of ${hold.unit}, with ${story.acts.length} acts`)
    }
  }

  /** Somebody was answered. */
  async asked(asked: Asked): Promise<void> {
    const isOpen = [...this.#deps.ledger.requests.values()].some(({ record }) => record.key === asked.id)
    if (isOpen) this.#open.push(asked)
    else if (!this.#deps.ledger.cancelled.has(asked.id ?? ''))
      await this.#checkDone(asked, asked.id === null ? 'satisfied' : 'stored')
  }

  /** A request was removed. */
  async removed({ record }: StoredRequest): Promise<void> {
    const [over, open] = [this.#open.filter(({ id }) => id === record.key), this.#open.filter(({ id }) => id !== record.key)]
    this.#open = open
    if (this.#deps.ledger.cancelled.has(record.key)) return
    for (const asked of over) await this.#checkDone(asked, 'over')
  }

  async #checkDone(asked: Asked, how: string): Promise<void> {
    const { truth } = this.#deps
    const { unit, by, id } = asked
    const allocation = (await truth.allocations('web')).find((one) => one.id === unit)
    if (allocation === undefined || isOver(allocation) || this.#isDone(asked, allocation)) return
    const known = JSON.stringify({ tasks: allocation.tasks, started: [...(truth.of(unit)?.started ?? [])] })
    throw new Violation('no request is lost', `request ${id} of ${by} (${JSON.stringify(asked)}) is ${how}, but ${known}`)
  }

  #isDone({ unit, task, action, since, changedAt }: Asked, { tasks, nodeName, next }: Allocation): boolean {
    const { truth, lagMs, trouble } = this.#deps
    // Without a time a start counts as later than the ask when the servers hear of it later: that is what the product promises.
    const heard = (at: number) => (since === null ? Math.max(at, trouble(nodeName)) + 2 * lagMs + 500 : at)
    const acts = this.#errands.filter((one) => one.unit === unit && (one.effectAt ?? -1) >= changedAt)
    // What Nomad was told to replace goes, soon.
    if (acts.some((one) => one.action === 'replace')) return true
    // Also one whose node is away, and which Nomad has replaced already.
    if (action === 'replace') return next !== null
    return (task === null ? this.#deps.tasks : [task]).every((name) => {
      const started = truth.of(unit)?.started.get(name) ?? -Infinity
      const seen = tasks[name]?.startedAt ?? -Infinity
      const isSignalled = action === 'signal' && acts.some((one) => reaches(one, name))
      // Where no process is, none has the old value.
      const isDown = truth.of(unit)?.running.has(name) !== true
      return isDown || heard(started) > changedAt || (since !== null && seen > since) || isSignalled
    })
  }

  /** The newest hold of the unit that this host was given. */
  #holdOf({ unit, leases }: Errand): HoldStory | undefined {
    const { ledger } = this.#deps
    const own = [...ledger.holds.values()].filter(({ hold }) => hold.managed && hold.unit === unit)
    const given = own.filter(({ hold }) => leases.has(hold.lease.path))
    return given.findLast(({ over, hold }) => over === null && hold.phase === 'acting') ?? given.at(-1)
  }

  /** As it is, or was last if it was still there when the hold was given. */
  #requestOf(scope: Scope, unit: string, given: number): StoredRequest | null {
    const { ledger } = this.#deps
    const path = this.#paths.managedRequest(scope, unit)
    const there = ledger.requests.get(path)
    if (there !== undefined) return there
    const gone = ledger.removedRequests.get(path)
    return gone !== undefined && gone.index > given ? gone.request : null
  }

  /** A second act on the very same request only where the first one had no answer, or its replica was lost or slow. */
  #checkOnce(errand: Errand, text: string): void {
    const again = this.#errands.filter(
      (one) => one.unit === errand.unit && one.action === errand.action && one.task === errand.task && one.effectAt !== null,
    )
    const first = again.find((one) => one.answered && one.host.alive && this.#isSame(one, errand))
    if (first === undefined) return
    throw new Violation('one act a request', `${text} for ${errand.request}, as ${first.shim} did at ${first.beganAt}`)
  }

  /** Whether the other one was for what this one is for: under the same grant, or for the request just as it is. */
  #isSame(other: Errand, errand: Errand): boolean {
    if (other.hold === errand.hold) return other.lease === errand.lease && other.request === errand.request
    const { ledger } = this.#deps
    const hold = ledger.holds.get(other.hold)?.hold
    if (hold === undefined || hold.outcome !== 'done' || hold.lease.path !== other.lease || ledger.forced.has(hold.id))
      return false
    return `${hold.key}@${hold.request}` === errand.request
  }
}

function reaches({ task, action }: Errand, name: string): boolean {
  return action === 'signal' && (task === null || task === name)
}

function isOver({ desired, client }: Allocation): boolean {
  return desired !== 'run' || client === 'complete' || client === 'failed' || client === 'lost'
}
