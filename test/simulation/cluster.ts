import { DevNomad } from '../../src/devnomad/devnomad.ts'
import type { Log } from '../../src/keeper/ports.ts'
import { sequentialIds } from '../support/sequential-ids.ts'
import type { Chance } from './chance.ts'
import { EPOCH, Host } from './host.ts'
import type { Act } from './ledger.ts'
import { Monitor } from './monitor.ts'
import { Network } from './network.ts'
import { linkToNomad, type LinkDeps, type Tamper } from './nomad-link.ts'
import { SimulatedReplica } from './replica.ts'
import { SimulatedRequester, type Errands } from './requester.ts'
import { jobOf, policyOf, tasksOf, JOB, type Knobs, type Scenery } from './scenery.ts'
import { linkToService } from './service-link.ts'
import { SimulatedShim, type Plan } from './shim.ts'
import { Tap } from './tap.ts'
import { Timeline } from './timeline.ts'
import { Truth } from './truth.ts'
import type { Wish } from '../../src/shim/service.ts'

export interface ClusterOptions {
  readonly scenery: Scenery
  readonly chance: Chance
  readonly tamper: Tamper
  readonly knobs: Partial<Knobs>
  readonly trace: (text: string) => void
}

/** A whole cluster on one timeline: Nomad with its workloads, replicas, shims, and the monitor that watches them all. */
export class Cluster {
  readonly timeline = new Timeline()
  readonly scenery: Scenery
  readonly nomad: DevNomad
  /** By node: how far its clock is from that of the servers. */
  readonly skews = new Map<string, number>()
  readonly truth: Truth
  readonly monitor: Monitor
  readonly network: Network
  readonly operator: ReturnType<typeof linkToNomad>
  readonly stale = { probability: 0, ms: 3_000 }
  replicas: SimulatedReplica[] = []
  shims: SimulatedShim[] = []
  requesters: SimulatedRequester[] = []
  /** Told when a replica sends a call that acts. */
  acting: (replica: SimulatedReplica) => void = () => undefined
  knobs: Knobs
  /** How often what was logged as a warning or an error. */
  readonly warnings = new Map<string, number>()
  steps = 0
  readonly #chance: Chance
  readonly #link: LinkDeps
  readonly #tap: Tap
  readonly #newId = sequentialIds()
  readonly #trace: (text: string) => void
  /** By node: until when the servers may not have heard of it. */
  readonly #trouble = new Map<string, number>()
  #timers = 0
  #names = 0

