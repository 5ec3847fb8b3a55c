import type { Chance } from './chance.ts'
import type { Cluster } from './cluster.ts'
import { EPOCH, type Host } from './host.ts'
import { FINE, STORM, USUAL } from './network.ts'
import { Operator } from './operator.ts'
import { GROUP, JOB, tasksOf } from './scenery.ts'

/** How likely each misfortune is, against the others. */
const MISFORTUNES = {
  crash: 8,
  stop: 2,
  pause: 8,
  'long pause': 1,
  cut: 5,
  storm: 4,
  'leader fails': 3,
  'leader stalls': 3,
  'stale reads': 3,
  'node down': 3,
  'node silent': 4,
  'node away': 3,
  drain: 2,
  'task crashes': 5,
  'bad change': 4,
  'crash loop': 2,
  lock: 5,
  'lock with an end': 2,
  resume: 3,
  force: 2,
  policy: 3,
  deployment: 1,
  'stopped allocation': 1,
  'wall jumps': 3,
  'node clock jumps': 2,
  'state removed': 1,
  'shim dies': 4,
  'shim pauses': 6,
} as const
type Misfortune = keyof typeof MISFORTUNES

/** Everything that goes wrong, at random times, and is mended again after a while. */
export class Nemesis {
  readonly #cluster: Cluster
  readonly #chance: Chance
  readonly #operator: Operator
  readonly #trace: (text: string) => void
  /** What mends the misfortunes that are under way. */
  readonly #mends = new Set<() => void>()
  /** Nodes that are down, silent or away: one thing at a time. */
  readonly #struck = new Set<string>()
  #quiet = false
  readonly counts = new Map<string, number>()

  constructor(cluster: Cluster, chance: Chance, trace: (text: string) => void) {
    this.#cluster = cluster
    this.#operator = new Operator(cluster, trace)
    this.#chance = chance
    this.#trace = trace
  }

  /** From now on things go wrong, about every `everyMs`. */
  begin(everyMs: number): void {
    const { network, stale, timeline } = this.#cluster
    network.weather = USUAL
    stale.probability = 0.02
    this.#cluster.acting = ({ host }) => this.#inTheAct(host)
    const next = (): void => {
      timeline.after(this.#chance.skewed(everyMs / 10, everyMs * 4), () => {
        if (this.#quiet) return
        const misfortune = this.#chance.weighted(MISFORTUNES)
        this.counts.set(misfortune, (this.counts.get(misfortune) ?? 0) + 1)
        this.#cluster.steps++
        this.#strike(misfortune)
        next()
      })
    }
    next()
  }

