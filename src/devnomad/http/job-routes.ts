import type { Cluster } from '../cluster/cluster.ts'
import type { JobSpec } from '../cluster/job-spec.ts'
import type { Job } from '../cluster/shapes.ts'
import type { Raft, Table } from '../raft.ts'
import { Refusal } from '../refusal.ts'
import { allocationStub } from './allocation-routes.ts'
import { blocking, page } from './blocking.ts'
import { filterOf } from './filter.ts'
import { atIndex, bodyOf, demand, json, meta, namespaceOf, text, type Answer, type Call } from './exchange.ts'

const WRITE_META = { KnownLeader: false, LastContact: 0, NextToken: '' }

const TABLES: Readonly<Record<string, Table>> = { allocations: 'allocs', evaluations: 'evals' }

/** `/v1/jobs` and `/v1/job/…`. A job's ID may hold slashes, so the last part of the path decides what is asked. */
export class JobRoutes {
  readonly #cluster: Cluster
  readonly #raft: Raft

  constructor(cluster: Cluster, raft: Raft) {
    this.#cluster = cluster
    this.#raft = raft
  }

  async all(call: Call): Promise<Answer> {
    if (call.method === 'GET') return this.#list(call)
    if (call.method === 'PUT' || call.method === 'POST') return this.#register(call, undefined)
    throw new Refusal(405, 'Invalid method')
  }

  async one(call: Call, rest: string): Promise<Answer> {
    const suffix = /^(.*)\/(allocations|deployments|deployment|evaluations)$/s.exec(rest)
    if (suffix !== null) return this.#about(call, suffix[1] as string, suffix[2] as string)
    if (call.method === 'GET') return this.#get(call, rest)
    if (call.method === 'PUT' || call.method === 'POST') return this.#register(call, rest)
    if (call.method === 'DELETE') return this.#deregister(call, rest)
    throw new Refusal(405, 'Invalid method')
  }

