// What a client process does: each load runs until it is stopped, and counts.
import { NomadApi } from './nomad-api.ts'
import { Wire } from './wire.ts'

export type Load =
  /** Each caller asks, holds for a while, releases, and asks again. */
  | {
      readonly kind: 'holds'
      readonly address: string
      readonly names: readonly string[]
      readonly callers: number
      readonly holdMs: number
    }
  /** Each caller takes one of these Nomad locks and gives it back; who does not get it tries again at once. */
  | { readonly kind: 'locks'; readonly nomad: Nomad; readonly paths: readonly string[]; readonly callers: number }
  /** Check-and-set writes of one variable, one after another, `pauseMs` between them; with `list`, what is below it is listed after
   *  each of them. */
  | {
      readonly kind: 'writes'
      readonly nomad: Nomad
      readonly path: string
      readonly callers: number
      readonly pauseMs: number
      readonly list?: string
    }
  /** One asks and holds; all others ask, `perSecond` of them a second, and wait. */
  | {
      readonly kind: 'crowd'
      readonly address: string
      readonly name: string
      readonly first: number
      readonly callers: number
      readonly perSecond: number
    }

export interface Nomad {
  readonly address: string
  readonly token?: string | undefined
}

export interface Counts {
  done: number
  errors: number
  lastError: string
  /** In milliseconds: of a write, or from a release to the next grant. */
  times: number[]
  /** Of a crowd: when each one asked (wall time, in milliseconds). */
  asked: number[]
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Begins; what is going on is in the counts. It ends with the process. */
export function begin(load: Load): Counts {
  const counts: Counts = { done: 0, errors: 0, lastError: '', times: [], asked: [] }
  const start = { holds: beginHolds, locks: beginLocks, writes: beginWrites, crowd: beginCrowd }[load.kind]
  start(load as never, counts)
  return counts
}

/** Again and again; an error is counted, and does not end it. */
function repeat(counts: Counts, work: () => Promise<void>): void {
  const turn = async (): Promise<void> => {
    for (;;) {
      await work().catch(async (error: unknown) => {
        counts.errors++
        counts.lastError = String(error)
        await sleep(100)
      })
    }
  }
  void turn()
}

interface Granted {
  readonly hold: string
  readonly lease: string
}

function beginHolds({ address, names, callers, holdMs }: Extract<Load, { kind: 'holds' }>, counts: Counts): void {
  const releasedAt = new Map<string, number>()
  for (let nth = 0; nth < callers; nth++) {
    const wire = new Wire(address)
    const shared = names[nth % names.length] as string
    repeat(counts, async () => {
      const body = { shared, unit: `unit-${nth}`, reason: 'bench', key: `${nth}-${Math.random()}` }
      const granted = await ask(wire, body, '60s')
      const since = releasedAt.get(shared)
      if (since !== undefined) counts.times.push(performance.now() - since)
      if (holdMs > 0) await sleep(holdMs)
      releasedAt.set(shared, performance.now())
      const { status, text } = await wire.call('POST', `/v1/holds/${granted.hold}/release`, { lease: granted.lease })
      if (status !== 200) throw new Error(`a release was answered ${status} ${text}`)
      counts.done++
    })
  }
}

/** Asks until granted: waiting is no error. */
async function ask(wire: Wire, body: object, wait: string): Promise<Granted> {
  for (;;) {
    const { status, text } = await wire.call('POST', `/v1/holds?wait=${wait}`, body)
    if (status === 201) return JSON.parse(text) as Granted
    if (status !== 429) throw new Error(`an ask was answered ${status} ${text}`)
  }
}

function beginLocks({ nomad, paths, callers }: Extract<Load, { kind: 'locks' }>, counts: Counts): void {
  for (let nth = 0; nth < callers; nth++) {
    const api = new NomadApi(nomad.address, nomad.token)
    const path = paths[nth % paths.length] as string
    repeat(counts, async () => {
      const id = await api.acquire(path)
      if (id === null) return
      await api.release(path, id)
      counts.done++
    })
  }
}

function beginWrites({ nomad, path, callers, pauseMs, list }: Extract<Load, { kind: 'writes' }>, counts: Counts): void {
  for (let nth = 0; nth < callers; nth++) {
    const api = new NomadApi(nomad.address, nomad.token)
    let index = 0
    repeat(counts, async () => {
      const at = performance.now()
      index = await api.put(`${path}-${nth}`, index)
      if (list !== undefined) await api.list(list)
      counts.times.push(performance.now() - at)
      counts.done++
      if (pauseMs > 0) await sleep(pauseMs)
    })
  }
}

function beginCrowd({ address, name, first, callers, perSecond }: Extract<Load, { kind: 'crowd' }>, counts: Counts): void {
  const enter = async (nth: number): Promise<void> => {
    const wire = new Wire(address)
    const body = { shared: name, unit: `unit-${nth}`, reason: 'bench', key: `key-${nth}` }
    counts.asked[nth - first] = Date.now()
    const { hold, lease } = await ask(wire, body, '10m')
    counts.done++
    for (;;) {
      await sleep(5_000)
      await wire.call('POST', `/v1/holds/${hold}/renew`, { lease })
    }
  }
  const startedAt = performance.now()
  let entered = 0
  const timer = setInterval(() => {
    const due = Math.min(callers, Math.ceil(((performance.now() - startedAt) / 1_000) * perSecond))
    while (entered < due) {
      enter(first + entered++).catch((error: unknown) => {
        counts.errors++
        counts.lastError = String(error)
      })
    }
    if (entered >= callers) clearInterval(timer)
  }, 2)
}
