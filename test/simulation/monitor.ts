import type { Request } from '../../src/devnomad/devnomad.ts'
import type { Allocation } from '../../src/core/cluster.ts'
import { isGroupScope, type Scope } from '../../src/core/scope.ts'
import type { Answer } from '../../src/devnomad/devnomad.ts'
import { checkEndings, type World } from './endings.ts'
import type { Errand } from './errand-link.ts'
import { ErrandRules, type Asked } from './errand-rules.ts'
import { checkAct, checkBudget, checkTold, downBefore } from './hand-outs.ts'
import { Ledger, Violation, type Act } from './ledger.ts'
import { Policies } from './policies.ts'
import { checkOrder } from './queue-order.ts'
import type { Told } from './replica.ts'
import { noteSemaphore, type Step } from './semaphore-writes.ts'
import type { Committed, Sender } from './tap.ts'
import type { Truth } from './truth.ts'
import { VariableRules } from './variable-rules.ts'

export interface MonitorDeps {
  readonly truth: Truth
  readonly lagMs: number
  readonly tasks: readonly string[]
  /** A system job: all its allocations have one name. */
  readonly system: boolean
  readonly now: () => number
  readonly askNomad: (path: string) => Promise<Answer>
  /** Until when the servers may not have heard of what happens on this node. */
  readonly trouble: (node: string) => number
  readonly trace: (text: string) => void
}

/** Sees everything that is committed, told and done, and compares it with what was promised. The first violation is kept. */
export class Monitor {
  readonly ledger = new Ledger()
  readonly policies = new Policies()
  violation: Violation | null = null
  readonly #rules = new VariableRules()
  readonly #errands: ErrandRules
  readonly #deps: MonitorDeps
  readonly #world: World
  #told: Told[] = []
  #asked: Asked[] = []
  /** Who acts in a shared semaphore, with the deadline of each on true time. */
  readonly #inside = new Map<string, { scope: string; until: number; hold: string }>()

  constructor(deps: MonitorDeps) {
    this.#deps = deps
    const { ledger, policies } = this
    const { truth, lagMs, tasks, now, trouble } = deps
    this.#errands = new ErrandRules({ ledger, policies, truth, tasks, now, lagMs, trouble })
    this.#world = { ledger, policies, truth, lagMs, leaseStands: (path, index) => this.#leaseStands(path, index) }
  }

  requested(request: Request, by: Sender): void {
    if (!by.name.startsWith('operator')) this.#guard(() => this.#rules.saw(request))
  }

  /** Who gives up its stored place has given it up when it says so, whether or not that ever arrives. */
  sent({ method, path }: Request): void {
    if (method !== 'DELETE' || !path.includes('/requests/')) return
    const name = decodeURIComponent(path.slice('/v1/var/'.length, path.indexOf('?')))
    const index = Number(new URLSearchParams(path.slice(path.indexOf('?'))).get('cas'))
    this.ledger.givenUp.set(name, index)
  }

  /** In the order of their indexes, at the time of the commit. */
  async committed(all: readonly Committed[]): Promise<void> {
    for (const one of all) await this.#guardLater(() => this.#note(one))
    for (const told of this.#told.splice(0)) {
      this.#guard(() => {
        checkTold(this.ledger, told)
        checkBudget(this.ledger, this.policies, this.#deps.truth, told, this.#deps.now())
      })
    }
    for (const asked of this.#asked.splice(0)) await this.#guardLater(() => this.#errands.asked(asked))
  }

  /** Somebody was told that it is stored, or satisfied. */
  asked(asked: Asked): void {
    this.#deps.trace(`${asked.by} is told of ${asked.unit}: ${asked.id ?? 'satisfied'}`)
    this.#asked.push(asked)
  }

  /** A replica sends a call that acts, and it is executed. */
  errand(what: 'sent' | 'executed', errand: Errand): void {
    this.#guard(() => this.#errands[what](errand))
    this.#deps.trace(`${errand.shim}: ${errand.action} of ${errand.unit} ${errand.task ?? ''} under ${errand.hold} is ${what}`)
  }

  told(told: Told): void {
    this.#deps.trace(`${told.by} tells ${told.hold.unit} its hold ${told.hold.id} token ${told.hold.token}`)
    this.#told.push(told)
  }

