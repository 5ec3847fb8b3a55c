// The figures of a replica under load, each with its limit.
import { percentile, type Figure } from './figures.ts'
import { connectionsTo, usage, type Replica } from './processes.ts'
import { sleep, type OpenStage, type Stage } from './stage.ts'

/** Until then V8 still makes the replica faster: it is to be measured as it is after days. */
const WARM_MS = 20_000
const MEASURE_MS = 6_000
const CALLERS = 32

export type Measure = (open: OpenStage) => Promise<Figure[]>

async function on<T>(open: OpenStage, work: (stage: Stage) => Promise<T>): Promise<T> {
  const stage = await open()
  try {
    return await work(stage)
  } finally {
    await stage.end()
  }
}

/** From a release to the next grant, while each holds for a moment, as the next one would be long prepared. */
export const handOver: Measure = (open) =>
  on(open, async (stage) => {
    const { nomad, prefix } = stage
    const replica = await stage.replica()
    const { address } = replica
    const cost = costOf(replica)
    const load = { kind: 'holds', address, names: ['bench'], callers: 4, holdMs: 25 } as const
    const holds = await stage.measured(load, WARM_MS, MEASURE_MS, cost.around)
    const path = `${prefix}/bench-write`
    const bareWrites = { kind: 'writes', nomad, path, callers: 1, pauseMs: 25 } as const
    const writes = await stage.measured(bareWrites, WARM_MS / 2, MEASURE_MS)
    // What the protocol asks for, without us: nobody is told before the locks were listed after the commit (G7).
    const listed = await stage.measured(
      { ...bareWrites, path: `${path}-listed`, list: `${prefix}/locks` },
      WARM_MS / 4,
      MEASURE_MS,
    )
    const [value, limit] = [percentile(holds.times, 0.5), percentile(writes.times, 0.5)]
    const bare = { name: 'one bare check-and-set, p50', value: limit, unit: 'ms' }
    const floor = `a check-and-set and a list of the locks, bare: ${percentile(listed.times, 0.5).toFixed(1)} ms`
    const note = `${floor}; p99 ${percentile(holds.times, 0.99).toFixed(1)} ms, ${cost.each(holds.done)} a grant${errorsOf(holds)}`
    return [
      {
        name: 'hand-over from release to grant, p50',
        value,
        unit: 'ms',
        limit: bare,
        goal: '≤ 2 ×',
        met: value <= 2 * limit,
        note,
      },
    ]
  })

/** Renewals cost Nomad no write (they are timed by the leader), so they do not count. */
export const writesPerRestart: Measure = (open) =>
  on(open, async (stage) => {
    const replica = await stage.replica()
    const { address } = replica
    const seen: number[] = []
    const stored = async () => (await stage.api.list(`${stage.prefix}/requests/`)).variables.length
    const around = async (begin: boolean) => {
      // What it costs to store the first thousand does not count.
      for (let left = 60; begin && left > 0 && (await stored()) < 990; left--) await sleep(1_000)
      seen.push(await nomadWrites(replica))
    }
    const load = { kind: 'holds', address, names: ['bench'], callers: 1_000, holdMs: 5 } as const
    const { done, ...rest } = await stage.measured(load, WARM_MS, 2 * MEASURE_MS, around)
    const value = ((seen[1] ?? 0) - (seen[0] ?? 0)) / done
    const name = 'Nomad writes per finished restart, 1,000 waiting'
    return [
      {
        name: `${name}, with a lease`,
        value,
        unit: 'writes',
        goal: '≤ 7',
        met: value <= 7,
        note: `${done} restarts${errorsOf(rest)}`,
      },
    ]
  })