  async #list(call: Call): Promise<Answer> {
    const namespace = namespaceOf(call)
    const { rights } = call
    demand(rights.namespace(namespace, 'list-jobs'))
    const prefix = call.query.get('prefix') ?? ''
    const passes = filterOf(call.query.get('filter'))
    const found = await this.#raft.block(
      blocking(call, ['jobs', 'allocs']),
      () => ({
        // It moves with every allocation too: their summary is part of the list (facts §9).
        index: this.#raft.tableIndex('jobs', 'allocs'),
        jobs: this.#cluster.state
          .jobs()
          .filter((job) => (namespace === '*' ? rights.namespace(job.Namespace, 'list-jobs') : job.Namespace === namespace))
          .filter((job) => job.ID.startsWith(prefix) && passes(job)),
      }),
      call.signal,
    )
    const token = (job: Job): string => `${job.Namespace}.${job.ID}`
    const { items, next } = page(
      call,
      found.jobs.sort((a, b) => (token(a) < token(b) ? -1 : 1)),
      token,
    )
    const withMeta = call.query.get('meta') === 'true'
    return json(
      items.map((job) => this.#stub(job, withMeta)),
      { ...meta(found.index), ...next },
    )
  }

  #register(call: Call, id: string | undefined): Answer {
    const { Job: spec } = bodyOf<{ Job?: JobSpec | null }>(call)
    if (spec == null) throw new Refusal(400, 'Job must be specified')
    if (id !== undefined && spec.ID !== id) throw new Refusal(400, 'Job ID does not match name')
    const namespace = spec.Namespace || namespaceOf(call)
    demand(call.rights.namespace(namespace, 'submit-job', 'register-job'))
    const { index, jobModifyIndex, evalId } = this.#cluster.register({ ...spec, Namespace: namespace })
    const body = { EvalCreateIndex: index, EvalID: evalId, Index: index, JobModifyIndex: jobModifyIndex, Warnings: '' }
    return json({ ...body, ...WRITE_META }, atIndex(index))
  }

  #deregister(call: Call, id: string): Answer {
    demand(call.rights.namespace(namespaceOf(call), 'submit-job', 'deregister-job'))
    const done = this.#cluster.deregister(namespaceOf(call), id, call.query.get('purge') === 'true')
    const index = done?.index ?? 0
    const body = { EvalCreateIndex: index, EvalID: done?.evalId ?? '', Index: index, JobModifyIndex: index }
    return json({ ...body, ...WRITE_META, VolumeEvalID: '', VolumeEvalIndex: 0 }, atIndex(index))
  }

  async #get(call: Call, id: string): Promise<Answer> {
    demand(call.rights.namespace(namespaceOf(call), 'read-job'))
    const read = (): { index: number; job: Job | undefined } => {
      const job = this.#cluster.state.job(namespaceOf(call), id)
      return { index: job?.ModifyIndex ?? this.#raft.tableIndex('jobs'), job }
    }
    const { index, job } = await this.#raft.block(blocking(call, ['jobs']), read, call.signal)
    return job === undefined ? text(404, 'job not found', meta(index)) : json(job, meta(index))
  }

  async #about(call: Call, id: string, what: string): Promise<Answer> {
    if (call.method !== 'GET') throw new Refusal(405, 'Invalid method')
    const namespace = namespaceOf(call)
    demand(call.rights.namespace(namespace, 'read-job'))
    const table = TABLES[what] ?? 'deployments'
    const query = blocking(call, [table])
    const { index } = await this.#raft.block(query, () => ({ index: this.#raft.tableIndex(table) }), call.signal)
    // A job that does not exist has no allocations: 200 and an empty list (facts §5).
    if (what === 'allocations') {
      return json(this.#cluster.state.allocsOf(namespace, id).map(allocationStub), meta(index))
    }
    if (what === 'evaluations') return json(this.#cluster.evaluations.of(namespace, id), meta(index))
    const deployments = this.#cluster.state.deploymentsOf(namespace, id)
    return json(what === 'deployments' ? deployments : (deployments[0] ?? null), meta(index))
  }

  #stub(job: Job, withMeta: boolean): object {
    const allocs = this.#cluster.state.allocsOf(job.Namespace, job.ID)
    const waiting = this.#cluster.state.waiting.get(`${job.Namespace}\0${job.ID}`)
    const count = (group: string, status: string): number =>
      allocs.filter((alloc) => alloc.TaskGroup === group && alloc.ClientStatus === status).length
    const Summary = Object.fromEntries(
      job.TaskGroups.map(({ Name }) => [
        Name,
        {
          Complete: count(Name, 'complete'),
          Failed: count(Name, 'failed'),
          Lost: count(Name, 'lost'),
          Queued: waiting?.[Name] ?? 0,
          Running: count(Name, 'running'),
          Starting: count(Name, 'pending'),
          Unknown: count(Name, 'unknown'),
        },
      ]),
    )
    return {
      ID: job.ID,
      ParentID: '',
      Name: job.Name,
      Namespace: job.Namespace,
      Datacenters: job.Datacenters,
      NodePool: job.NodePool,
      Multiregion: null,
      Type: job.Type,
      Priority: job.Priority,
      Periodic: false,
      ParameterizedJob: false,
      Stop: job.Stop,
      Status: job.Status,
      StatusDescription: '',
      JobSummary: {
        JobID: job.ID,
        Namespace: job.Namespace,
        Summary,
        Children: { Dead: 0, Pending: 0, Running: 0 },
        CreateIndex: job.CreateIndex,
        ModifyIndex: Math.max(job.CreateIndex, ...allocs.map((alloc) => alloc.ModifyIndex)),
      },
      CreateIndex: job.CreateIndex,
      ModifyIndex: job.ModifyIndex,
      JobModifyIndex: job.JobModifyIndex,
      SubmitTime: job.SubmitTime,
      ...(withMeta ? { Meta: job.Meta } : {}),
    }
  }
}
