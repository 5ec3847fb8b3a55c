import { expect, it } from 'vitest'
import { kindOf, type ErrorKind, type WaitKind } from '../../src/core/errors.ts'
import { acquire, type Patience } from '../../src/shim/acquire.ts'
import type { Hold } from '../../src/shim/hold.ts'
import type { Answer } from '../../src/shim/service.ts'
import { settle } from '../support/manual-clock.ts'
import { given, granted, hangs, inTurn, refuses, waiting, watched } from './scripted-service.ts'

const WISH = { allocation: 'a1', reason: 'test' }
const HOUR = 3_600_000

/** Waits in the service for as long as it was told to. */
function asking(waitMs = HOUR, absence?: Patience['absence']) {
  const world = given()
  const { clock, service, deps } = world
  const stopped = new AbortController()
  const polls = (answer: Answer) => async (signal: AbortSignal) => {
    await clock.sleep(service.asks.at(-1)?.waitMs ?? 0, signal)
    return answer
  }
  return {
    ...world,
    polls,
    stopped,
    start: () =>
      watched(
        acquire(deps, WISH, { since: clock.now(), ms: waitMs, ...(absence === undefined ? {} : { absence }) }, stopped.signal),
      ),
  }
}

const keysOf = (asks: readonly { readonly key: string }[]) => new Set(asks.map(({ key }) => key)).size

it('who asks keeps one place in the queue: long polls follow each other with the same key', async () => {
  const { clock, service, polls, start, stopped } = asking()
  service.ask_ = polls(waiting('full'))
  start()
  await clock.advance(32_000)
  expect(service.asks.map(({ at }) => at)).toEqual([0, 2_000, 12_000, 22_000, 32_000])
  expect(service.asks.map(({ waitMs }) => waitMs)).toEqual([2_000, 10_000, 10_000, 10_000, 10_000])
  expect(keysOf(service.asks)).toBe(1)
  stopped.abort()
})

it('why it waits is told once, and again when the reason or the place changes', async () => {
  const { clock, service, polls, start, events, stopped } = asking()
  service.ask_ = inTurn(
    polls(waiting('full', 'a2 is held', 2)),
    polls(waiting('full', 'a2 is held', 2)),
    polls(waiting('full', 'a2 is held', 1)),
    polls(waiting('locked', 'lunch', 1)),
  )
  start()
  await clock.advance(120_000)
  expect(events.map((event) => (event.event === 'waiting' ? [event.kind, event.position] : []))).toEqual([
    ['full', 2],
    ['full', 1],
    ['locked', 1],
  ])
  stopped.abort()
})

it('a service that answers a poll before its time is not asked again at once', async () => {
  const { clock, service, start, stopped } = asking()
  service.ask_ = () => waiting('full')
  start()
  await clock.advance(10_000)
  expect(service.asks.length).toBeLessThan(20)
  stopped.abort()
})

it.each([
  ['full', 'full'],
  ['window', 'window'],
  ['locked', 'locked'],
  ['halted', 'halted'],
] satisfies [WaitKind, ErrorKind][])('C3.16 not granted in time: the last reason, %s, is the reason', async (wait, kind) => {
  const { clock, service, polls, start } = asking(60_000)
  service.ask_ = inTurn(polls(waiting('too_soon')), polls(waiting(wait, 'so it is')))
  const acquiring = start()
  await clock.advance(59_999)
  expect(acquiring.over).toBe(false)
  await clock.advance(1)
  expect(kindOf(acquiring.error)).toBe(kind)
  expect(String(acquiring.error)).toContain('not granted within 1m0s: so it is')
})