export const throughput: Measure = (open) =>
  on(open, async (stage) => {
    const { nomad, prefix } = stage
    const replica = await stage.replica()
    const { address } = replica
    const [cost, costApart] = [costOf(replica), costOf(replica)]
    const many = (text: string) => Array.from({ length: CALLERS }, (_, nth) => `${text}-${nth}`)
    const holds = (names: string[], { around }: Cost) =>
      stage.measured({ kind: 'holds', address, names, callers: CALLERS, holdMs: 0 }, WARM_MS, MEASURE_MS, around)
    const locks = (paths: string[]) => stage.measured({ kind: 'locks', nomad, paths, callers: CALLERS }, WARM_MS / 2, MEASURE_MS)
    const one = await holds(['bench'], cost)
    const race = await locks([`${prefix}/bench-lock`])
    const apart = await holds(many('bench'), costApart)
    const alone = await locks(many(`${prefix}/bench-lock`))
    const rate = ({ done, seconds }: { done: number; seconds: number }) => done / seconds
    const [value, limit] = [rate(one), rate(race)]
    return [
      {
        name: `grants with ${CALLERS} callers on one semaphore`,
        value,
        unit: '/s',
        limit: { name: `${CALLERS} racing for one Nomad lock`, value: limit, unit: '/s' },
        goal: '≥ 3 ×, no errors',
        met: value >= 3 * limit && one.errors === 0,
        note: `${cost.each(one.done)} a grant, ${one.errors} errors ${one.lastError}`.trim(),
      },
      {
        name: `grants with ${CALLERS} callers on ${CALLERS} semaphores`,
        value: rate(apart),
        unit: '/s',
        limit: { name: `${CALLERS} Nomad locks without a race`, value: rate(alone), unit: '/s' },
        goal: 'no errors',
        met: apart.errors === 0,
        note: `${costApart.each(apart.done)} a grant, ${apart.errors} errors ${apart.lastError}`.trim(),
      },
    ]
  })

/** Ten thousand long polls at one replica, from two processes; one holds. V8 tidies up a while after the last has come: that is not
 *  what waiting costs. */
export const crowd: Measure = (open) =>
  on(open, async (stage) => {
    const WAITING = 10_000
    const SHARE = WAITING / 2
    const SETTLE_MS = 40_000
    const IDLE_MS = 20_000
    const { api, prefix, nomad } = stage
    const replica = await stage.replica()
    const { address } = replica
    const holder = stage.client({ kind: 'crowd', address, name: 'bench', first: WAITING, callers: 1, perSecond: 1_000 })
    while ((await holder.counts()).done === 0) await sleep(100)
    for (const first of [0, SHARE]) stage.client({ kind: 'crowd', address, name: 'bench', first, callers: SHARE, perSecond: 150 })
    const startedAt = performance.now()
    let stored = 0
    while (stored < WAITING && performance.now() - startedAt < 300_000) {
      await sleep(1_000)
      stored = (await api.list(`${prefix}/requests/`)).variables.length
    }
    const enteredS = (performance.now() - startedAt) / 1_000
    const full = usage(replica)
    await sleep(SETTLE_MS)
    const before = usage(replica)
    await sleep(IDLE_MS)
    const after = usage(replica)
    const connections = connectionsTo(replica, Number(new URL(nomad.address).port))
    const rss = after === null ? null : after.rssBytes / 2 ** 20
    const cpu = after === null || before === null ? null : ((after.cpuMs - before.cpuMs) / IDLE_MS) * 100
    const all = stored >= WAITING
    const note = `${stored} were stored after ${enteredS.toFixed(0)} s${full === null ? '' : `, with ${(full.rssBytes / 2 ** 20).toFixed(0)} MB then`}`
    return [
      {
        name: '10,000 waiting: memory',
        value: rss,
        unit: 'MB',
        goal: '< 250 MB',
        met: rss === null ? null : all && rss < 250,
        note,
      },
      {
        name: '10,000 waiting: processor, idle',
        value: cpu,
        unit: '% of a core',
        goal: '< 5 %',
        met: cpu === null ? null : all && cpu < 5,
      },
      {
        name: '10,000 waiting: connections to Nomad',
        value: connections,
        unit: '',
        goal: 'bounded (32)',
        met: connections === null ? null : all && connections <= 32,
      },
    ]
  })

