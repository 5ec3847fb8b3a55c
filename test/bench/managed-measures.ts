// What a managed restart costs Nomad.
import { nomadWrites, type Measure } from './measures.ts'
import { sleep } from './stage.ts'
import { Wire } from './wire.ts'

const WAITING = 1_000
const MEASURE_MS = 15_000

/** A thousand requests that wait in one semaphore, and are acted on one after another. The gate does not wait. */
export const managedWrites: Measure = async (open) => {
  const stage = await open()
  try {
    const { api, nomad } = stage
    await api.register(JOB)
    const replica = await stage.replica()
    const [service, cluster] = [new Wire(replica.address), new Wire(nomad.address)]
    const allocations = async () =>
      JSON.parse((await cluster.call('GET', '/v1/job/managed/allocations')).text) as { ID: string }[]
    while ((await allocations()).length < WAITING) await sleep(500)
    await service.call('PUT', '/v1/locks', { namespace: 'default', job: 'managed', reason: 'until all have asked' })
    const since = new Date(Date.now() + 3_600_000).toISOString()
    const before = await nomadWrites(replica)
    for (const { ID } of await allocations()) {
      const { status, text } = await service.call('PUT', '/v1/requests', { allocation: ID, reason: 'bench', since })
      if (status !== 202) throw new Error(`a request was answered ${status} ${text}`)
    }
    const stored = (await nomadWrites(replica)) - before
    await service.call('DELETE', '/v1/locks?namespace=default&job=managed')
    await sleep(5_000)
    const left = async () => (await api.list(`${stage.prefix}/requests/`)).variables.length
    const [from, waiting] = [await nomadWrites(replica), await left()]
    await sleep(MEASURE_MS)
    const restarts = waiting - (await left())
    const value = stored / WAITING + ((await nomadWrites(replica)) - from) / restarts
    for (const wire of [service, cluster]) wire.close()
    return [
      {
        name: 'Nomad writes per finished restart, 1,000 waiting, managed',
        value,
        unit: 'writes',
        goal: '≤ 4',
        met: value <= 4,
        note: `${restarts} restarts in ${MEASURE_MS / 1_000} s`,
      },
    ]
  } finally {
    await stage.end()
  }
}

const JOB = {
  ID: 'managed',
  Type: 'service',
  Meta: { lockkeeper_health_check: 'none', lockkeeper_wait_for_deployment: 'false', lockkeeper_max_unavailable: '100' },
  TaskGroups: [{ Name: 'api', Count: WAITING, Tasks: [{ Name: 'app', Driver: 'dev', Config: { healthy_after: '0s' } }] }],
}