  /** Nothing goes wrong any more, and everything is mended. */
  end(): void {
    this.#quiet = true
    for (const mend of this.#mends) mend()
    this.#mends.clear()
    const { network, stale, nomad } = this.#cluster
    network.weather = FINE
    stale.probability = 0
    nomad.setTask({ job: JOB, group: GROUP }, { healthy: true, exit_after: null }, { now: true })
  }

  /** Mends it after a while, or when everything is mended. */
  #mendAfter(ms: number, mend: () => void): void {
    const once = (): void => {
      if (this.#mends.delete(once)) mend()
    }
    this.#mends.add(once)
    this.#cluster.timeline.after(ms, once)
  }

  #strike(misfortune: Misfortune): void {
    const { nomad, network, timeline, scenery, replicas, shims } = this.#cluster
    const chance = this.#chance
    const operator = this.#operator
    const replica = chance.pick(replicas)
    const shim = chance.pick(shims.filter(({ ended }) => ended === null))
    const node = chance.pick(scenery.nodes)
    const struck = this.#struck.has(node)
    const now = timeline.now()
    this.#trace(`${(now / 1_000).toFixed(3)} !! ${misfortune}`)
    switch (misfortune) {
      case 'crash':
      case 'stop': {
        if (replica === undefined) return
        this.#trace(`   ${replica.host.name}`)
        this.#cluster.replicas = replicas.filter((one) => one !== replica)
        const gone = (): void => replica.host.crash()
        if (misfortune === 'crash') gone()
        // One that is stopped gives back what it has, within its bound.
        else {
          void replica.keeper.stop()
          timeline.after(10_000, gone)
        }
        return this.#mendAfter(chance.skewed(100, 60_000), () => void this.#cluster.startReplica())
      }
      case 'pause':
        return this.#pause(replica?.host, chance.skewed(500, 60_000))
      case 'long pause':
        return this.#pause(replica?.host, chance.skewed(60_000, 3_600_000))
      case 'shim pauses':
        return this.#pause(shim?.host, chance.skewed(500, 120_000))
      case 'shim dies':
        return shim?.host.crash()
      case 'cut': {
        const host = chance.pick([replica?.host, shim?.host])
        if (host === undefined) return
        network.cut(host)
        return this.#mendAfter(chance.skewed(500, 60_000), () => network.mend(host))
      }
      case 'storm':
        network.weather = STORM
        return this.#mendAfter(chance.skewed(1_000, 60_000), () => (network.weather = USUAL))
      case 'leader fails': {
        const ms = chance.skewed(500, 10_000)
        nomad.leader.fail(ms)
        return this.#cluster.troubled('leader', now + ms)
      }
      case 'leader stalls': {
        const ms = chance.skewed(500, 12_000)
        nomad.leader.stall(ms)
        return this.#cluster.troubled('leader', now + ms)
      }
      case 'stale reads':
        this.#cluster.stale.probability = 0.3
        return this.#mendAfter(chance.skewed(1_000, 30_000), () => (this.#cluster.stale.probability = 0.02))
      case 'node down':
        if (struck) return
        this.#struck.add(node)
        nomad.node(node).down()
        return this.#mendAfter(chance.skewed(1_000, 120_000), () => void this.#boot(node))
      case 'node silent': {
        if (struck) return
        this.#struck.add(node)
        const ms = chance.skewed(500, 120_000)
        nomad.node(node).silence(chance.pick(['refuses', 'hangs']))
        this.#cluster.troubled(node, now + ms)
        return this.#mendAfter(ms, () => {
          this.#struck.delete(node)
          nomad.node(node).speak()
        })
      }
      case 'node away': {
        if (struck) return
        this.#struck.add(node)
        const ms = chance.skewed(500, 120_000)
        nomad.node(node).away()
        this.#cluster.troubled(node, now + ms)
        return this.#mendAfter(ms, () => {
          this.#struck.delete(node)
          nomad.node(node).back()
        })
      }
      case 'drain':
        return void this.#drain(node, chance.skewed(1_000, 60_000), chance.skewed(5_000, 120_000)).catch(() => undefined)
      case 'task crashes':
        return void this.#withAllocation((id) => nomad.crash(id, chance.pick(tasksOf(scenery))))
      case 'bad change':
        return void this.#withAllocation((id) => {
          nomad.setTask(id, { healthy: false }, { now: chance.happens(0.3) })
          this.#mendAfter(chance.skewed(5_000, 300_000), () => nomad.setTask(id, { healthy: true }, { now: chance.happens(0.5) }))
        })
      case 'crash loop':
        return void this.#withAllocation((id) => {
          nomad.setTask(id, { exit_after: '1s', exit_code: 1 })
          this.#mendAfter(chance.skewed(5_000, 120_000), () => nomad.setTask(id, { exit_after: null }))
        })
      case 'lock':
        return this.#mendAfter(chance.skewed(1_000, 120_000), operator.lock(chance, null))
      case 'lock with an end':
        return this.#mendAfter(chance.skewed(1_000, 120_000), operator.lock(chance, EPOCH + now + chance.skewed(1_000, 120_000)))
      case 'resume':
        return operator.resume()
      case 'force':
        return operator.force(chance)
      case 'state removed':
        return operator.removeState(chance)
      case 'policy': {
        const healthCheck = chance.weighted({ checks: 8, task_states: 3, none: 1 })
        const changed = { maxParallel: chance.pick([0, 1, 1, 2, 3]), healthCheck }
        return this.#cluster.register({ ...this.#cluster.knobs, ...changed })
      }
      case 'deployment': {
        const { version, healthCheck } = this.#cluster.knobs
        return this.#cluster.register({
          healthCheck,
          maxParallel: chance.pick([1, 1, 2, 3]),
          maxUnavailable: chance.pick([1, 1, 2]),
          version: version + 1,
        })
      }
      case 'stopped allocation':
        return void this.#withAllocation((id) => nomad.handle({ method: 'PUT', path: `/v1/allocation/${id}/stop` }))
      case 'node clock jumps':
        this.#cluster.setClock(node, chance.pick([-1, 1]) * chance.skewed(100, 300_000))
        return this.#mendAfter(chance.skewed(1_000, 300_000), () => this.#cluster.setClock(node, 0))
      case 'wall jumps': {
        const host = chance.pick([replica?.host, shim?.host])
        host?.setWall(chance.pick([-1, 1]) * chance.skewed(100, 7_200_000))
        return this.#mendAfter(chance.skewed(1_000, 300_000), () => host?.setWall(0))
      }
    }
  }

  /** A replica is lost or stands still around a call that acts: what comes of it then is the hard part. */
  #inTheAct(host: Host): void {
    if (this.#quiet || !this.#chance.happens(0.1)) return
    const isCrash = this.#chance.happens(0.5)
    const what = isCrash ? 'crash in the act' : 'pause in the act'
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1)
    const { timeline } = this.#cluster
    timeline.after(this.#chance.skewed(0.1, 5_000), () => {
      if (!host.alive || this.#quiet) return
      this.#trace(`${(timeline.now() / 1_000).toFixed(3)} !! ${what}: ${host.name}`)
      if (!isCrash) return this.#pause(host, this.#chance.skewed(500, 90_000))
      this.#cluster.replicas = this.#cluster.replicas.filter((one) => one.host !== host)
      host.crash()
      this.#mendAfter(this.#chance.skewed(100, 60_000), () => void this.#cluster.startReplica())
    })
  }

  #pause(host: Host | undefined, ms: number): void {
    if (host === undefined || host.paused) return
    this.#trace(`   ${host.name} for ${Math.round(ms)} ms`)
    host.pause()
    this.#mendAfter(ms, () => host.resume())
  }

  /** A machine takes its time to boot: what ran there is lost by then, also when the servers had no leader for a while. */
  async #boot(node: string): Promise<void> {
    const there = (await this.#cluster.truth.allocations(JOB)).some(
      ({ nodeName, desired, client }) => nodeName === node && desired === 'run' && client === 'running',
    )
    if (there) this.#cluster.timeline.after(2_000, () => void this.#boot(node))
    else {
      this.#struck.delete(node)
      this.#cluster.nomad.node(node).up()
    }
  }

  async #drain(name: string, deadlineMs: number, ms: number): Promise<void> {
    const { nomad } = this.#cluster
    const { status, body } = await nomad.handle({ method: 'GET', path: '/v1/nodes?stale=true' })
    if (status !== 200) return
    const node = (JSON.parse(body) as { ID: string; Name: string }[]).find(({ Name }) => Name === name)
    const put = (to: object) => nomad.handle({ method: 'PUT', path: `/v1/node/${node?.ID}/drain`, body: JSON.stringify(to) })
    const undo = async (): Promise<void> => {
      const done = await put({ DrainSpec: null, MarkEligible: true })
      if (done.status !== 200) this.#cluster.timeline.after(1_000, () => void undo().catch(() => undefined))
    }
    this.#mendAfter(ms, () => void undo().catch(() => undefined))
    await put({ DrainSpec: { Deadline: deadlineMs * 1e6, IgnoreSystemJobs: this.#chance.happens(0.5) } })
  }

  async #withAllocation(act: (id: string) => unknown): Promise<void> {
    const running = (await this.#cluster.truth.allocations(JOB)).filter(
      ({ desired, client }) => desired === 'run' && client === 'running',
    )
    if (running.length === 0 || this.#quiet) return
    const { id } = this.#chance.pick(running)
    this.#trace(`   ${id}`)
    await act(id)
  }
}
