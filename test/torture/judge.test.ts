// The judges bite: a run as it should be has no violation, and each sin that is planted into it is found.
import { describe, expect, it } from 'vitest'
import type { Evidence } from './evidence.ts'
import type { ActLine, FencedLine, WorkloadLine } from './journal.ts'
import { judge } from './judge/judge.ts'
import { note, type History } from './recorder.ts'
import { emptyState, type State, type TransitionKind } from '../../src/core/state.ts'

const job = { namespace: 'default', job: 'j', group: 'solo' }
const shared = { shared: 'north' }
const SECOND = 1_000

function history(name: string, maxParallel: number, isShared: boolean): History {
  const empty = { transitions: [], holds: new Map(), mostHolds: 0, missed: 0, faults: [], state: null, index: 0 }
  return { name, path: name, maxParallel, shared: isShared, ...empty }
}

/** Transitions at their second, each stored by a write of its own: index 10 × second. */
function written(one: History, scope: State['scope'], steps: readonly (readonly [number, TransitionKind, number])[]): History {
  let state = emptyState(scope)
  for (const [second, kind, token] of steps) {
    const entry = { seq: state.transitions.length + 1, at: second * SECOND, kind, unit: `u${token}`, token, reason: '' }
    const grants = kind === 'granted' ? token : state.grants
    state = { ...state, grants, transitions: [...state.transitions, entry] }
    note(one, { ModifyIndex: second * 10, Items: { state: JSON.stringify(state) } }, second * SECOND)
  }
  return one
}

function shim(name: string, semaphore: string, unit: string, token: number): Evidence['shims'][number] {
  const wish = { semaphore, unit, shared: semaphore === 'north', wait: '1m', thinkMs: 0, nomad: [] }
  const events = [{ event: 'granted', hold: `h${token}`, token, slot: 0, scope: '' } as const]
  const ended = { startedAt: 0, endedAt: 90 * SECOND, code: 0, signal: null, sent: [] }
  return { name, wish, ...ended, events, output: `LOCKKEEPER_TOKEN=${token}\n` }
}

/** An act that restarts `unit` at this second. */
function act(name: string, unit: string, token: number, second: number): ActLine[] {
  const at = second * SECOND
  return [
    { at, shim: name, event: 'begin', unit, token, hold: `h${token}`, pid: 1 },
    { at: at + 10, shim: name, event: 'call', nth: 0, address: 'a' },
    { at: at + 500, shim: name, event: 'answer', nth: 0, status: 200, text: '' },
    { at: at + 510, shim: name, event: 'end', code: 0 },
  ]
}

/** Down from this second, healthy two seconds later. */
function restarted(allocation: string, second: number): WorkloadLine[] {
  const line = (event: WorkloadLine['event'], at: number) => ({ at: at * SECOND, event, allocation, group: 'solo', pid: 1 })
  return [line('stop', second + 0.1), line('start', second + 1), line('healthy', second + 2)]
}

function written1(token: number, second: number, step: FencedLine['step'] = 'enter', accepted = true): FencedLine {
  return { at: second * SECOND, name: 'north', token, hold: `h${token}`, shim: `n${token}`, step, accepted }
}

/** Two restarts of a group with one slot, and two acts in a shared semaphore. */
function fine(): { -readonly [K in keyof Evidence]: Evidence[K] } {
  const solo = written(history('solo', 1, false), job, [
    [10, 'granted', 1],
    [11, 'released', 1],
    [15, 'healthy', 1],
    [20, 'granted', 2],
    [21, 'released', 2],
    [25, 'healthy', 2],
  ])
  const north = written(history('north', 1, true), shared, [
    [10, 'granted', 1],
    [12, 'released', 1],
    [13, 'granted', 2],
    [15, 'released', 2],
  ])
  return {
    endedAt: 100 * SECOND,
    workloads: [...restarted('u1', 10.1), ...restarted('u2', 20.1)],
    acts: [...act('s1', 'u1', 1, 10.1), ...act('s2', 'u2', 2, 20.1)],
    fenced: [written1(1, 10.5), written1(1, 11, 'leave'), written1(2, 13.5), written1(2, 14, 'leave')],
    faults: [],
    histories: [solo, north],
    locks: [],
    shims: [shim('s1', 'solo', 'u1', 1), shim('s2', 'solo', 'u2', 2), shim('n1', 'north', 'x', 1), shim('n2', 'north', 'y', 2)],
    allocations: [],
    logs: [],
    accidents: [],
    left: [],
  }
}

