import { expect, it } from 'vitest'
import { kindOf, Problem, type ErrorKind } from '../../src/core/errors.ts'
import { takeHold, type Hold } from '../../src/shim/hold.ts'
import { settle } from '../support/manual-clock.ts'
import { given, GRANT, hangs, inTurn, refuses, watched } from './scripted-service.ts'

const never = new AbortController().signal

async function held(more: Partial<typeof GRANT> = {}) {
  const world = given()
  const hold = (await takeHold(world.deps, { ...GRANT, ...more }, never)) as Hold
  return { ...world, hold }
}

it('the first step after a grant is a renewal, and only when that succeeded may be acted', async () => {
  const { clock, service, deps } = given()
  service.renew_ = inTurn(refuses('nomad_unavailable'), () => undefined)
  const taking = watched(takeHold(deps, GRANT, never))
  await settle()
  expect(taking.over).toBe(false)
  await clock.advance(1_000)
  const hold = taking.value as Hold
  expect(hold.valid()).toBe(true)
  expect(service.renewals.map(({ at }) => at)).toEqual([0, 750])
  await hold.release('abandoned')
})

it('a grant whose lease is lost already is given up, whatever its answer said', async () => {
  const { service, deps } = given()
  service.renew_ = refuses('lease_lost')
  const taken = await takeHold(deps, GRANT, never)
  expect(taken).toBeInstanceOf(Problem)
  expect(kindOf(taken)).toBe('lease_lost')
})

it('a grant that cannot be renewed is given up after one time to live', async () => {
  const { clock, service, deps } = given()
  service.renew_ = refuses('service_unavailable')
  const taking = watched(takeHold(deps, GRANT, never))
  await clock.advance(14_000)
  expect(taking.over).toBe(false)
  await clock.advance(2_000)
  expect(kindOf(taking.value)).toBe('service_unavailable')
})

it('renewals go on in their time for as long as the hold lasts, and no timer is left after it', async () => {
  const { clock, service, hold } = await held()
  await clock.advance(60_000)
  expect(service.renewals.map(({ at }) => at).slice(0, 4)).toEqual([0, 5_000, 10_000, 15_000])
  expect(hold.valid()).toBe(true)
  expect(await hold.release('done')).toEqual({ released: true })
  await settle()
  expect(clock.pending).toBe(0)
  const renewed = service.renewals.length
  await clock.advance(60_000)
  expect(service.renewals).toHaveLength(renewed)
})

it('C4.8 no leader for 20 s: renewals are tried again and the hold goes on', async () => {
  const { clock, service, hold, names } = await held({ ttlMs: 30_000, renewEveryMs: 10_000 })
  await clock.advance(10_500)
  service.renew_ = refuses('nomad_unavailable')
  await clock.advance(20_000)
  service.renew_ = () => undefined
  await clock.advance(60_000)
  expect(hold.valid()).toBe(true)
  expect(names()).toEqual(['renew_failed'])
  await hold.release('done')
})

it('C4.8 no leader for 60 s: the lease is taken as lost 30 s after the last renewal that succeeded was sent', async () => {
  const { clock, service, hold, names } = await held({ ttlMs: 30_000, renewEveryMs: 10_000 })
  await clock.advance(10_500)
  service.renew_ = refuses('nomad_unavailable')
  await clock.advance(29_499)
  expect(hold.signal.aborted).toBe(false)
  await clock.advance(1)
  expect(clock.now()).toBe(40_000)
  expect(kindOf(hold.signal.reason)).toBe('lease_lost')
  service.renew_ = () => undefined
  await clock.advance(60_000)
  expect(hold.valid()).toBe(false)
  expect(names()).toEqual(['renew_failed', 'lease_lost'])
})

it('the watchdog does not wait for a renewal that hangs', async () => {
  const { clock, service, hold } = await held()
  service.renew_ = hangs
  await clock.advance(14_999)
  expect(hold.signal.aborted).toBe(false)
  await clock.advance(1)
  expect(kindOf(hold.signal.reason)).toBe('lease_lost')
  expect(service.renewals).toHaveLength(2)
})

