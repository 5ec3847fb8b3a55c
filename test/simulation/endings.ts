// Why a hold may end: what the step claims, compared with the true world (protocol E).
import type { Allocation } from '../../src/core/cluster.ts'
import { LAG_MS } from '../../src/core/cluster.ts'
import { isGroupScope } from '../../src/core/scope.ts'
import type { Failure, Hold } from '../../src/core/state.ts'
import { Violation, type HoldStory, type Ledger } from './ledger.ts'
import type { Policies } from './policies.ts'
import type { Step } from './semaphore-writes.ts'
import { both, chainOf, type Stretch, type Truth } from './truth.ts'

/** What a replica sees may be so much older than the truth, twice: when something begins, and when it ends. */
const SLACK_MS = 3_000
/** From the look that an ending was judged on to its commit: a write may be long under way. */
const UNDER_WAY_MS = 120_000
/** What runs for so long was there at the look that missed it last. */
const GONE_MS = 60_000

export interface World {
  readonly ledger: Ledger
  readonly policies: Policies
  readonly truth: Truth
  readonly lagMs: number
  /** Whether the lock on this variable still stands, with this ModifyIndex. */
  readonly leaseStands: (path: string, index: number) => Promise<boolean>
}

/** Every hold that this step ended, and every failure, ended rightly. */
export async function checkEndings(world: World, step: Step): Promise<void> {
  const { scope } = step.after
  const allocations = isGroupScope(scope) ? await world.truth.allocations(scope.job) : []
  for (const { hold, how } of step.ended) checkEnding(world, step, hold, how, allocations)
  for (const failure of step.before?.state.failures ?? []) checkFailure(world, step, failure, allocations)
  for (const hold of step.after.state.holds) {
    const before = step.before?.state.holds.find(({ id }) => id === hold.id)
    if (before?.phase !== 'acting' || hold.phase !== 'observing' || hold.outcome !== 'lease_lost') continue
    if (await world.leaseStands(before.lease.path, before.lease.index))
      throw new Violation('lost means lost', `hold ${hold.id} is told to have lost ${before.lease.path}, which stands`)
  }
}

function checkEnding(world: World, step: Step, hold: Hold, how: string, allocations: readonly Allocation[]): void {
  const { ledger, policies } = world
  const { scope, state } = step.after
  const { at } = step.committed
  const story = ledger.holds.get(hold.id) as HoldStory
  story.over = { how, at }
  const text = `hold ${hold.id} of ${hold.unit} (${hold.outcome}) ended as ${how}`
  switch (how) {
    case 'forced_release':
      if (!ledger.forced.has(hold.id)) throw new Violation('ended by force', `${text}, and no operator said so`)
      return
    case 'taken_back':
      if (story.told.length > 0) throw new Violation('taken back before told', text)
      return
    case 'released':
    case 'lease_lost':
    case 'overdue':
      if (policies.between(scope, at - UNDER_WAY_MS, at).every(({ waitsForHealth }) => waitsForHealth))
        throw new Violation('a gate must pass', text)
      return
    case 'healthy':
      if (policies.between(scope, at - UNDER_WAY_MS, at).some(({ waitsForHealth }) => !waitsForHealth)) return
      if (!wasHealthy(world, step, story, allocations))
        throw new Violation('healthy when healthy', `${text}: ${historyOf(world, story, allocations)}`)
      return
    case 'unchanged':
      if (
        story.acts.some(
          ({ action, effectAt, inFlight }) => (action === 'restart' || action === 'replace') && (effectAt !== null || inFlight),
        )
      )
        throw new Violation('unchanged when unchanged', `${text}, and its actor had acted: ${JSON.stringify(story.acts)}`)
      return
    case 'gone':
      if (stillRuns(world, hold.unit, at, allocations)) throw new Violation('gone when gone', text)
      return
    case 'failed':
      // One a place: that of another hold there may have come after it.
      if (!state.failures.some(({ place }) => place === hold.place)) throw new Violation('a failure is remembered', text)
      return
    default:
      throw new Violation('a gate must pass', text)
  }
}

function historyOf({ truth }: World, { hold, acts, grantedAt }: HoldStory, allocations: readonly Allocation[]): string {
  const chain = chainOf(hold.unit, allocations).map(({ id }) => ({ id, ...truth.of(id) }))
  return JSON.stringify({ grantedAt, acts, chain })
}

/** Some time after its grant and after its act, the unit or its replacement was truly up and healthy for long enough. */
function wasHealthy(world: World, step: Step, story: HoldStory, allocations: readonly Allocation[]): boolean {
  const { at } = step.committed
  const acted = Math.max(story.grantedAt, ...story.acts.map(({ effectAt }) => effectAt ?? 0))
  if (story.acts.some(({ inFlight }) => inFlight)) return false
  return healthyStretch(world, step, story.hold.unit, acted, at, allocations)
}

function healthyStretch(
  { policies, truth }: World,
  step: Step,
  unit: string,
  since: number,
  at: number,
  allocations: readonly Allocation[],
): boolean {
  const seen = policies.between(step.after.scope, at - UNDER_WAY_MS, at)
  const needed = Math.max(LAG_MS, Math.min(...seen.map(({ minHealthyMs }) => minHealthyMs))) - SLACK_MS
  const withChecks = seen.every(({ checks }) => checks)
  // A unit that Nomad has forgotten has no chain any more.
  const ids = new Set([unit, ...chainOf(unit, allocations).map(({ id }) => id)])
  return [...ids].some((id) => {
    const process = truth.of(id)
    const stretches: readonly Stretch[] = process === undefined ? [] : withChecks ? both(process.up, process.healthy) : process.up
    return stretches.some(({ from, to }) => (to ?? at) - Math.max(from, since) >= Math.max(needed, 0) && (to ?? at) > since)
  })
}

/** The last of the chain has run for a while, and Nomad wants it to. */
function stillRuns({ truth, lagMs }: World, unit: string, at: number, allocations: readonly Allocation[]): boolean {
  return chainOf(unit, allocations).some(({ id, desired, client }) => {
    const last = truth.of(id)?.up.at(-1)
    return desired === 'run' && client === 'running' && last?.to === null && at - last.from > GONE_MS + lagMs
  })
}

function checkFailure(world: World, step: Step, failure: Failure, allocations: readonly Allocation[]): void {
  const { ledger, truth } = world
  const { state } = step.after
  if (state.failures.some(({ unit, token }) => unit === failure.unit && token === failure.token)) return
  const { at, path } = step.committed
  const text = `the failure of ${failure.unit} (token ${failure.token}) is gone`
  const why = step.transitions.find(({ kind, token }) => kind === 'recovered' && token === failure.token)
  if (why === undefined) {
    if (state.failures.some(({ place }) => place === failure.place)) return
    const settled = step.ended.some(({ hold, how }) => hold.place === failure.place && how !== 'unchanged')
    const resumed = step.transitions.some(({ kind }) => kind === 'resumed') && ledger.resumed.has(path)
    if (!settled && !resumed) throw new Violation('a failure is remembered', `${text}, and nobody said so`)
    return
  }
  if (!why.reason.startsWith('healthy')) return
  const story = [...ledger.holds.values()].find(({ hold }) => hold.token === failure.token && hold.unit === failure.unit)
  const since = story?.over?.at ?? 0
  if (
    truth.of(failure.unit) !== undefined &&
    !healthyStretch(world, step, failure.unit, Math.min(since, at - LAG_MS) - UNDER_WAY_MS, at, allocations)
  )
    throw new Violation('healthy when healthy', text)
}
