import type { ServiceAnswer } from '../../src/shim/answers.ts'
import type { ServiceCall } from '../../src/shim/client.ts'
import type { AskInput } from '../../src/keeper/keeper.ts'
import type { Answer, Request } from '../../src/devnomad/devnomad.ts'
import { createActions } from '../../src/nomad/actions.ts'
import { createCluster } from '../../src/nomad/cluster.ts'
import { createNomadClient } from '../../src/nomad/client.ts'
import { SendFault, type Reply, type Send } from '../../src/nomad/transport.ts'
import { createVariables } from '../../src/nomad/variables.ts'
import type { Chance } from './chance.ts'
import type { Errand, ErrandLink } from './errand-link.ts'
import type { Host } from './host.ts'
import { Broken, type Network } from './network.ts'
import type { Tap } from './tap.ts'
import type { Timeline } from './timeline.ts'

/** Deliberate faults, for the proof that the checks bite: what is sent and what is answered, changed on the way. */
export interface Tamper {
  /** What a replica sends to Nomad. */
  request?(request: Request): Request
  answer?(request: Request, answer: Answer): Answer
  /** How often the connection of an act breaks, which is executed all the same. */
  readonly torn?: number
  /** How long a replica may wait for an act. */
  bound?(ms: number): number
  /** What a shim asks a replica for, as the replica understands it. */
  ask?(input: AskInput): AskInput
  /** Answers a shim in the place of every replica; null: it does not. */
  instead?(call: ServiceCall): ServiceAnswer | null
}

export interface LinkDeps {
  readonly timeline: Timeline
  readonly network: Network
  readonly chance: Chance
  readonly tap: Tap
  readonly tamper: Tamper
  /** Told when a request leaves its host. */
  readonly sent: (request: Request) => void
  /** Of a replica: what watches over its acts. */
  readonly errands?: ErrandLink
  /** How often a list of variables, or one of them, is answered from the past, and from how long ago at most. */
  readonly stale: { probability: number; ms: number }
}

/** What a process on this host calls Nomad with. */
export function linkToNomad(host: Host, deps: LinkDeps) {
  const client = createNomadClient({
    send: sendFrom(host, deps),
    clock: host.clock,
    settings: { addresses: ['http://nomad-1', 'http://nomad-2'], namespace: 'default', token: {}, tls: { skipVerify: false } },
    readTokenFile: async () => '',
    random: () => deps.chance.next(),
  })
  const real = createActions(client)
  const actions = deps.errands?.actions(real) ?? real
  return { variables: createVariables(client), cluster: createCluster(client), actions }
}

/** A leader that was deposed answers for half a second at most. Of variables nothing is decided from a read, so they may be older. */
export const STALE_JOB_MS = 500

/** One exchange with Nomad over the network. What was sent once may be done long after its sender gave up, or died. */
export function sendFrom(host: Host, { timeline, network, chance, tap, tamper, sent, stale, errands }: LinkDeps): Send {
  const past = new Map<string, { at: number; answer: Answer }>()
  async function serve(request: Request, sentAt: number, errand: Errand | undefined): Promise<Answer> {
    const { path } = request
    const variables = path.startsWith('/v1/var')
    const mayBeStale = (variables || path.startsWith('/v1/job/')) && request.method === 'GET' && !path.includes('index=')
    const old = mayBeStale ? past.get(path) : undefined
    // A leader that was deposed and does not know it yet answers from what it had.
    if (
      old !== undefined &&
      timeline.now() - old.at <= (variables ? stale.ms : STALE_JOB_MS) &&
      chance.happens(stale.probability)
    )
      return old.answer
    const handle = () => tap.handle(request, { name: host.name, sentAt })
    const answer = await (errand === undefined ? handle() : (errands as ErrandLink).execute(errand, handle))
    if (mayBeStale && chance.happens(0.2)) past.set(path, { at: timeline.now(), answer })
    return tamper.answer?.(request, answer) ?? answer
  }
  return async ({ method, path, headers, body, signal }) => {
    const sentAt = timeline.now()
    const plain: Request = { method, path, headers, ...(body === undefined ? {} : { body }) }
    const request = tamper.request?.(plain) ?? plain
    sent(request)
    const errand = errands?.of(request)
    const tornUntil = errand === undefined ? null : (errands as ErrandLink).tornUntil(errand)
    if (tornUntil !== null) {
      timeline.after(tornUntil, () => void serve(request, sentAt, errand).catch(() => undefined))
      await host.clock.sleep(1)
      throw new SendFault('unknown', 'the connection broke')
    }
    try {
      const answer = await network.exchange(host, null, signal, (closed) =>
        serve(method === 'GET' ? { ...request, signal: closed } : request, sentAt, errand),
      )
      errands?.saw(request, sentAt, answer)
      return replyOf(answer)
    } catch (error) {
      if (signal.aborted) throw signal.reason
      throw new SendFault('unknown', error instanceof Broken ? error.message : String(error))
    }
  }
}

function replyOf({ status, headers, body }: Answer): Reply {
  const found = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
  return { status, headers: (name) => found.get(name.toLowerCase()) ?? null, body }
}
