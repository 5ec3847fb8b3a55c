import type { Allocation } from '../core/cluster.ts'
import { NomadFault } from '../core/nomad-fault.ts'
import type { Cluster } from '../keeper/ports.ts'
import { ALLOCATION_ID, allocationOf, checkResultOf } from './allocations.ts'
import { bodyOf } from './answers.ts'
import type { Call, NomadClient } from './client.ts'
import { jobOf } from './jobs.ts'
import { shortageOf } from './placement.ts'
import { shape, shapes } from './shape.ts'

/** facts §6 */
const ACTIVE = ['running', 'paused', 'blocked', 'unblocking', 'initializing', 'pending']

/** Jobs, allocations and nodes over HTTP. All reads go to the leader (never `stale`), except checks, which the allocation's own
 *  client agent answers. A job whose ID ends like one of Nomad's routes (`x/allocations`) cannot be asked for: `rejected`. */
export function createCluster(client: NomadClient): Cluster {
  const read = (what: string, path: string, more: Partial<Call> = {}, signal?: AbortSignal) =>
    client.call({ what, method: 'GET', path, indexed: true, ...more }, signal)
  const missing = (sentence: string) => (status: number, text: string) => status === 404 && text.includes(sentence)

  return {
    /** Null for an ID that is none, too. `denied` when the token may not read jobs in its namespace: Nomad says 500 `Unknown
     *  allocation` then (facts §3), and taking that for "gone" would end holds. */
    async allocation(id, signal) {
      if (!ALLOCATION_ID.test(id)) return null
      const what = 'allocation'
      const meant = (status: number, text: string) =>
        missing('alloc not found')(status, text) || (status === 500 && text.includes('Unknown allocation'))
      const answer = await read(what, `/v1/allocation/${id}`, { meant }, signal)
      if (answer.status === 404) return null
      if (answer.status === 500)
        throw new NomadFault('denied', `${what}: the token may not read jobs in the namespace of this allocation`)
      return allocationOf(shape(bodyOf(answer), what))
    },

    async job(namespace, id, signal) {
      const what = 'job'
      const answer = await read(what, jobPath(id), { namespace, meant: missing('job not found') }, signal)
      if (answer.status === 404) return null
      const job = jobOf(shape(bodyOf(answer), what))
      if (job.id !== id) throw new NomadFault('rejected', `${what}: Nomad answers with another job than it was asked for`)
      return job
    },

    /** Also those of an earlier registration under the same ID (`all`): Nomad's scheduler counts them too. */
    async allocations(namespace, job, signal) {
      const what = 'job.allocations'
      const answer = await read(what, `${jobPath(job)}/allocations`, { namespace, query: { all: 'true' } }, signal)
      return shapes(bodyOf(answer), what).map(allocationOf)
    },

    async deploying(namespace, job, signal) {
      const what = 'job.deployment'
      const answer = await read(what, `${jobPath(job)}/deployment`, { namespace }, signal)
      const body = bodyOf(answer)
      return body !== null && ACTIVE.includes(shape(body, what).text('Status'))
    },

    async unplaced(namespace, job, group, signal) {
      const what = 'job.evaluations'
      const answer = await read(what, `${jobPath(job)}/evaluations`, { namespace }, signal)
      return shortageOf(shapes(bodyOf(answer), what), group)
    },

    /** An agent that cannot be reached is `unavailable`, an allocation that it does not know any more `rejected`: neither is an
     *  empty list. Where it ends: Consul's checks are not in it, results survive a restart (facts §5), and an agent that is asked
     *  for another's allocation while it shuts down answers with an empty list. */
    async checks(allocation, signal) {
      const what = 'checks'
      if (!ALLOCATION_ID.test(allocation)) throw new NomadFault('rejected', `${what}: not the ID of an allocation`)
      const answer = await read(what, `/v1/client/allocation/${allocation}/checks`, { indexed: false }, signal)
      return shape({ checks: bodyOf(answer) }, what)
        .map('checks')
        .map(checkResultOf)
    },

    async nodes(signal) {
      const what = 'nodes'
      const answer = await read(what, '/v1/nodes', {}, signal)
      return shapes(bodyOf(answer), what).map((node) => ({
        id: node.text('ID'),
        status: node.oneOf('Status', ['initializing', 'ready', 'down', 'disconnected']),
        eligible: node.text('SchedulingEligibility') === 'eligible',
        draining: node.flag('Drain'),
      }))
    },

    /** The filter is applied by the server (facts §9): what crosses the wire are only those that are meant. */
    async jobsWithMeta(key, signal) {
      const what = 'jobs'
      const query = { namespace: '*', filter: `"${key}" in Meta` }
      const answer = await read(what, '/v1/jobs', { query }, signal)
      return shapes(bodyOf(answer), what)
        .filter((stub) => ['service', 'system'].includes(stub.text('Type')) && !stub.flag('Stop'))
        .filter((stub) => (stub.optional('ParentID') ?? '') === '')
        .map((stub) => ({
          namespace: stub.text('Namespace'),
          id: stub.text('ID'),
          version: `${stub.count('JobModifyIndex')}.${stub.object('JobSummary')?.count('ModifyIndex') ?? 0}`,
        }))
    },

    /** A write to a namespace that does not exist succeeds (facts §1), so this is asked before the first. */
    async namespaceExists(name, signal) {
      const path = `/v1/namespace/${encodeURIComponent(name)}`
      const meant = (status: number, text: string) => status === 404 && /namespace not found/i.test(text)
      return (await read('namespace', path, { meant }, signal)).status === 200
    },
  }
}

/** The allocations of a namespace whose ID begins so: two hexadecimal digits at least, of which Nomad wants an even number. */
export async function allocationsBeginning(
  client: NomadClient,
  namespace: string,
  prefix: string,
  signal?: AbortSignal,
): Promise<Allocation[]> {
  const what = 'allocations'
  const odd = prefix.replaceAll('-', '').length % 2 === 1
  const query = { prefix: odd ? prefix.slice(0, -1) : prefix }
  const answer = await client.call({ what, method: 'GET', path: '/v1/allocations', indexed: true, namespace, query }, signal)
  const found = shapes(bodyOf(answer), what).map(allocationOf)
  return found.filter(({ id }) => id.startsWith(prefix))
}

function jobPath(id: string): string {
  return `/v1/job/${encodeURIComponent(id)}`
}
