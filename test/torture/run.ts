// One run: everything is started, troubled for some minutes, left in peace until all have ended, and written down.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { paths as pathsOf } from '../../src/keeper/paths.ts'
import { Chance } from '../simulation/chance.ts'
import { clean, deploy, stored, storyOf } from './cluster.ts'
import { Crowd, type Allocation } from './crowd.ts'
import type { Evidence } from './evidence.ts'
import { FENCED, startFencedLog } from './fenced-log.ts'
import { ACTS, read, WORKLOADS, type Fault } from './journal.ts'
import { Nemesis } from './nemesis.ts'
import { Nomad } from './nomad.ts'
import { Operators } from './operators.ts'
import { Recorder } from './recorder.ts'
import { Replicas } from './replicas.ts'
import { Servers } from './servers.ts'
import type { Settings } from './settings.ts'
import { GROUPS, jobOf, LEASE_TTL_MS, SHARED } from './setup.ts'
import { Shims } from './shims.ts'

/** A start costs a good part of a second of a core: faster, and nothing else gets on. */
const FILL_EVERY_MS = 1_000
/** Shims wait for two minutes at most, and a bad value takes a while to be mended. */
const SHIMS_PATIENCE_MS = 360_000
/** What is left of leases is swept a minute after they ran out. */
const STORE_PATIENCE_MS = 240_000
const BIN = join(import.meta.dirname, '../../src/bin.js')
const here = (file: string) => join(import.meta.dirname, file)

export interface Outcome {
  readonly evidence: Evidence
  readonly leaders: number
  readonly operators: readonly string[]
  readonly replicaStarts: number
}

/** `interrupted` rejects when it is to end early: everything is ended and removed then, too. */
export async function run(
  settings: Settings,
  folder: string,
  say: (text: string) => void,
  interrupted: Promise<never>,
): Promise<Outcome> {
  const chance = new Chance(settings.seed)
  const id = `torture-${Date.now().toString(36)}`
  const paths = pathsOf(id)
  mkdirSync(join(folder, 'shims'), { recursive: true })
  const faults: Fault[] = []
  const nomad = new Nomad(settings.servers, settings.token)
  const env = {
    ...process.env,
    NOMAD_ADDR: settings.servers.join(','),
    ...(settings.token === null ? {} : { NOMAD_TOKEN: settings.token }),
    LOCKKEEPER_PREFIX: id,
    LOCKKEEPER_LEASE_TTL: `${LEASE_TTL_MS / 1_000}s`,
  }
  const servers = new Servers(settings, nomad, faults)
  const replicas = new Replicas(BIN, env, folder, faults)
  const operators = new Operators(BIN, env, nomad)
  const fenced = await startFencedLog(folder)
  const act = here('act.js')
  const shims = new Shims({ bin: BIN, act, folder, env, token: settings.token, fenced: `${fenced.address}/` }, faults)
  const recorder = new Recorder(nomad, semaphores(id, paths))
  const left: string[] = []

  async function whole(): Promise<Outcome> {
    await servers.start()
    say(`registers ${id} and starts ${replicas.names.length} replicas`)
    const { allocations, agent } = await deploy(nomad, id, jobOf(id, process.execPath, here('workload.js'), folder))
    await replicas.start()
    recorder.start()
    const crowd = new Crowd({
      chance: chance.fork(),
      shims,
      allocations,
      replicas: replicas.addresses,
      agent,
      servers: nomad.addresses,
    })
    const nemesis = new Nemesis({
      chance: chance.fork(),
      servers,
      replicas,
      shims,
      operators,
      recorder,
      paths,
      job: id,
      folder,
      faults,
      say,
    })

    nemesis.start()
    const endsAt = Date.now() + settings.minutes * 60_000
    while (Date.now() < endsAt) {
      crowd.fill(settings.shims)
      if (!faults.some(({ kind, until }) => kind === 'bad_value' && until === null)) crowd.mend(failedUnits(recorder))
      await sleep(FILL_EVERY_MS)
    }
    await nemesis.stop()
    say(`everything is left in peace: ${shims.running.length} shims, ${recorder.openHolds} holds`)
    await within(SHIMS_PATIENCE_MS, () => {
      crowd.mend(failedUnits(recorder))
      return shims.running.length === 0 && recorder.openHolds === 0 && failedUnits(recorder).length === 0
    })
    left.push(...unfinished(shims, recorder))
    say('waits until nothing is left stored')
    await within(STORE_PATIENCE_MS, async () => (await leftovers(nomad, id, replicas.names.length)).length === 0)
    left.push(...(await leftovers(nomad, id, replicas.names.length)))
    await replicas.stop()
    left.push(...(await leftovers(nomad, id, 0)))
    const stories = await Promise.all(allocations.map((one: Allocation) => storyOf(nomad, one)))
    const evidence: Evidence = {
      endedAt: Date.now(),
      workloads: read(folder, WORKLOADS),
      acts: read(folder, ACTS),
      fenced: read(folder, FENCED),
      faults,
      histories: recorder.histories,
      locks: operators.stories,
      shims: shims.all.map((shim) => ({ ...shim, events: shims.events(shim), output: shims.output(shim) })),
      allocations: stories,
      logs: replicas.logs(),
      accidents: replicas.accidents,
      left,
    }
    writeFileSync(join(folder, 'evidence.json'), JSON.stringify({ ...evidence, logs: undefined }, mapsAsEntries, 1))
    return { evidence, leaders: servers.leaders.length - 1, operators: operators.codes, replicaStarts: replicas.starts }
  }

  try {
    return await Promise.race([whole(), interrupted])
  } finally {
    await servers.allUp().catch(() => undefined)
    shims.killAll()
    replicas.killAll()
    await recorder.stop()
    await servers.stop()
    fenced.close()
    await clean(nomad, id, id).catch((error: unknown) => say(`not cleaned up: ${String(error)}`))
  }
}

