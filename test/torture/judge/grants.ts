// Tokens, the order of grants, max_parallel of holds, and operator locks.
import { count, emptyVerdict, iso, troubled, type Evidence, type Verdict } from '../evidence.ts'
import type { History } from '../recorder.ts'
import { actsOf, holdsOf, type Act } from './stories.ts'

/** Each semaphore for itself: tokens rise by one in the order of the commits, and never more is held than may be. */
export function judgeHistories({ histories }: Evidence): Verdict {
  const verdict = emptyVerdict()
  for (const history of histories) {
    const { name, faults, missed, mostHolds, maxParallel, transitions } = history
    for (const fault of faults) verdict.violations.push(`${name}: ${fault}`)
    if (mostHolds > maxParallel) verdict.violations.push(`${name}: ${mostHolds} holds were stored, ${maxParallel} are allowed`)
    count(verdict, 'transitions missed by the recorder', missed)
    for (const { kind } of transitions) count(verdict, `transitions: ${kind}`)
    judgeOrder(verdict, history)
  }
  return verdict
}

function judgeOrder(verdict: Verdict, history: History): void {
  const { name, transitions, maxParallel } = history
  const holds = holdsOf(history)
  const open = new Set<number>()
  let token = 0
  let seq = 0
  for (const one of transitions) {
    if (one.seq !== seq + 1) open.clear()
    seq = one.seq
    if (one.token === null) continue
    if (one.kind === 'granted') {
      if (one.token <= token) verdict.violations.push(`${name}: token ${one.token} was granted after ${token}`)
      token = one.token
      open.add(token)
      if (open.size > maxParallel)
        verdict.violations.push(`${name}: tokens ${[...open].join(', ')} were held together at ${iso(one.at)}`)
    }
    if (holds.get(one.token)?.end?.seq === one.seq) open.delete(one.token)
  }
}

/** What was handed out: a token belongs to one asking process, and to the hold that was committed with it. */
export function judgeTokens(evidence: Evidence): Verdict {
  const verdict = emptyVerdict()
  for (const shim of evidence.shims) {
    const granted = shim.events.flatMap((event) => (typeof event === 'object' && event.event === 'granted' ? [event] : []))
    count(verdict, 'grants taken by shims', granted.length)
    const last = granted.at(-1)
    const printed = /LOCKKEEPER_TOKEN=(\d+)/.exec(shim.output)?.[1]
    if (printed !== undefined && Number(printed) !== last?.token)
      verdict.violations.push(`${shim.name}: its act was given token ${printed}, it was granted ${last?.token}`)
  }
  const owners = new Map<string, string>()
  for (const { name, wish, events } of evidence.shims) {
    for (const event of events) {
      if (typeof event === 'string' || event.event !== 'granted') continue
      const key = `${wish.semaphore} #${event.token}`
      const owner = owners.get(key) ?? `${name} ${event.hold}`
      if (owner !== `${name} ${event.hold}`)
        verdict.violations.push(`token ${key} was given to ${owner} and to ${name} ${event.hold}`)
      owners.set(key, owner)
      const stored = historyOf(evidence, wish.semaphore).holds.get(event.token)
      if (stored !== undefined && (stored.id !== event.hold || stored.unit !== wish.unit))
        verdict.violations.push(
          `token ${key} was given to ${owner} for ${wish.unit}, and is stored for ${stored.id} ${stored.unit}`,
        )
    }
  }
  return verdict
}

/** No act begins whose hold was taken back, is over, or was not under way when an operator's lock was answered. */
export function judgeActs(evidence: Evidence): Verdict {
  const verdict = emptyVerdict()
  for (const act of actsOf(evidence)) {
    count(verdict, 'acts')
    const hold = holdsOf(historyOf(evidence, act.semaphore)).get(act.token)
    const since = hold?.granted.at ?? act.beganAt
    const text = `${act.shim} (${act.semaphore} #${act.token}, hold ${act.hold}) began to act at ${iso(act.beganAt)}`
    if (hold?.end?.kind === 'taken_back') verdict.violations.push(`${text}, though its grant was taken back`)
    else if (hold?.end != null && hold.end.seenAt < act.beganAt)
      judgeLate(verdict, evidence, act, since, `${text}, though its hold was over at ${iso(hold.end.seenAt)} (${hold.end.kind})`)
    for (const { shuts, answeredAt, unlockedAt, inFlight, index } of evidence.locks) {
      if (!shuts.includes(act.semaphore)) continue
      const unlisted = !inFlight.includes(act.hold)
      if (unlisted && act.beganAt > answeredAt && act.beganAt < unlockedAt)
        judgeLate(
          verdict,
          evidence,
          act,
          since,
          `${text}, though the lock of ${iso(answeredAt)} was answered and did not name it`,
        )
      const committedUnder =
        hold !== undefined && index !== null && hold.granted.after >= index && hold.granted.seenAt < unlockedAt
      if (committedUnder) verdict.violations.push(`${text}, though its grant was committed after the lock at index ${index}`)
    }
  }
  return verdict
}

/** A process that is frozen between its look at the lease and the act acts late: nothing can see that (a documented hole). */
function judgeLate(verdict: Verdict, { faults }: Evidence, { shim, beganAt }: Act, since: number, text: string): void {
  if (troubled(faults, ['freeze'], shim, since, beganAt)) count(verdict, 'late: the shim was frozen before its act began')
  else verdict.violations.push(text)
}

function historyOf({ histories }: Evidence, name: string): History {
  return histories.find((history) => history.name === name) as History
}
