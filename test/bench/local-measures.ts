// The figures that need no cluster: the decision itself, and the start of a shim.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { admit, inOrder, type Candidate, type Look } from '../../src/core/admission.ts'
import { fallbackPolicy } from '../../src/core/policy.ts'
import { emptyState } from '../../src/core/state.ts'
import { percentile, type Figure } from './figures.ts'
import { BIN } from './processes.ts'

const WAITING = 1_000
const UNITS = 2_000
const STARTS = 15

export async function admission(): Promise<Figure[]> {
  const scope = { namespace: 'default', job: 'web', group: 'api' }
  const { policy } = fallbackPolicy(scope)
  const place = (nth: number) => `web.api[${nth}]`
  const units = Array.from({ length: UNITS }, (_, nth) => ({
    id: `allocation-${nth}`,
    place: place(nth),
    up: nth % 100 !== 0,
    why: 'it is pending',
    startedAt: 0,
  }))
  const down = new Map(units.filter(({ up }) => !up).map((unit) => [unit.place, unit.why]))
  const look: Look = { locked: null, deploying: false, group: { units, down } }
  const queue: Candidate[] = Array.from({ length: WAITING }, (_, nth) => {
    const unit = (nth * 7) % UNITS
    return {
      id: `${nth}`,
      unit: `allocation-${unit}`,
      place: place(unit),
      priority: nth % 3,
      deadline: null,
      createIndex: (nth * 31) % 997,
      ready: true,
      watched: false,
    }
  })
  const state = emptyState(scope)
  const generous = { ...policy, maxParallel: 10, maxUnavailable: 30 }
  const times = Array.from({ length: 2_000 }, () => {
    const at = performance.now()
    admit(state, inOrder(queue, state, look.group), look, generous, 1_000)
    return performance.now() - at
  }).slice(1_000)
  const value = percentile(times, 0.5)
  return [{ name: `admission, ${WAITING} waiting, ${UNITS} units, p50`, value, unit: 'ms', goal: '< 1 ms', met: value < 1 }]
}

/** From the start of the process until its ask arrives, against a Node that starts, does nothing and ends; in turns. */
export async function start(): Promise<Figure[]> {
  let arrived: () => void = () => undefined
  const server = createServer((_, response) => {
    arrived()
    response.writeHead(400, { 'content-type': 'application/problem+json' }).end('{"kind":"invalid_request","detail":"bench"}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const [shims, bare]: [number[], number[]] = [[], []]
  for (let nth = 0; nth < STARTS; nth++) {
    bare.push(await timed(['-e', '0'], (child) => once(child, 'exit')))
    const words = [BIN, 'run', '--addr', address, '--shared', 'bench', '--unit', 'bench', '--', 'true']
    shims.push(await timed(words, () => new Promise<void>((resolve) => (arrived = resolve))))
  }
  server.close()
  server.closeAllConnections()
  const [value, limit] = [percentile(shims, 0.5), percentile(bare, 0.5)]
  return [
    {
      name: 'lockkeeper run: until it asks, p50',
      value,
      unit: 'ms',
      limit: { name: 'node -e 0, p50', value: limit, unit: 'ms' },
      goal: '≤ 2.5 ×',
      met: value <= 2.5 * limit,
    },
  ]
}

async function timed(words: readonly string[], until: (child: ReturnType<typeof spawn>) => Promise<unknown>): Promise<number> {
  const at = performance.now()
  const child = spawn(process.execPath, words, { stdio: 'ignore' })
  const ended = once(child, 'exit')
  await until(child)
  const took = performance.now() - at
  await ended
  return took
}