function semaphores(job: string, paths: ReturnType<typeof pathsOf>) {
  const groups = GROUPS.map(({ name, maxParallel }) => {
    return { name, path: paths.semaphore({ namespace: 'default', job, group: name }), maxParallel, shared: false }
  })
  const shared = SHARED.map((name) => ({ name, path: paths.semaphore({ shared: name }), maxParallel: 1, shared: true }))
  return [...groups, ...shared]
}

function failedUnits({ histories }: Recorder): { unit: string; group: string }[] {
  return histories.flatMap(({ name, state }) => (state?.failures ?? []).map(({ unit }) => ({ unit, group: name })))
}

function unfinished(shims: Shims, { histories }: Recorder): string[] {
  const late = shims.running.map(({ name, wish }) => `${name} (${wish.semaphore}) has not ended`)
  const open = histories.flatMap(({ name, state }) =>
    (state?.holds ?? []).map(({ token, phase, outcome }) => `${name}: hold #${token} is still ${phase} (${outcome})`),
  )
  const failed = histories.flatMap(({ name, state }) =>
    (state?.failures ?? []).map(({ reason }) => `${name}: still failed: ${reason}`),
  )
  return [...late, ...open, ...failed]
}

/** Requests and leases beyond those that the replicas have for themselves. */
async function leftovers(nomad: Nomad, prefix: string, replicas: number): Promise<string[]> {
  const { requests, leases } = pathsOf(prefix)
  const there = await stored(nomad, `${prefix}/`)
  const asked = there.filter((path) => path.startsWith(requests)).map((path) => `a request is left: ${path}`)
  const held = there.filter((path) => path.startsWith(leases))
  return held.length <= replicas
    ? asked
    : [...asked, `${held.length} leases are left, ${replicas} replicas run: ${held.join(', ')}`]
}

async function within(ms: number, done: () => boolean | Promise<boolean>): Promise<void> {
  for (const endsAt = Date.now() + ms; Date.now() < endsAt; await sleep(1_000)) if (await done()) return
}

function mapsAsEntries(_: string, value: unknown): unknown {
  return value instanceof Map ? [...value] : value
}