it('C3.2 a service that is not there is asked until the time is up, with short pauses, and then that is the reason', async () => {
  const { clock, service, start, names } = asking(600_000)
  service.ask_ = refuses('service_unavailable')
  const acquiring = start()
  await clock.advance(599_000)
  expect(acquiring.over).toBe(false)
  const gaps = service.asks.slice(1).map(({ at }, i) => at - (service.asks[i]?.at ?? 0))
  expect(Math.max(...gaps)).toBeLessThanOrEqual(3_000)
  expect(Math.min(...gaps.slice(10))).toBeGreaterThanOrEqual(1_500)
  await clock.advance(2_000)
  expect(kindOf(acquiring.error)).toBe('service_unavailable')
  expect(names()).toEqual(['unreachable'])
  expect(clock.pending).toBe(0)
})

it('C3.2 nobody is heard of for longer than they may be: it ends, long before the patience does', async () => {
  const { clock, service, start } = asking(HOUR, { waitMs: 600_000, jitterMs: 0 })
  service.ask_ = refuses('service_unavailable')
  const acquiring = start()
  await clock.advance(599_999)
  expect(acquiring.over).toBe(false)
  await clock.advance(1)
  expect(kindOf(acquiring.error)).toBe('service_unavailable')
  expect(clock.pending).toBe(0)
})

it('a service that is heard of again may be away as long the next time', async () => {
  const { clock, service, polls, start } = asking(HOUR, { waitMs: 60_000, jitterMs: 0 })
  service.ask_ = refuses('service_unavailable')
  const acquiring = start()
  await clock.advance(50_000)
  service.ask_ = inTurn<Answer>(polls(waiting('full')), refuses('service_unavailable'))
  await clock.advance(60_000)
  expect(acquiring.over).toBe(false)
  await clock.advance(20_000)
  expect(kindOf(acquiring.error)).toBe('service_unavailable')
})

it.each(['overloaded', 'shutting_down'] satisfies ErrorKind[])('a replica that is %s is there, and waited for', async (kind) => {
  const { clock, service, start, stopped } = asking(HOUR, { waitMs: 0, jitterMs: 0 })
  service.ask_ = refuses(kind)
  const acquiring = start()
  await clock.advance(600_000)
  expect(acquiring.over).toBe(false)
  stopped.abort()
})

it.each([
  ['longer than it waits for its turn', 60_000],
  ['shorter', HOUR],
])('C3.3 with jitter it ends at the moment of its own, be that %s', async (_, waitMs) => {
  const { clock, service, start } = asking(waitMs, { waitMs: 0, jitterMs: 123_456 })
  service.ask_ = refuses('service_unavailable')
  const acquiring = start()
  await clock.advance(123_455)
  expect(acquiring.over).toBe(false)
  await clock.advance(1)
  expect(kindOf(acquiring.error)).toBe('service_unavailable')
})

it('C3.3 a service that is back before that moment decides as ever', async () => {
  const { clock, service, start } = asking(HOUR, { waitMs: 0, jitterMs: 123_456 })
  service.ask_ = refuses('nomad_unavailable')
  const acquiring = start()
  await clock.advance(100_000)
  service.ask_ = () => granted()
  await clock.advance(5_000)
  expect(acquiring.value?.id).toBe('h1')
  await acquiring.value?.release('done')
})

it('a service that takes a call and never answers does not hold it for ever', async () => {
  const { clock, service, start } = asking(5_000)
  service.ask_ = hangs
  const acquiring = start()
  await clock.advance(15_000)
  expect(kindOf(acquiring.error)).toBe('service_unavailable')
})

it('a wait of 0 asks once', async () => {
  const { service, start } = asking(0)
  service.ask_ = () => waiting('full')
  const acquiring = start()
  await settle(5)
  expect(kindOf(acquiring.error)).toBe('full')
  expect(service.asks.map(({ waitMs }) => waitMs)).toEqual([0])
})

it('what the service refuses for good is not asked again', async () => {
  const { service, start } = asking()
  service.ask_ = refuses('unknown_allocation')
  const acquiring = start()
  await settle(5)
  expect(kindOf(acquiring.error)).toBe('unknown_allocation')
  expect(service.asks).toHaveLength(1)
})