it('the time counts from when a renewal was sent, not from when it was answered', async () => {
  const { clock, service, hold } = await held()
  service.renew_ = inTurn<void>(() => clock.sleep(4_000), hangs)
  await clock.advance(9_500)
  expect(service.renewals.map(({ at }) => at)).toEqual([0, 5_000])
  await clock.advance(10_499)
  expect(hold.signal.aborted).toBe(false)
  await clock.advance(1)
  expect(clock.now()).toBe(20_000)
  expect(hold.signal.aborted).toBe(true)
})

it.each(['lease_lost', 'not_holder', 'already_released', 'unknown_hold'] satisfies ErrorKind[])(
  'a renewal that is answered %s ends the right to act at once',
  async (kind) => {
    const { clock, service, hold } = await held()
    service.renew_ = refuses(kind)
    await clock.advance(5_000)
    expect(kindOf(hold.signal.reason)).toBe('lease_lost')
    expect(service.renewals).toHaveLength(2)
  },
)

it('a fault of the service is no lost lease: the renewal is repeated', async () => {
  const { clock, service, hold } = await held()
  service.renew_ = inTurn<void>(refuses('internal'), refuses('overloaded'), () => undefined)
  await clock.advance(30_000)
  expect(hold.valid()).toBe(true)
  await hold.release('done')
})

it('a process that wakes after its time is over may not act, before any timer has told it so', async () => {
  const { clock, hold, names } = await held()
  clock.freeze(15_000)
  expect(hold.valid()).toBe(false)
  expect(names()).toEqual(['lease_lost'])
  expect(kindOf(hold.signal.reason)).toBe('lease_lost')
})

it('a renewal that is answered after the time is over does not bring the lease back', async () => {
  const { clock, service, hold } = await held()
  let answer = () => {}
  service.renew_ = () => new Promise<void>((resolve) => (answer = resolve))
  await clock.advance(5_000)
  clock.freeze(14_000)
  answer()
  await settle()
  expect(hold.valid()).toBe(false)
  await clock.advance(20_000)
  expect(service.renewals).toHaveLength(2)
})

it('a release has a bound of 5 s of its own', async () => {
  const { clock, service, hold } = await held()
  service.release_ = hangs
  const releasing = watched(hold.release('done'))
  await clock.advance(4_999)
  expect(releasing.over).toBe(false)
  await clock.advance(1)
  expect(releasing.value).toMatchObject({ released: false })
  expect(clock.pending).toBe(0)
})

it.each(['already_released', 'unknown_hold'] satisfies ErrorKind[])(
  'a release whose answer was lost is repeated, and %s then says that it was done',
  async (kind) => {
    const { clock, service, hold } = await held()
    service.release_ = inTurn<void>(refuses('service_unavailable'), refuses(kind))
    const releasing = watched(hold.release('failed'))
    await clock.advance(1_000)
    expect(releasing.value).toEqual({ released: true })
    expect(service.releases.map(({ outcome }) => outcome)).toEqual(['failed', 'failed'])
  },
)

it.each(['already_released', 'unknown_hold', 'lease_lost', 'not_holder'] satisfies ErrorKind[])(
  'a first release that is answered %s was not ours, and is told so',
  async (kind) => {
    const { service, hold } = await held()
    service.release_ = refuses(kind)
    expect(await hold.release('done')).toEqual({ released: false, detail: `it is ${kind}` })
    expect(service.releases).toHaveLength(1)
  },
)

it('a release ends a renewal that is under way before it is sent', async () => {
  const { clock, service, hold, names } = await held()
  service.renew_ = hangs
  await clock.advance(5_000)
  expect(await hold.release('done')).toEqual({ released: true })
  expect(clock.pending).toBe(0)
  expect(hold.signal.aborted).toBe(false)
  expect(names()).toEqual([])
})
