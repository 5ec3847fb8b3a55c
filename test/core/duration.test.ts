import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatDuration, parseDuration } from '../../src/core/duration.ts'

describe('a duration', () => {
  it.each([
    ['0', 0],
    ['0s', 0],
    ['10s', 10_000],
    ['90s', 90_000],
    ['1m30s', 90_000],
    ['1m0s', 60_000],
    ['24h0m0s', 86_400_000],
    ['1.5h', 5_400_000],
    ['0.5s', 500],
    ['250ms', 250],
    ['2us', 0.002],
    ['2µs', 0.002],
    ['1000000ns', 1],
    ['1h1m1s1ms', 3_661_001],
    ['30s30s', 60_000],
  ])('written as "%s" is %d ms', (text, ms) => {
    expect(parseDuration(text)).toBeCloseTo(ms, 9)
  })

  it.each([
    '',
    ' ',
    '10',
    '-5s',
    '+5s',
    '5 s',
    ' 5s',
    '5s ',
    '5S',
    '5d',
    '1w',
    's',
    '1m30',
    'm',
    '.s',
    '1..5s',
    '1e3s',
    '∞s',
    'NaN',
  ])('written as "%s" is none', (text) => {
    expect(parseDuration(text)).toBeNull()
  })

  it('longer than Nomad can hold is none, so that no deadline is endless', () => {
    expect(parseDuration(`${'9'.repeat(400)}h`)).toBeNull()
    expect(parseDuration('3000000h')).toBeNull()
    expect(parseDuration('2500000h')).toBe(9_000_000_000_000)
  })

  it.each([
    [0, '0s'],
    [0.4, '0s'],
    [1, '1ms'],
    [1.9, '1ms'],
    [999, '999ms'],
    [1_000, '1s'],
    [1_500, '1.5s'],
    [15_000, '15s'],
    [60_000, '1m0s'],
    [90_000, '1m30s'],
    [3_600_000, '1h0m0s'],
    [86_400_000, '24h0m0s'],
    [86_461_001, '24h1m1.001s'],
  ])('of %d ms is shown as Nomad shows it: %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text)
  })

  it('that is shown can be read again, to the millisecond', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10_000_000_000 }), (ms) => {
        expect(parseDuration(formatDuration(ms))).toBeCloseTo(ms, 3)
      }),
    )
  })

  it('is read the same whatever was read before', () => {
    expect(parseDuration('1m30x')).toBeNull()
    expect(parseDuration('1m30s')).toBe(90_000)
    expect(parseDuration('1m30s')).toBe(90_000)
  })
})
