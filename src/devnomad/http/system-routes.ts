import type { Cluster } from '../cluster/cluster.ts'
import type { Namespace } from '../cluster/shapes.ts'
import type { Raft } from '../raft.ts'
import { Refusal } from '../refusal.ts'
import { blocking } from './blocking.ts'
import { atIndex, bodyOf, demand, json, meta, text, type Answer, type Call } from './exchange.ts'
import { VERSION } from './node-routes.ts'

/** Namespaces, and what Nomad says of itself. */
export class SystemRoutes {
  /** What autopilot says of the servers. */
  healthy = true
  readonly #cluster: Cluster
  readonly #raft: Raft
  readonly #serverId: string

  constructor(cluster: Cluster, raft: Raft, serverId: string) {
    this.#cluster = cluster
    this.#raft = raft
    this.#serverId = serverId
  }

  async namespaces(call: Call): Promise<Answer> {
    if (call.method !== 'GET') throw new Refusal(405, 'Invalid method')
    const read = (): { index: number } => ({ index: this.#raft.tableIndex('namespaces') })
    const { index } = await this.#raft.block(blocking(call, ['namespaces']), read, call.signal)
    const { rights } = call
    const known = [...this.#cluster.state.namespaces.values()].filter(({ Name }) => rights.knows(Name))
    const all = known.sort((a, b) => (a.Name < b.Name ? -1 : 1))
    return json(all.map(namespaceView), meta(index))
  }

  namespace(call: Call, name: string): Answer {
    if (call.method === 'PUT' || call.method === 'POST') return this.#putNamespace(call, name)
    if (call.method !== 'GET') throw new Refusal(405, 'Invalid method')
    demand(call.rights.knows(name))
    const found = this.#cluster.state.namespaces.get(name)
    if (found === undefined) return text(404, 'Namespace not found', meta(this.#raft.tableIndex('namespaces')))
    return json(namespaceView(found), meta(found.ModifyIndex))
  }

  leader(): Answer {
    return json('127.0.0.1:4647')
  }

  self(call: Call): Answer {
    demand(call.rights.level('agent', 'read'))
    const [Version, VersionPrerelease] = VERSION.split('-') as [string, string]
    return json({
      config: { Region: 'global', Datacenter: 'dc1', Version: { Version, VersionPrerelease, VersionMetadata: '' } },
      member: { Name: 'devnomad.global', Addr: '127.0.0.1', Port: 4648, Status: 'alive', Tags: { build: VERSION } },
      stats: {},
    })
  }

  autopilot(call: Call): Answer {
    demand(call.rights.level('operator', 'read'))
    const server = {
      ID: this.#serverId,
      Name: 'devnomad.global',
      Address: '127.0.0.1:4647',
      SerfStatus: 'alive',
      Version: VERSION,
      Leader: true,
      LastContact: '0s',
      LastTerm: 2,
      LastIndex: this.#raft.index,
      Healthy: this.healthy,
      Voter: true,
      StableSince: '2026-01-01T00:00:00Z',
    }
    const health = { FailureTolerance: 0, Healthy: this.healthy, Leader: server.ID, Servers: [server], Voters: [server.ID] }
    // The status is sent before the type is set: then it is called text, though it is JSON (source: operator_endpoint.go).
    return this.healthy ? json(health) : text(429, JSON.stringify(health))
  }

  #putNamespace(call: Call, name?: string): Answer {
    demand(call.rights.management)
    const body = bodyOf<Partial<Namespace>>(call)
    const Name = body.Name || name
    if (!Name || !/^[a-zA-Z0-9-]{1,128}$/.test(Name))
      throw new Refusal(500, `invalid name "${Name ?? ''}". Must match regex ^[a-zA-Z0-9-]{1,128}$`)
    const index = this.#cluster.state.putNamespace({ Name, Description: body.Description ?? '', Meta: body.Meta ?? null })
    return { status: 200, headers: atIndex(index), body: '' }
  }
}

function namespaceView(namespace: Namespace): object {
  return { ...namespace, Capabilities: null, Quota: '', NodePoolConfiguration: null }
}
