import type { Cluster } from '../cluster/cluster.ts'
import type { DrainSpec } from '../cluster/drainer.ts'
import type { Node } from '../cluster/shapes.ts'
import type { Raft } from '../raft.ts'
import { Refusal } from '../refusal.ts'
import { blocking } from './blocking.ts'
import { atIndex, bodyOf, demand, json, meta, text, type Answer, type Call } from './exchange.ts'

export const VERSION = '2.0.6-dev'

const ATTRIBUTES = {
  'cpu.arch': 'amd64',
  'driver.dev': '1',
  'kernel.name': 'linux',
  'nomad.version': VERSION,
  'os.name': 'debian',
}

/** `/v1/nodes` and `/v1/node/…`. */
export class NodeRoutes {
  readonly #cluster: Cluster
  readonly #raft: Raft

  constructor(cluster: Cluster, raft: Raft) {
    this.#cluster = cluster
    this.#raft = raft
  }

  async all(call: Call): Promise<Answer> {
    if (call.method !== 'GET') throw new Refusal(405, 'Invalid method')
    demand(call.rights.level('node', 'read'))
    const prefix = call.query.get('prefix') ?? ''
    const read = (): { index: number } => ({ index: this.#raft.tableIndex('nodes') })
    const { index } = await this.#raft.block(blocking(call, ['nodes']), read, call.signal)
    const nodes = [...this.#cluster.state.nodes.values()].filter((node) => node.ID.startsWith(prefix))
    return json(nodes.map(stub), meta(index))
  }

  async one(call: Call, rest: string): Promise<Answer> {
    const [id, what] = rest.split('/') as [string, string?]
    if (id.length !== 36) throw new Refusal(500, 'node lookup failed: index error: UUID must be 36 characters')
    if (what === undefined) return this.#get(call, id)
    if (what !== 'drain' && what !== 'eligibility') throw new Refusal(404, 'resource not found')
    if (call.method !== 'PUT' && call.method !== 'POST') throw new Refusal(405, 'Invalid method')
    demand(call.rights.level('node', 'write'))
    return what === 'drain' ? this.#drain(call, id) : this.#eligibility(call, id)
  }

  async #get(call: Call, id: string): Promise<Answer> {
    if (call.method !== 'GET') throw new Refusal(405, 'Invalid method')
    demand(call.rights.level('node', 'read'))
    const read = (): { index: number; node: Node | undefined } => {
      const node = this.#cluster.state.nodes.get(id)
      return { index: node?.ModifyIndex ?? this.#raft.tableIndex('nodes'), node }
    }
    const { index, node } = await this.#raft.block(blocking(call, ['nodes']), read, call.signal)
    if (node === undefined) return text(404, 'node not found', meta(index))
    return json({ ...node, Attributes: { ...ATTRIBUTES, 'unique.hostname': node.Name } }, meta(index))
  }

  #drain(call: Call, id: string): Answer {
    const wish = bodyOf<{
      DrainSpec?: Partial<DrainSpec> | null
      MarkEligible?: boolean
      Meta?: Record<string, string> | null
    }>(call)
    const node = this.#known(id)
    const spec = wish.DrainSpec
      ? { Deadline: wish.DrainSpec.Deadline ?? 0, IgnoreSystemJobs: wish.DrainSpec.IgnoreSystemJobs ?? false }
      : null
    const index = this.#cluster.drain(node, spec, wish.MarkEligible ?? false, wish.Meta ?? null)
    const EvalCreateIndex = spec === null && wish.MarkEligible === true ? index + 1 : 0
    return json({ EvalCreateIndex, EvalIDs: null, Index: index, NodeModifyIndex: index }, atIndex(index))
  }

  #eligibility(call: Call, id: string): Answer {
    const { Eligibility: wish } = bodyOf<{ Eligibility?: string }>(call)
    if (wish !== 'eligible' && wish !== 'ineligible') {
      throw new Refusal(500, `invalid scheduling eligibility "${wish ?? ''}"`)
    }
    const { index, evalIds } = this.#cluster.eligible(this.#known(id), wish)
    const EvalCreateIndex = evalIds === null ? 0 : index + 1
    return json({ EvalCreateIndex, EvalIDs: evalIds, Index: index, NodeModifyIndex: 0 }, atIndex(index))
  }

  #known(id: string): Node {
    const node = this.#cluster.state.nodes.get(id)
    if (node === undefined) throw new Refusal(500, 'node not found')
    return node
  }
}

function stub(node: Node): object {
  const { DrainStrategy: _strategy, ...rest } = node
  return { ...rest, HostVolumes: {}, Version: VERSION }
}
