// Faults at random, several at a time, all from one seed.
import { setMaxListeners } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Paths } from '../../src/keeper/paths.ts'
import type { Chance } from '../simulation/chance.ts'
import { read, WORKLOADS, type Fault, type WorkloadLine } from './journal.ts'
import type { Operators } from './operators.ts'
import type { Recorder } from './recorder.ts'
import type { Replicas } from './replicas.ts'
import type { Servers } from './servers.ts'
import { GROUPS, MOODY, SHARED } from './setup.ts'
import type { Shims } from './shims.ts'

export interface NemesisDeps {
  readonly chance: Chance
  readonly servers: Servers
  readonly replicas: Replicas
  readonly shims: Shims
  readonly operators: Operators
  readonly recorder: Recorder
  readonly paths: Paths
  readonly job: string
  readonly folder: string
  readonly faults: Fault[]
  readonly say: (text: string) => void
}

/** One loop for each kind of victim, so that faults meet each other. `pauseMs`: between two of a kind, at least and at most. */
const LOOPS = {
  servers: { pauseMs: [4_000, 15_000] },
  replicas: { pauseMs: [4_000, 18_000] },
  shims: { pauseMs: [500, 4_000] },
  operators: { pauseMs: [12_000, 35_000] },
  values: { pauseMs: [15_000, 40_000] },
  workloads: { pauseMs: [10_000, 30_000] },
} as const

export class Nemesis {
  readonly #deps: NemesisDeps
  readonly #over = new AbortController()
  readonly #thaws = new Set<() => void>()
  readonly #beside = new Set<Promise<void>>()
  #done: Promise<unknown> = Promise.resolve()