  constructor({ scenery, chance, tamper, trace, knobs }: ClusterOptions) {
    const { timeline } = this
    this.scenery = scenery
    this.#chance = chance
    this.#trace = (text) => trace(`${(timeline.now() / 1_000).toFixed(3)} ${text}`)
    const { clock } = new Host('nomad', timeline)
    this.nomad = new DevNomad({ clock, newId: sequentialIds(), nodes: scenery.nodes, lagMs: scenery.lagMs })
    this.truth = new Truth(this.nomad, tasksOf(scenery), () => timeline.now())
    this.monitor = new Monitor({
      truth: this.truth,
      lagMs: scenery.lagMs,
      tasks: tasksOf(scenery),
      system: scenery.type === 'system',
      now: () => timeline.now(),
      askNomad: (path) => this.nomad.handle({ method: 'GET', path }),
      trouble: (node) => Math.max(this.#trouble.get(node) ?? 0, this.#trouble.get('leader') ?? 0),
      trace: this.#trace,
    })
    const tap = new Tap(
      this.nomad,
      () => timeline.now(),
      (request, by) => this.monitor.requested(request, by),
    )
    this.#tap = tap
    this.network = new Network(timeline, chance.fork(), () => this.steps++)
    this.#link = {
      timeline,
      network: this.network,
      chance: chance.fork(),
      tap,
      tamper,
      sent: (request) => this.monitor.sent(request),
      stale: this.stale,
    }
    const noTamper = { ...this.#link, tamper: {}, stale: { probability: 0, ms: 0 } }
    this.operator = linkToNomad(new Host('operator', timeline), noTamper)
    this.knobs = {
      maxParallel: chance.pick([1, 1, 1, 2, 3]),
      maxUnavailable: chance.pick([1, 1, 2, 3]),
      version: 1,
      healthCheck: 'checks',
      ...knobs,
    }
    this.register(this.knobs)
  }

  register(knobs: Knobs): void {
    this.knobs = knobs
    this.monitor.policies.set(JOB, this.timeline.now(), policyOf(this.scenery, knobs))
    this.nomad.registerJob(jobOf(this.scenery, knobs))
    this.#trace(`the job is registered: ${JSON.stringify(knobs)}`)
  }

  setClock(node: string, skewMs: number): void {
    this.skews.set(node, skewMs)
    this.nomad.node(node).setClock(skewMs)
  }

  /** The servers do not hear of this node (or of any, `leader`) until then. */
  troubled(node: string, untilMs: number): void {
    this.#trouble.set(node, Math.max(this.#trouble.get(node) ?? 0, untilMs))
  }

  startReplica(): SimulatedReplica {
    const name = `replica-${++this.#names}`
    const { leaseTtlMs } = this.scenery
    const replica: SimulatedReplica = new SimulatedReplica(name, {
      ...this.#link,
      newId: this.#newId,
      leaseTtlMs,
      log: this.#log(name),
      truth: this.truth,
      errandWatch: {
        sent: (errand) => {
          this.monitor.errand('sent', errand)
          this.acting(replica)
        },
        executed: (errand) => this.monitor.errand('executed', errand),
      },
      told: (told) => this.monitor.told(told),
      fault: (text) => this.monitor.fail('no fault of ours', `${name} answers: ${text}`),
      woken: (what) => this.#woken(what),
    })
    this.replicas.push(replica)
    this.#trace(`${name} starts`)
    return replica
  }

  /** `node`: that of its allocation. */
  startRequester(wish: Errands, node: string): SimulatedRequester {
    const name = `requester-${++this.#names}`
    const requester = new SimulatedRequester(wish, {
      host: new Host(name, this.timeline, (what) => this.#woken(what)),
      network: this.network,
      chance: this.#chance.fork(),
      replicas: () => this.replicas,
      now: () => this.timeline.now(),
      nodeWall: () => EPOCH + this.timeline.now() + (this.skews.get(node) ?? 0),
      asked: (asked) => this.monitor.asked(asked),
      withdraws: (id) => this.monitor.ledger.cancelled.add(id),
      variables: this.operator.variables,
    })
    this.requesters.push(requester)
    this.#trace(`${name} asks for ${JSON.stringify(wish)}`)
    return requester
  }

  startShim(wish: Wish, plan: Plan): SimulatedShim {
    const name = `shim-${++this.#names}`
    const host = new Host(name, this.timeline, (what) => this.#woken(what))
    const { leaseTtlMs } = this.scenery
    const renewed = new Map<string, number>()
    const client = linkToService(
      host,
      () => this.replicas,
      this.network,
      this.#chance.fork(),
      (hold, sentAt) => renewed.set(hold, sentAt),
      this.#link.tamper,
    )
    const chance = this.#chance.fork()
    let act: Act | null = null
    const shim: SimulatedShim = new SimulatedShim(wish, plan, this.timeline.now(), {
      host,
      client,
      chance,
      newId: this.#newId,
      began: (hold) => {
        const sentAt = renewed.get(hold)
        const deadline = sentAt === undefined ? undefined : sentAt + leaseTtlMs
        const action = wish.shared === undefined ? (wish.action === 'signal' ? 'signal' : 'restart') : 'nothing'
        act = this.monitor.began(name, hold, action, host.clock.now(), deadline)
      },
      finished: () => this.monitor.ended(name),
      act: () => this.#act(host, wish, act as unknown as Act, chance),
      over: (how) => {
        this.#trace(`${name} is over: ${how}`)
        this.monitor.ended(name)
      },
    })
    this.shims.push(shim)
    this.#trace(`${name} asks for ${JSON.stringify(wish)}, and ${plan.course}`)
    return shim
  }

  /** Moves on to the next event, and checks what came of it. */
  async step(): Promise<void> {
    const { sent } = this.network
    const timers = this.#timers
    await this.timeline.step()
    // A timer that led to nothing is an idle tick.
    if (this.#timers > timers && this.network.sent > sent) this.steps++
    await this.monitor.committed(this.#tap.take())
  }

  close(): void {
    for (const { host } of [...this.replicas, ...this.shims, ...this.requesters]) host.crash()
    this.nomad.close()
  }

  /** The call under way takes up to two seconds, and is done at most once. Its answer may be lost. */
  async #act(host: Host, { allocation, action }: Wish, act: Act, chance: Chance): Promise<void> {
    if (allocation === undefined) return await host.clock.sleep(chance.skewed(10, 20_000))
    const verb = action === 'signal' ? 'signal' : 'restart'
    const request = {
      method: 'PUT',
      path: `/v1/client/allocation/${allocation}/${verb}`,
      body: action === 'signal' ? '{"Signal":"SIGHUP"}' : '{}',
    }
    const lost = chance.happens(0.03) && this.network.weather.lost > 0
    const answerLost = chance.happens(0.03) && this.network.weather.lost > 0
    const answered = new Promise<void>((resolve, reject) => {
      if (lost) {
        act.inFlight = false
        return
      }
      this.timeline.after(chance.skewed(0.5, 1_500), () => {
        this.steps++
        const end = (tell: () => void) => {
          if (!answerLost) this.timeline.after(chance.skewed(0.5, 200), () => host.deliver(tell))
        }
        const running = this.truth.of(allocation)?.up.at(-1)
        const before = running?.to === null ? running : undefined
        const work = this.nomad.handle(request)
        // It takes effect at once or never: an agent that hangs refuses in the end.
        this.timeline.after(0, () => {
          act.effectAt = before?.to ?? null
          act.inFlight = false
        })
        work.then(
          ({ status }) => end(() => (status === 200 ? resolve() : reject(new Error(String(status))))),
          (error: unknown) => end(() => reject(error)),
        )
      })
    })
    await host.clock.within(8_000, undefined, (bounded) => Promise.race([answered, rejectOn(bounded)]))
  }

  #woken(what: 'timer' | 'message'): void {
    if (what === 'timer') this.#timers++
    else this.steps++
  }

  #log(name: string): Log {
    const loud = (level: string) => (fields: object, text: string) => {
      const key = `${level}: ${text}`
      this.warnings.set(key, (this.warnings.get(key) ?? 0) + 1)
      this.#trace(`${name} ${key} ${JSON.stringify(fields)}`)
    }
    return { debug: () => undefined, info: () => undefined, warn: loud('warn'), error: loud('error') }
  }
}

function rejectOn(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
}