it('C4.10 the answer to a grant is lost: the call is repeated with the same key', async () => {
  const { clock, service, start } = asking()
  service.ask_ = inTurn<Answer>(refuses('service_unavailable'), refuses('shutting_down'), () => granted())
  const acquiring = start()
  await clock.advance(2_000)
  expect(acquiring.value?.id).toBe('h1')
  expect(service.asks).toHaveLength(3)
  expect(keysOf(service.asks)).toBe(1)
  await acquiring.value?.release('done')
})

it('C4.9 granted, then frozen for 90 s before acting: it does not act, and asks again as somebody else', async () => {
  const { clock, service, start, names } = asking()
  let answer: (answer: Answer) => void = () => {}
  service.ask_ = inTurn<Answer>(
    () => new Promise((resolve) => (answer = resolve)),
    () => granted({ hold: 'h2', token: 8 }),
  )
  const acquiring = start()
  await settle()
  clock.freeze(90_000)
  answer(granted())
  await clock.advance(5_000)
  expect(acquiring.value?.token).toBe(8)
  expect(keysOf(service.asks)).toBe(2)
  expect(service.renewals.map(({ hold }) => hold)).toEqual(['h2'])
  expect(service.releases).toMatchObject([{ hold: 'h1', outcome: 'abandoned' }])
  expect(names()).toEqual(['given_up', 'granted'])
  await acquiring.value?.release('done')
})

it('C4.9 a grant whose lease is gone by the time of the first renewal is asked for again as somebody else', async () => {
  const { clock, service, start } = asking()
  service.ask_ = inTurn<Answer>(
    () => granted(),
    () => granted({ hold: 'h2', token: 8 }),
  )
  service.renew_ = inTurn<void>(refuses('lease_lost'), () => undefined)
  const acquiring = start()
  await clock.advance(5_000)
  expect(acquiring.value?.token).toBe(8)
  expect(keysOf(service.asks)).toBe(2)
  await acquiring.value?.release('done')
})

it('leases that are lost again and again before anything was done end the waiting as unavailable, not as a lost lease', async () => {
  const { clock, service, start } = asking(30_000)
  service.renew_ = refuses('lease_lost')
  const acquiring = start()
  await clock.advance(60_000)
  expect(kindOf(acquiring.error)).toBe('service_unavailable')
  expect(service.asks.length).toBeLessThan(30)
})

it('who is stopped while it waits withdraws by closing the call, and releases nothing', async () => {
  const { clock, service, start, stopped } = asking()
  let closed = false
  service.ask_ = (signal) => {
    signal.addEventListener('abort', () => (closed = true))
    return hangs(signal)
  }
  const acquiring = start()
  await settle()
  stopped.abort(new Error('stopped'))
  await settle(5)
  expect(closed).toBe(true)
  expect(String(acquiring.error)).toContain('stopped')
  expect(service.releases).toEqual([])
  expect(clock.pending).toBe(0)
})

it('C4.5 who is stopped between its grant and its first renewal releases as abandoned', async () => {
  const { service, start, stopped, clock } = asking()
  service.renew_ = hangs
  const acquiring = start()
  await settle()
  stopped.abort(new Error('stopped'))
  await settle(5)
  expect(String(acquiring.error)).toContain('stopped')
  expect(service.releases).toMatchObject([{ hold: 'h1', outcome: 'abandoned' }])
  expect(clock.pending).toBe(0)
})

it('a hold that was acquired has been renewed, and its lease is in no event', async () => {
  const { service, start, events } = asking()
  const acquiring = start()
  await settle(5)
  const hold = acquiring.value as Hold
  expect(hold.valid()).toBe(true)
  expect(service.renewals).toHaveLength(1)
  expect(JSON.stringify(events)).not.toContain('secret-lease')
  await hold.release('done')
})
