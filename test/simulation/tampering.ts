// Deliberate faults, for the proof that the checks bite: each breaks one promise of the product from outside.
import type { Answer, Request } from '../../src/devnomad/devnomad.ts'
import type { Hold, State, TransitionKind } from '../../src/core/state.ts'
import type { Tamper } from './nomad-link.ts'

type Json = Record<string, unknown>

/** Every state that a replica writes is changed on its way. */
export function states(change: (state: State) => Json): Tamper {
  return {
    request(request) {
      if (request.method !== 'PUT' || !request.path.startsWith('/v1/var/lockkeeper/semaphores/')) return request
      const body = JSON.parse(request.body as string) as { Items: Record<string, string> }
      const state = { ...(JSON.parse(body.Items['state'] as string) as State) }
      const items = { ...body.Items, state: JSON.stringify({ ...state, ...change(state) }) }
      return { ...request, body: JSON.stringify({ ...body, Items: items }) }
    },
  }
}

export const holds = (change: (hold: Hold) => Partial<Hold>): Tamper =>
  states((state) => ({ holds: state.holds.map((hold) => ({ ...hold, ...change(hold) })) }))

/** Every write of a variable below this folder that is no lock operation. */
export function writes(folder: string, change: (request: Request) => Request): Tamper {
  return {
    request(request) {
      const meant = request.method === 'PUT' && request.path.startsWith(`/v1/var/lockkeeper/${folder}`)
      return meant && !request.path.includes('lock-') ? change(request) : request
    },
  }
}

/** What Nomad answers to reads whose path matches. */
export function answers<T>(matches: RegExp, change: (body: T, request: Request) => unknown): Tamper {
  return {
    answer(request, answer): Answer {
      if (answer.status !== 200 || !matches.test(request.path) || request.method !== 'GET') return answer
      return { ...answer, body: JSON.stringify(change(JSON.parse(answer.body) as T, request)) }
    },
  }
}

interface Listed {
  readonly Path: string
}
/** Variables that no list shows. */
export const hidden = (isHidden: (path: string) => boolean): Tamper =>
  answers<Listed[]>(/^\/v1\/vars/, (rows) => rows.filter(({ Path }) => !isHidden(Path)))

interface Row {
  readonly ID: string
  readonly TaskStates: unknown
}
/** Each allocation is for ever as it was when it was first seen running. */
export function frozen(): Tamper {
  const first = new Map<string, Row>()
  return answers<Row[]>(/\/allocations\?/, (rows) =>
    rows.map((row) => {
      const kept = first.get(row.ID) ?? row
      if (JSON.stringify(row.TaskStates).includes('"running"')) first.set(row.ID, kept)
      return kept
    }),
  )
}

/** Every allocation and each of its tasks runs. */
export const looksUp = (): Tamper =>
  answers<{ readonly TaskStates: Readonly<Record<string, object>> | null }[]>(/\/allocations\?/, (rows) =>
    rows.map((row) => {
      const tasks = Object.entries(row.TaskStates ?? {}).map(([name, task]) => [
        name,
        { ...task, State: 'running', Failed: false, Events: [] },
      ])
      return { ...row, ClientStatus: 'running', TaskStates: Object.fromEntries(tasks) as object }
    }),
  )

/** Now and then, for half a minute, no allocation is seen. */
export function losesSight(): Tamper {
  let lists = 0
  return answers<Row[]>(/\/allocations\?/, (rows) => (++lists % 150 < 75 ? rows : []))
}

interface Created {
  readonly Path: string
  readonly CreateIndex: number
}
/** Who came first is read in any order. */
export function shuffled(): Tamper {
  const other = (row: Created): Created =>
    row.Path.includes('/requests/') ? { ...row, CreateIndex: (row.CreateIndex * 7_919) % 97 } : row
  return answers<Created | Created[]>(/^\/v1\/var/, (found) => (Array.isArray(found) ? found.map(other) : other(found)))
}

/** Every acquire of a lease. */
export const acquires = (change: (request: Request) => Request): Tamper => ({
  request: (request) => (request.path.includes('lock-acquire') ? change(request) : request),
})

/** All lock IDs are one. */
export const ONE_LOCK_ID: Tamper = acquires((request) => {
  const body = JSON.parse(request.body as string) as { Lock: Json }
  return { ...request, body: JSON.stringify({ ...body, Lock: { ...body.Lock, ID: '11111111-1111-4111-8111-111111111111' } }) }
})

/** A hold is over when it is released, and that is called by another name. */
export const forgotten = (name: TransitionKind): Tamper =>
  states(({ holds: all, transitions }) => ({
    holds: all.filter(({ phase }) => phase === 'acting'),
    transitions: transitions.map((one) => (one.kind === 'released' ? { ...one, kind: name } : one)),
  }))

/** Whoever grants takes back what was granted in the moment before, which perhaps nobody was told yet. */
export const takesBackTheLast = (momentMs: number): Tamper =>
  states(({ holds: all, transitions }) => {
    const newest = transitions.at(-1)
    if (newest?.kind !== 'granted') return {}
    const isYoung = ({ phase, token, grantedAt }: Hold) =>
      phase === 'acting' && token !== newest.token && newest.at - grantedAt <= momentMs
    const back = all.filter(isYoung).map(({ unit, token }, nth) => {
      const seq = newest.seq + 1 + nth
      return { seq, at: newest.at, kind: 'taken_back' as const, unit, token, reason: 'of somebody else' }
    })
    return { holds: all.filter((hold) => !isYoung(hold)), transitions: [...transitions, ...back] }
  })

/** Each renewal of a lease is answered as one that was done. */
export function onlySeemsRenewed(): Tamper {
  const elsewhere = '/v1/status/leader'
  const body = JSON.stringify({ Path: 'lockkeeper', CreateIndex: 1, ModifyIndex: 1 })
  return {
    request(request) {
      const meant = request.path.includes('lock-renew') && !request.path.includes('replicas')
      return meant ? { method: 'GET', path: elsewhere } : request
    },
    answer: (request, answer) => (request.path === elsewhere ? { ...answer, status: 200, body } : answer),
  }
}

interface Started extends Row {
  readonly TaskStates: Record<string, object> | null
}
/** Every task looks as if it had been started a moment ago, again. */
export const startedJustNow = (): Tamper =>
  answers<Started[]>(/\/allocations\?/, (rows) =>
    rows.map((row) => ({
      ...row,
      TaskStates: Object.fromEntries(
        Object.entries(row.TaskStates ?? {}).map(([name, task]) => [
          name,
          { ...task, Restarts: 99, StartedAt: '2030-01-01T00:00:00Z' },
        ]),
      ),
    })),
  )

/** The removal of a managed request always comes too late. */
export const unremoved = (): Tamper => ({
  request(request) {
    const meant = request.method === 'DELETE' && request.path.includes('/~m')
    return meant ? { ...request, path: request.path.replace(/cas=\d+/, 'cas=1') } : request
  },
})

/** What was asked for once is listed for ever. */
export function undying(): Tamper {
  const rows = new Map<string, Listed>()
  return answers<Listed[]>(/^\/v1\/vars/, (listed, { path }) => {
    for (const row of listed) if (row.Path.includes('/~m')) rows.set(row.Path, row)
    const prefix = new URLSearchParams(path.slice(path.indexOf('?'))).get('prefix') ?? ''
    const there = new Set(listed.map(({ Path }) => Path))
    return [...listed, ...[...rows.values()].filter(({ Path }) => Path.startsWith(prefix) && !there.has(Path))]
  })
}
