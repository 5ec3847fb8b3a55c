import { expect, it } from 'vitest'
import { untilSignal } from '../../src/cli/until-signal.ts'
import type { Io } from '../../src/cli/io.ts'
import { ManualClock, settle } from '../support/manual-clock.ts'

function given(close: () => Promise<void>, start?: Promise<void>) {
  const clock = new ManualClock()
  const heard = new Set<(name: NodeJS.Signals) => void>()
  let stderr = ''
  const io = {
    clock,
    stderr: { write: (text: string) => void (stderr += text), isTTY: false },
    listen: (_: readonly NodeJS.Signals[], listener: (name: NodeJS.Signals) => void) => {
      heard.add(listener)
      return () => void heard.delete(listener)
    },
  } as unknown as Io
  const ending: { code?: number; error?: unknown } = {}
  untilSignal('it', async () => (await start, { close }), io).then(
    (code) => (ending.code = code),
    (error: unknown) => (ending.error = error),
  )
  const signal = (name: NodeJS.Signals) => heard.forEach((listener) => listener(name))
  return { clock, ending, signal, heard, stderr: () => stderr }
}
const hangs = () => new Promise<void>(() => undefined)

it('goes on until a signal comes, then closes and ends with 0', async () => {
  const world = given(() => Promise.resolve())
  await world.clock.advance(60_000)
  expect(world.ending).toEqual({})
  world.signal('SIGTERM')
  await settle()
  expect(world.ending).toEqual({ code: 0 })
  expect([world.heard.size, world.clock.pending]).toEqual([0, 0])
})

it('a second signal ends at once, and the exit code tells which', async () => {
  const world = given(hangs)
  world.signal('SIGTERM')
  await settle()
  expect(world.ending).toEqual({})
  world.signal('SIGINT')
  await settle()
  expect(world.ending).toEqual({ code: 130 })
})

it('a drain that takes too long ends with 1 and says so', async () => {
  const world = given(hangs)
  world.signal('SIGTERM')
  await world.clock.advance(19_999)
  expect(world.ending).toEqual({})
  await world.clock.advance(1)
  expect(world.ending).toEqual({ code: 1 })
  expect(world.stderr()).toContain('not closed after 20s')
})

it('a signal that comes while it starts closes it when it has started', async () => {
  let started = () => {}
  let closed = false
  const world = given(async () => void (closed = true), new Promise((resolve) => (started = resolve)))
  world.signal('SIGTERM')
  await settle()
  expect([closed, world.ending.code]).toEqual([false, undefined])
  started()
  await settle()
  expect([closed, world.ending.code]).toEqual([true, 0])
})

it('what cannot start is an error', async () => {
  const world = given(hangs, Promise.reject(new Error('taken')))
  await settle()
  expect(String(world.ending.error)).toContain('taken')
  expect(world.heard.size).toBe(0)
})