  constructor(deps: NemesisDeps) {
    this.#deps = deps
    // As many wait with it as there are faults at a time; Node takes more than ten for a leak.
    setMaxListeners(0, this.#over.signal)
  }

  start(): void {
    const works: Record<keyof typeof LOOPS, (chance: Chance) => Promise<void>> = {
      servers: (chance) => this.#troubleServers(chance),
      replicas: (chance) => this.#troubleReplica(chance),
      shims: (chance) => this.#troubleShim(chance),
      operators: (chance) => this.#lock(chance),
      values: (chance) => this.#badValue(chance),
      workloads: (chance) => this.#crash(chance),
    }
    const names = Object.keys(LOOPS) as (keyof typeof LOOPS)[]
    this.#done = Promise.all(
      names.map(async (name) => {
        const chance = this.#deps.chance.fork()
        const [least, most] = LOOPS[name].pauseMs
        while (await this.#pause(chance.between(least, most))) await works[name](chance)
      }),
    )
  }

  /** Ends, and mends everything: what is frozen goes on, what is dead is started, what is locked is opened. */
  async stop(): Promise<void> {
    this.#over.abort()
    await this.#done
    await Promise.all(this.#beside)
    for (const thaw of this.#thaws) thaw()
    await this.#deps.servers.allUp()
    await this.#deps.operators.unlockAll()
  }

  /** False: it is over. */
  async #pause(ms: number): Promise<boolean> {
    await sleep(ms, undefined, { signal: this.#over.signal }).catch(() => undefined)
    return !this.#over.signal.aborted
  }

  async #troubleServers(chance: Chance): Promise<void> {
    const { servers, say } = this.#deps
    const any = chance.whole(1, servers.count)
    const victims = new Set([chance.happens(0.7) ? (servers.leader ?? any) : any])
    // Now and then there is no quorum for a while.
    if (chance.happens(0.1)) victims.add(chance.whole(1, servers.count))
    const how = chance.happens(0.5) ? 'kill' : 'stall'
    const ms = chance.skewed(1_500, 15_000)
    say(`${how} of server ${[...victims].join(' and ')} (the leader is ${servers.leader}) for ${Math.round(ms)} ms`)
    for (const victim of victims) await servers.down(victim, how)
    await this.#pause(ms)
    await servers.allUp()
  }

  async #troubleReplica(chance: Chance): Promise<void> {
    const { replicas, say } = this.#deps
    const name = chance.pick(replicas.names)
    const what = chance.weighted({ SIGKILL: 4, SIGTERM: 2, freeze: 4 })
    const ms = chance.skewed(500, what === 'freeze' ? 40_000 : 5_000)
    say(`${what} of replica ${name} for ${Math.round(ms)} ms`)
    const work = what === 'freeze' ? replicas.freeze(name, ms) : replicas.end(name, what, ms)
    // Another one may be hit meanwhile.
    if (chance.happens(0.6)) await work
    else this.#runBeside(work)
  }

  async #troubleShim(chance: Chance): Promise<void> {
    const { shims } = this.#deps
    const { running } = shims
    if (running.length === 0) return
    // Those that hold something are few among those that wait.
    const holding = running.filter((shim) =>
      shims.events(shim).some((event) => typeof event === 'object' && event.event === 'granted'),
    )
    const shim = chance.pick(holding.length > 0 && chance.happens(0.6) ? holding : running)
    const what = chance.weighted({ SIGKILL: 3, SIGTERM: 1, freeze: 4 })
    if (what !== 'freeze') return shims.send(shim, what)
    const thaw = shims.freeze(shim, chance.happens(0.5))
    this.#thaws.add(thaw)
    this.#runBeside(
      // Mostly short; or long enough for its lease to be lost.
      this.#pause(chance.happens(0.6) ? chance.skewed(500, 10_000) : chance.between(20_000, 45_000)).then(() => {
        thaw()
        this.#thaws.delete(thaw)
      }),
    )
  }

  async #lock(chance: Chance): Promise<void> {
    const { operators, paths, job, say } = this.#deps
    const [group, shared] = [chance.pick(GROUPS).name, chance.pick(SHARED)]
    const groups = GROUPS.map(({ name }) => name)
    const [flags, path, shuts] = chance.pick([
      [['--all'], paths.lock({}), [...groups, ...SHARED]],
      [['--job', job], paths.lock({ namespace: 'default', job }), groups],
      [['--job', job, '--group', group], paths.lock({ namespace: 'default', job, group }), [group]],
      [['--shared', shared], paths.lock({ shared }), [shared]],
    ] as const)
    const story = await operators.lock(flags, path, shuts)
    say(`lock ${flags.join(' ')}: ${story === null ? 'not known' : `locked, ${story.inFlight.length} in flight`}`)
    await this.#pause(chance.between(1_000, 15_000))
    await operators.unlock(path, story)
  }

  /** The moody group gets a value that no process of it becomes healthy with, until one has failed, or for a while. */
  async #badValue(chance: Chance): Promise<void> {
    const { folder, faults, recorder, say } = this.#deps
    const moody = recorder.histories.find(({ name }) => name === MOODY)
    if (moody?.state == null || moody.state.failures.length > 0 || moody.state.halted !== null) return
    const fault: Fault = { at: Date.now(), kind: 'bad_value', target: 'group', who: MOODY, until: null }
    faults.push(fault)
    say(`the value of ${MOODY} is bad`)
    writeFileSync(join(folder, `bad-${MOODY}`), '')
    const endsAt = Date.now() + 90_000
    while (Date.now() < endsAt && moody.state.failures.length === 0 && (await this.#pause(500)));
    await this.#pause(chance.between(0, 10_000))
    rmSync(join(folder, `bad-${MOODY}`))
    fault.until = Date.now()
    say(`the value of ${MOODY} is good again; failures: ${moody.state.failures.length}`)
  }

  /** A process of an allocation dies, which nobody asked for. Not of the moody group: a crash would load its bad value. */
  async #crash(chance: Chance): Promise<void> {
    const { folder, faults } = this.#deps
    const lines = read<WorkloadLine>(folder, WORKLOADS)
    const newest = new Map(lines.map((line) => [line.allocation, line]))
    const victims = [...newest.values()].filter(({ event, group }) => event === 'healthy' && group !== MOODY)
    if (victims.length === 0) return
    const { allocation, pid } = chance.pick(victims)
    faults.push({ at: Date.now(), kind: 'crash', target: 'workload', who: allocation, until: null })
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has just ended.
    }
  }

  #runBeside(work: Promise<void>): void {
    const said = work.catch((error: unknown) => this.#deps.say(`the nemesis has failed: ${String(error)}`))
    const done = said.finally(() => this.#beside.delete(done))
    this.#beside.add(done)
  }
}
