// When locks fall, in the seconds that were measured: all of it in one minute, each fact on a path of its own. Against a real
// Nomad these are real seconds.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask } from './exchange.ts'
import { nomadUnderTest, type NomadUnderTest } from './nomad-under-test.ts'

type Step = 'acquire' | 'renew' | 'release' | 'set' | 'is locked'

const RUN = randomUUID().slice(0, 8)

describe('the seconds of a lock', () => {
  let nomad: NomadUnderTest
  const answers = new Map<string, (number | boolean)[]>()
  const locks = new Map<string, string>()
  const plan: { readonly at: number; readonly fact: string; readonly run: () => Promise<number | boolean> }[] = []

  /** At a second of the minute: what is done to the path of a fact, under whose lock ID. */
  function at(second: number, fact: string, step: Step, who = 'A', more: object = {}, path = fact): void {
    plan.push({ at: second * 1_000, fact, run: () => take(step, `seconds/${RUN}/${path}`, `${fact}/${who}`, more) })
  }
  async function take(step: Step, path: string, who: string, more: object): Promise<number | boolean> {
    const url = `/v1/var/${path}`
    // Not `during`: that would let time pass in the double.
    const send = (method: string, query: string, body: unknown) => ask(nomad.address, { method, path: url + query, body })
    if (step === 'is locked') return 'Lock' in ((await send('GET', '', null)).body as object)
    const Lock = { ID: locks.get(who) ?? randomUUID(), ...more }
    locks.set(who, Lock.ID)
    if (step === 'set') return (await send('PUT', '', { Items: { a: '1' }, Lock })).status
    return (await send('PUT', `?lock-${step}`, { Path: path, Lock })).status
  }
  const TTL = '10s'

  beforeAll(async () => {
    nomad = await nomadUnderTest()
    const short = { TTL, LockDelay: '1ms' }
    const long = { TTL, LockDelay: '15s' }
    at(0, 'falls', 'acquire', 'A', short)
    at(19, 'falls', 'acquire', 'B', short)
    at(20.6, 'falls', 'is locked')
    at(20.6, 'falls', 'acquire', 'B', short)
    at(0, 'delay', 'acquire', 'A', { TTL, LockDelay: '5s' })
    at(24, 'delay', 'acquire', 'B', short)
    at(25.6, 'delay', 'acquire', 'B', short)
    at(0, 'zero', 'acquire', 'A', { TTL, LockDelay: '0s' })
    at(34, 'zero', 'is locked')
    at(35.6, 'zero', 'is locked')
    at(0, 'renewed', 'acquire', 'A', long)
    at(18, 'renewed', 'renew')
    at(36, 'renewed', 'renew')
    at(57, 'renewed', 'renew')
    at(0, 'again', 'acquire', 'A', short)
    at(19, 'again', 'acquire', 'A', short)
    at(20.6, 'again', 'is locked')
    at(0, 'undone', 'acquire', 'A', long)
    at(21, 'undone', 'acquire', 'A', long)
    at(31, 'undone', 'renew')
    at(35.7, 'undone', 'is locked')
    at(0, 'late', 'acquire', 'A', long)
    at(21, 'late', 'release')
    at(21.1, 'late', 'acquire', 'B', long)
    at(31, 'late', 'renew', 'B')
    at(35.7, 'late', 'renew', 'B')
    at(0, 'shared', 'acquire', 'A', short, 'shared-1')
    at(0.1, 'shared', 'acquire', 'A', short, 'shared-2')
    at(20.6, 'shared', 'is locked', 'A', {}, 'shared-1')
    at(60, 'shared', 'is locked', 'A', {}, 'shared-2')
    at(0, 'immortal', 'set')
    at(60, 'immortal', 'is locked')
    at(60, 'immortal', 'renew')
    at(0, 'under', 'acquire', 'A', short)
    at(0.1, 'under', 'set')
    at(0.2, 'under', 'renew')
    at(29, 'under', 'is locked')
    at(31, 'under', 'is locked')
    let now = 0
    const started = Date.now()
    for (const { at: due, fact, run } of plan.toSorted((a, b) => a.at - b.at)) {
      if (nomad.real) now = Date.now() - started
      if (due > now) await nomad.pass(due - now)
      now = Math.max(now, due)
      answers.set(fact, [...(answers.get(fact) ?? []), await run()])
    }
  }, 120_000)
  afterAll(() => nomad.close())

  const facts: readonly (readonly [string, string, readonly (number | boolean)[]])[] = [
    ['falls', 'it falls two TTL after the acquire', [200, 409, false, 200]],
    ['delay', 'it is not free during its delay', [200, 409, 200]],
    ['zero', 'a delay of zero is one of 15 seconds', [200, true, false]],
    ['renewed', 'it can be renewed until two TTL have passed, and not later', [200, 200, 200, 409]],
    ['again', 'it is not extended by an acquire with the same ID', [200, 200, false]],
    ['undone', 'taken again under its old ID during the delay it is silently undone', [200, 200, 200, false]],
    ['late', 'that of somebody else falls to the late expiry of the one before', [200, 200, 200, 200, 409]],
    ['shared', 'one that shares its ID with another never expires', [200, 200, false, true]],
    ['immortal', 'one that came with a plain set is immortal, and cannot be renewed', [200, true, 409]],
    ['under', 'a set under it makes its TTL 15 seconds', [200, 200, 200, true, false]],
  ]
  for (const [fact, sentence, expected] of facts) {
    it(sentence, () => {
      expect(answers.get(fact)).toEqual(expected)
    })
  }
})