/** When each request is stored is told by Nomad's own index, which is looked at every few milliseconds. */
export const burst: Measure = (open) =>
  on(open, async (stage) => {
    const ASKS = 5_000
    const { api, prefix, nomad } = stage
    const replica = await stage.replica()
    const { address } = replica
    const cost = costOf(replica)
    // Warm, as a replica that has been at work for a while.
    await stage.measured({ kind: 'holds', address, names: ['warm'], callers: 100, holdMs: 0 }, WARM_MS, 1)
    const holder = stage.client({ kind: 'crowd', address, name: 'bench', first: ASKS, callers: 1, perSecond: 1_000 })
    while ((await holder.counts()).done === 0) await sleep(100)
    const client = stage.client({ kind: 'crowd', address, name: 'bench', first: 0, callers: ASKS, perSecond: ASKS })
    const samples: { at: number; index: number }[] = []
    await cost.around()
    const startedAt = performance.now()
    let stored = new Map<number, number>()
    for (let nth = 1; stored.size < ASKS && performance.now() - startedAt < 60_000; nth++) {
      const { index } = await api.list(`${prefix}/nothing/`)
      samples.push({ at: Date.now(), index })
      await sleep(10)
      if (nth % 100 === 0) stored = storedUnits((await api.list(`${prefix}/requests/`)).variables)
    }
    await cost.around()
    const { asked, errors, lastError } = await client.counts()
    const late = [...stored].map(
      ([unit, index]) => (samples.find((one) => one.index >= index)?.at ?? Infinity) - (asked[unit] ?? 0),
    )
    await client.end()
    const value = percentile(late, 0.99)
    const bare = await stage.measured(
      { kind: 'writes', nomad, path: `${prefix}/bench-burst`, callers: CALLERS, pauseMs: 0 },
      2_000,
      MEASURE_MS,
    )
    const spread = Math.max(...asked) - Math.min(...asked)
    const note = `${ASKS - stored.size} lost, ${errors} errors ${lastError}, asked within ${spread} ms, p50 ${percentile(late, 0.5)} ms, ${cost.each(ASKS)} an ask`
    return [
      {
        name: '5,000 asks within a second: stored after, p99',
        value,
        unit: 'ms',
        limit: {
          name: `as many bare writes from ${CALLERS} workers`,
          value: (ASKS / (bare.done / bare.seconds)) * 1_000,
          unit: 'ms',
        },
        goal: '< 1 s, none lost',
        met: value < 1_000 && stored.size === ASKS && errors === 0,
        note,
      },
    ]
  })

interface Cost {
  /** Called before and after. */
  readonly around: () => Promise<void>
  readonly each: (done: number) => string
}

/** What the replica itself computes between two calls: on a machine with few processors the rest is its neighbours' time. */
function costOf(replica: Replica): Cost {
  const seen: number[] = []
  return {
    around: async () => void seen.push(usage(replica)?.cpuMs ?? Number.NaN),
    each: (done) => `${(((seen[1] ?? Number.NaN) - (seen[0] ?? Number.NaN)) / done).toFixed(1)} ms of the replica's processor`,
  }
}

function storedUnits(variables: readonly { Path: string; CreateIndex: number }[]): Map<number, number> {
  const units = variables.flatMap(({ Path, CreateIndex }) => {
    const unit = /bench\/unit-(\d+)$/.exec(Path)?.[1]
    return unit === undefined ? [] : [[Number(unit), CreateIndex] as const]
  })
  return new Map(units)
}

export async function nomadWrites({ address }: Replica): Promise<number> {
  const page = await (await fetch(`${address}/metrics`)).text()
  const counted = /^lockkeeper_nomad_request_duration_seconds_count\{.*what="variable\.(put|remove|acquire|release)".*\} (\d+)$/gm
  return [...page.matchAll(counted)].reduce((sum, [, , count]) => sum + Number(count), 0)
}

function errorsOf({ errors, lastError }: { readonly errors: number; readonly lastError: string }): string {
  return errors === 0 ? '' : `, ${errors} errors: ${lastError}`
}
