// What is to be restarted, as Nomad knows it.
import type { Allocation } from '../core/cluster.ts'
import { Problem } from '../core/errors.ts'
import { describe, type Level } from '../core/scope.ts'
import type { NomadClient } from '../nomad/client.ts'
import { allocationsBeginning, createCluster } from '../nomad/cluster.ts'
import { invalid } from './arguments.ts'

export interface Target {
  /** The job or group, or where the one allocation is. */
  readonly level: Level
  /** The one that was named, or those of the job that run, in the order of their names. */
  readonly allocations: readonly Pick<Allocation, 'id' | 'name'>[]
  readonly named: 'allocation' | 'job'
  /** How many of the job are to run and do not: those start anew by themselves. */
  readonly down: number
}

const FULL_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const BEGINNING = /^[0-9a-f]{2}[0-9a-f-]{0,33}$/
const SHOWN = 5

/** `word`: an allocation's ID or the beginning of one, else a job; with `group` a job. Where it could be both it is refused. */
export async function targetOf(
  client: NomadClient,
  namespace: string,
  word: string,
  group: string | undefined,
  signal: AbortSignal,
): Promise<Target> {
  const cluster = createCluster(client)
  if (group === undefined && FULL_ID.test(word)) {
    const allocation = await cluster.allocation(word, signal)
    if (allocation === null) throw new Problem('unknown_allocation', `Nomad knows no allocation ${word}`)
    return theOne(allocation)
  }
  const job = await cluster.job(namespace, word, signal)
  const isBeginning = group === undefined && BEGINNING.test(word)
  const found = isBeginning ? await allocationsBeginning(client, namespace, word, signal) : []
  if (job === null && found[0] !== undefined && found.length === 1) return theOne(found[0])
  if (job === null && found.length === 0)
    throw new Problem(
      'unknown_allocation',
      `there is no job "${word}" in namespace ${namespace}${isBeginning ? ', and no allocation whose ID begins so' : ''}`,
    )
  if (found.length > 0) {
    const ids = found.slice(0, SHOWN).map(({ id }) => id)
    const others = `${ids.join(', ')}${found.length > SHOWN ? ', …' : ''}`
    throw invalid(
      `"${word}" may mean ${job === null ? '' : 'a job, or '}${others}: write more of the ID, or the group behind the job`,
    )
  }
  if (group !== undefined && job?.groups.every(({ name }) => name !== group) === true)
    throw invalid(`job ${word} has no group "${group}"; it has ${job.groups.map(({ name }) => name).join(', ')}`)

  const level = { namespace, job: word, ...(group === undefined ? {} : { group }) }
  const all = await cluster.allocations(namespace, word, signal)
  const meant = all.filter((one) => one.desired === 'run' && (group ?? one.group) === one.group)
  const running = meant.filter(({ client }) => client === 'running')
  const down = meant.filter(({ client }) => client === 'pending').length
  const byName = (a: Allocation, b: Allocation) => a.name.localeCompare(b.name, 'en', { numeric: true }) || (a.id < b.id ? -1 : 1)
  return { level, allocations: running.toSorted(byName), named: 'job', down }
}

export function targetText({ level, allocations, named, down }: Target): string {
  if (named === 'allocation') return `allocation ${allocations[0]?.id} of ${describe(level)}`
  const leftOut = down === 0 ? '' : `; left out because not running: ${down}`
  return `${countText(allocations.length)} of ${describe(level)}${leftOut}`
}

export function countText(count: number): string {
  return `${count} ${count === 1 ? 'allocation' : 'allocations'}`
}

function theOne(allocation: Allocation): Target {
  const { namespace, job, group } = allocation
  return { level: { namespace, job, group }, allocations: [allocation], named: 'allocation', down: 0 }
}
