import type { Cluster } from '../cluster/cluster.ts'
import type { Deployment } from '../cluster/shapes.ts'
import type { Raft } from '../raft.ts'
import { Refusal } from '../refusal.ts'
import { blocking } from './blocking.ts'
import { atIndex, bodyOf, demand, json, meta, namespaceOf, text, type Answer, type Call } from './exchange.ts'

/** `/v1/evaluations`, `/v1/evaluation/…`, `/v1/deployments` and `/v1/deployment/…`. */
export class EvaluationRoutes {
  readonly #cluster: Cluster
  readonly #raft: Raft

  constructor(cluster: Cluster, raft: Raft) {
    this.#cluster = cluster
    this.#raft = raft
  }

  async evaluations(call: Call): Promise<Answer> {
    const namespace = namespaceOf(call)
    const { rights } = call
    demand(rights.namespace(namespace, 'read-job'))
    const index = await this.#wait(call, 'evals')
    const [job, status] = [call.query.get('job'), call.query.get('status')]
    const found = this.#cluster.evaluations.all
      .filter((one) => (namespace === '*' ? rights.namespace(one.Namespace, 'read-job') : one.Namespace === namespace))
      .filter((one) => (job === null || one.JobID === job) && (status === null || one.Status === status))
    return json(found, meta(index))
  }

  async evaluation(call: Call, id: string): Promise<Answer> {
    const index = await this.#wait(call, 'evals')
    const found = this.#cluster.evaluations.get(id)
    if (found === undefined) return text(404, 'eval not found', meta(index))
    demand(call.rights.namespace(found.Namespace, 'read-job'))
    return json(found, meta(found.ModifyIndex))
  }

  async deployments(call: Call): Promise<Answer> {
    const namespace = namespaceOf(call)
    const { rights } = call
    demand(rights.namespace(namespace, 'read-job'))
    const index = await this.#wait(call, 'deployments')
    const all = [...this.#cluster.state.deployments.values()]
    const seen = (one: Deployment): boolean =>
      namespace === '*' ? rights.namespace(one.Namespace, 'read-job') : one.Namespace === namespace
    return json(all.filter(seen), meta(index))
  }

  async deployment(call: Call, rest: string): Promise<Answer> {
    const [what, id] = rest.split('/') as [string, string?]
    if (id === undefined) return this.#deployment(call, what)
    if (what !== 'promote' && what !== 'fail' && what !== 'pause') throw new Refusal(404, 'resource not found')
    if (call.method !== 'PUT' && call.method !== 'POST') throw new Refusal(405, 'Invalid method')
    const pause = what === 'pause' && pauseOf(call, id)
    const found = this.#cluster.state.deployments.get(id)
    if (found === undefined) throw new Refusal(500, 'deployment not found')
    demand(call.rights.namespace(found.Namespace, 'submit-job', `${what}-deployment`))
    const acts = {
      promote: () => this.#cluster.promote(found),
      fail: () => this.#cluster.failDeployment(found),
      pause: () => this.#cluster.pauseDeployment(found, pause),
    }
    const index = acts[what]()
    const evaluation = pause ? undefined : this.#cluster.evaluations.of(found.Namespace, found.JobID).at(-1)
    const body = { EvalID: evaluation?.ID ?? '', EvalCreateIndex: pause ? 0 : index, DeploymentModifyIndex: index }
    return json({ ...body, RevertedJobVersion: null, Index: index }, atIndex(index))
  }

  async #deployment(call: Call, id: string): Promise<Answer> {
    const index = await this.#wait(call, 'deployments')
    const found = this.#cluster.state.deployments.get(id)
    if (found === undefined) return text(404, 'deployment not found', meta(index))
    demand(call.rights.namespace(found.Namespace, 'read-job'))
    return json(found, meta(found.ModifyIndex))
  }

  async #wait(call: Call, table: 'evals' | 'deployments'): Promise<number> {
    if (call.method !== 'GET') throw new Refusal(405, 'Invalid method')
    const read = (): { index: number } => ({ index: this.#raft.tableIndex(table) })
    return (await this.#raft.block(blocking(call, [table]), read, call.signal)).index
  }
}

function pauseOf(call: Call, id: string): boolean {
  const wish = bodyOf<{ DeploymentID?: string; Pause?: boolean }>(call)
  if (!wish.DeploymentID) throw new Refusal(400, 'DeploymentID must be specified')
  if (wish.DeploymentID !== id) throw new Refusal(400, 'Deployment ID does not match')
  return wish.Pause ?? false
}