const lock = { shuts: ['solo'], answeredAt: 18 * SECOND, index: 180, inFlight: [], unlockedAt: 30 * SECOND }
const frozen = { at: 10.2 * SECOND, kind: 'freeze', target: 'shim', who: 's1', until: 16 * SECOND } as const

const SINS: readonly [string, (evidence: ReturnType<typeof fine>) => void, RegExp][] = [
  [
    'two hold at once',
    (e) =>
      void written(clear(e.histories[0]), job, [
        [10, 'granted', 1],
        [12, 'granted', 2],
      ]),
    /held together/,
  ],
  [
    'a token is granted twice',
    (e) =>
      void written(clear(e.histories[0]), job, [
        [10, 'granted', 1],
        [12, 'unchanged', 1],
        [13, 'granted', 1],
      ]),
    /was granted after/,
  ],
  [
    'grants fall',
    (e) => note(e.histories[0] as History, { ModifyIndex: 900, Items: { state: JSON.stringify(emptyState(job)) } }, 1),
    /grants fell/,
  ],
  ['a token is given to two', (e) => (e.shims = [...e.shims, shim('s3', 'solo', 'u2', 2)]), /was given to/],
  [
    'a grant that was taken back is acted on',
    (e) =>
      void written(clear(e.histories[0]), job, [
        [10, 'granted', 1],
        [12, 'taken_back', 1],
      ]),
    /taken back/,
  ],
  ['an act after a lock', (e) => (e.locks = [lock]), /did not name it/],
  ['two are down at once', (e) => (e.workloads = [...restarted('u1', 10.1).slice(0, 1), ...restarted('u2', 20.1)]), /2 down/],
  ['a restart that nobody asked for', (e) => (e.workloads = [...e.workloads, ...restarted('u3', 50)]), /nobody had asked/],
  [
    'a restart when its hold is over',
    (e) => ((e.acts = act('s1', 'u1', 1, 16)), (e.workloads = restarted('u1', 16))),
    /was over/,
  ],
  ['the fence lets an old token in', (e) => (e.fenced = [...e.fenced, written1(1, 16, 'write')]), /was accepted/],
  ['two act in a shared semaphore', (e) => (e.fenced = [...e.fenced, written1(1, 14.5, 'write', false)]), /acts at/],
  ['a shim ends otherwise than documented', (e) => (e.shims = e.shims.map((one) => ({ ...one, code: 1 }))), /ended with 1/],
  ['a replica logs an error', (e) => (e.logs = [{ level: 50, msg: 'oh' }]), /logs an error/],
  ['something is left', (e) => (e.left = ['a request is left']), /is left/],
]

describe('the judges of the torture', () => {
  it('find nothing in a run as it should be', () => {
    expect(judge(fine()).violations).toEqual([])
  })

  it('take what a frozen process does late for what it is', () => {
    const evidence = { ...fine(), acts: [...act('s1', 'u1', 1, 16), ...act('s2', 'u2', 2, 20.1)], faults: [frozen] }
    evidence.workloads = [...restarted('u1', 16), ...restarted('u2', 20.1)]
    expect(judge(evidence).violations).toEqual([])
  })

  it.each(SINS)('%s', (_, sin, words) => {
    const evidence = fine()
    sin(evidence)
    expect(judge(evidence).violations.join('\n')).toMatch(words)
  })
})

function clear(one: History | undefined): History {
  return Object.assign(one as History, history('solo', 1, false))
}