  /** A shim begins to act. `now` and `deadline` on its own clock. */
  began(shim: string, hold: string, action: Act['action'], now: number, deadline: number | undefined): Act {
    const act: Act = { shim, unit: '', action, beganAt: this.#deps.now(), effectAt: null, inFlight: action !== 'nothing' }
    this.#deps.trace(`${shim} acts (${action}) under ${hold}`)
    this.#guard(() => {
      const story = checkAct(this.ledger, hold, shim, now, deadline)
      story.acts.push(act)
      if (!isGroupScope(story.scope)) this.#enters(shim, hold, JSON.stringify(story.scope), (deadline ?? now) - now)
    })
    return act
  }

  ended(shim: string): void {
    this.#inside.delete(shim)
  }

  fail(invariant: string, text: string): void {
    this.#guard(() => {
      throw new Violation(invariant, text)
    })
  }

  /** Two in a critical section, each within its time: the one thing that must never be. */
  #enters(shim: string, hold: string, scope: string, leftMs: number): void {
    const now = this.#deps.now()
    for (const [other, inside] of this.#inside) {
      if (inside.scope === scope && inside.until > now && !this.ledger.forced.has(inside.hold) && inside.hold !== hold)
        throw new Violation('one at a time', `${shim} and ${other} act at the same time in ${scope}`)
    }
    this.#inside.set(shim, { scope, until: now + leftMs, hold })
  }

  async #note(committed: Committed): Promise<void> {
    const { path } = committed
    this.ledger.commits++
    if (path.includes('/requests/')) this.#deps.trace(`${committed.by.name} ${committed.kind} ${path}@${committed.index}`)
    if (path.startsWith('lockkeeper/requests/')) {
      const before = this.ledger.requests.get(path)
      this.ledger.noteRequest(committed)
      if (committed.kind === 'remove' && before !== undefined) await this.#errands.removed(before)
      return
    }
    if (path.startsWith('lockkeeper/locks')) return this.ledger.noteLock(committed)
    if (!path.startsWith('lockkeeper/semaphores/')) return
    const step = noteSemaphore(this.ledger, this.policies, committed)
    if (step === null) return
    this.#traceStep(step)
    await this.#noteGrants(step)
    checkOrder(this.ledger, this.policies, step, await this.#allocations(step.after.scope))
    this.#errands.changed(step)
    await checkEndings(this.#world, step)
  }

  async #noteGrants(step: Step): Promise<void> {
    const { truth, lagMs, system, trouble } = this.#deps
    const { scope, index, state } = step.after
    for (const hold of state.holds) {
      const given = `${hold.id} ${hold.lease.path}`
      if (!this.ledger.leaseGiven.has(given)) this.ledger.leaseGiven.set(given, index)
      const story = this.ledger.holds.get(hold.id)
      if (story !== undefined) {
        story.hold = hold
        continue
      }
      const allocations = await this.#allocations(scope)
      this.ledger.holds.set(hold.id, {
        id: hold.id,
        scope,
        path: step.path,
        hold,
        grantedAt: step.committed.at,
        told: [],
        acts: [],
        downBefore: downBefore(truth, step, allocations, lagMs, system, trouble),
        heldBefore: state.holds.flatMap(({ id }) => this.ledger.holds.get(id) ?? []),
        over: null,
      })
    }
  }

  async #allocations(scope: Scope): Promise<readonly Allocation[]> {
    return isGroupScope(scope) ? await this.#deps.truth.allocations(scope.job) : []
  }

  #traceStep({ committed, transitions, path }: Step): void {
    const said = transitions.map(({ kind, unit, token, reason }) => `${kind} ${unit} #${token} (${reason})`).join('; ')
    this.#deps.trace(`${committed.by.name} commits ${path}@${committed.index} (sent ${Math.round(committed.by.sentAt)}): ${said}`)
  }

  async #leaseStands(path: string, index: number): Promise<boolean> {
    const { status, body } = await this.#deps.askNomad(`/v1/var/${path}?stale=true`)
    return status === 200 && (JSON.parse(body) as { ModifyIndex: number }).ModifyIndex === index
  }

  #guard(check: () => void): void {
    try {
      check()
    } catch (error) {
      if (!(error instanceof Violation)) throw error
      this.violation ??= error
    }
  }

  async #guardLater(check: () => Promise<void>): Promise<void> {
    try {
      await check()
    } catch (error) {
      if (!(error instanceof Violation)) throw error
      this.violation ??= error
    }
  }
}
