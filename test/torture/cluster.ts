// The job on the cluster: registered, waited for, told of in the end, and removed.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Allocation } from './crowd.ts'
import type { AllocationStory } from './evidence.ts'
import type { Nomad } from './nomad.ts'

interface Stub {
  readonly ID: string
  readonly TaskGroup: string
  readonly NodeID: string
  readonly ClientStatus: string
  readonly DesiredStatus: string
}
interface TaskEvent {
  readonly Type: string
  readonly Time: number
}

/** Comes back when all run and the deployment is over, with the allocations and the address of the agent that they run on. */
export async function deploy(nomad: Nomad, id: string, job: object): Promise<{ allocations: Allocation[]; agent: string }> {
  const registered = await nomad.ask('PUT', '/v1/jobs', { Job: job })
  if (registered.status !== 200) throw new Error(`the job is refused: ${JSON.stringify(registered.body)}`)
  for (let tries = 0; tries < 240; tries++) {
    await sleep(500)
    const { body } = await nomad.ask('GET', `/v1/job/${id}/deployment`)
    if ((body as { Status?: string } | null)?.Status !== 'successful') continue
    const stubs = await running(nomad, id)
    const node = (await nomad.ask('GET', `/v1/node/${stubs[0]?.NodeID}`)).body as { HTTPAddr: string }
    return { allocations: stubs.map(({ ID, TaskGroup }) => ({ id: ID, group: TaskGroup })), agent: `http://${node.HTTPAddr}` }
  }
  throw new Error('the job does not become healthy')
}

export async function running(nomad: Nomad, id: string): Promise<Stub[]> {
  const { body } = await nomad.ask('GET', `/v1/job/${id}/allocations`)
  return (body as Stub[]).filter(({ DesiredStatus, ClientStatus }) => DesiredStatus === 'run' && ClientStatus === 'running')
}

export async function storyOf(nomad: Nomad, { id, group }: Allocation): Promise<AllocationStory> {
  const { body } = await nomad.ask('GET', `/v1/allocation/${id}`)
  const { TaskStates } = body as { TaskStates: Record<string, { Restarts: number; Events: TaskEvent[] }> }
  const { Restarts, Events } = TaskStates['app'] ?? { Restarts: 0, Events: [] }
  const signals = Events.filter(({ Type }) => Type === 'Restart Signaled')
  return { id, group, restarts: Restarts, restartSignals: signals.map(({ Time }) => Time / 1e6) }
}

/** The paths of what is stored below a prefix. */
export async function stored(nomad: Nomad, prefix: string): Promise<string[]> {
  const { body } = await nomad.ask('GET', `/v1/vars?prefix=${prefix}`)
  return (body as { Path: string }[]).map(({ Path }) => Path)
}

export async function clean(nomad: Nomad, id: string, prefix: string): Promise<void> {
  await nomad.ask('DELETE', `/v1/job/${id}?purge=true`)
  for (const path of await stored(nomad, `${prefix}/`)) await nomad.ask('DELETE', `/v1/var/${path}`)
}
