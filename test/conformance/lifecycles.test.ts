import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, type Answered } from './exchange.ts'
import { chk, delayed, signalled, staged } from './jobs.ts'
import { nomadUnderTest, type NomadUnderTest } from './nomad-under-test.ts'

interface Stub {
  readonly ID: string
  readonly DesiredStatus: string
  readonly TaskStates: Record<string, { State: string; StartedAt: string | null; Events: { DisplayMessage: string }[] }> | null
}

const JOBS = [staged, delayed, signalled, chk]

describe('the tasks of an allocation', () => {
  let nomad: NomadUnderTest
  const send = (method: string, path: string, body: unknown = null): Promise<Answered> =>
    nomad.during(ask(nomad.address, { method, path, body }))
  const first = async (job: string): Promise<Stub> =>
    ((await send('GET', `/v1/job/${job}/allocations`)).body as Stub[])[0] as Stub
  const statesOf = async (job: string): Promise<Record<string, string>> =>
    Object.fromEntries(Object.entries((await first(job))?.TaskStates ?? {}).map(([name, { State }]) => [name, State]))
  const said = async (job: string): Promise<string[]> =>
    (await first(job)).TaskStates?.['app']?.Events.map(({ DisplayMessage }) => DisplayMessage) ?? []
  const told = (job: string, text: string): Promise<string[]> =>
    nomad.until(
      () => said(job),
      (texts) => texts.includes(text),
    )
  const runs = async (job: string): Promise<string> => {
    await nomad.until(
      () => statesOf(job),
      (states) => states['app'] === 'running',
    )
    return (await first(job)).ID
  }

  beforeAll(async () => {
    nomad = await nomadUnderTest()
    await send('DELETE', '/v1/var/nomad/jobs/staged')
    for (const job of JOBS) await send('PUT', '/v1/jobs', { Job: job })
  })
  afterAll(async () => {
    for (const { ID } of JOBS) await send('DELETE', `/v1/job/${ID}?purge=true`)
    await nomad.close()
  })

  it('start one stage after another: the main ones when the prestart sidecars run, poststart sidecars after them', async () => {
    const waiting = { before: 'pending', app: 'pending', after: 'pending' }
    await nomad.until(
      () => statesOf('staged'),
      (states) => states['before'] !== undefined,
    )
    await nomad.pass(3_000)
    expect(await statesOf('staged')).toEqual(waiting)
    const restart = `/v1/client/allocation/${(await first('staged')).ID}/restart`
    expect(await send('PUT', restart, { TaskName: 'app' })).toMatchObject({ status: 500, body: 'Task not running' })
    expect(await send('PUT', restart, {})).toMatchObject({ status: 200, body: { Index: 0 } })
    await send('PUT', '/v1/var/nomad/jobs/staged', { Items: { v: '1' } })
    await nomad.until(
      () => statesOf('staged'),
      (states) => Object.values(states).every((state) => state === 'running'),
    )
    const starts = Object.entries((await first('staged')).TaskStates ?? {})
    const inOrder = starts.toSorted(([, one], [, two]) => ((one.StartedAt ?? '') < (two.StartedAt ?? '') ? -1 : 1))
    expect(inOrder.map(([name]) => name)).toEqual(['before', 'app', 'after'])
  })

  it('wait for the shutdown_delay of their group before they are restarted, but not the one that is named', async () => {
    const alloc = await runs('delayed')
    await send('PUT', `/v1/client/allocation/${alloc}/restart`, { TaskName: 'app' })
    await told('delayed', 'User requested task to restart')
    await runs('delayed')
    const restarted = ask(nomad.address, { method: 'PUT', path: `/v1/client/allocation/${alloc}/restart`, body: {} })
    await nomad.pass(3_000)
    expect(await said('delayed')).not.toContain('User requested running tasks to restart')
    await nomad.during(restarted)
    await told('delayed', 'User requested running tasks to restart')
  })

  it('end by the signal of their jobspec, or by the one that they were sent', async () => {
    const alloc = await runs('signalled')
    await send('PUT', `/v1/client/allocation/${alloc}/restart`, {})
    await told('signalled', 'Exit Code: 138, Signal: 10')
    await runs('signalled')
    await send('PUT', `/v1/client/allocation/${alloc}/signal`, { Task: 'app', Signal: 'SIGUSR2' })
    await told('signalled', 'Exit Code: 140, Signal: 12')
    await runs('signalled')
    await send('DELETE', '/v1/job/signalled')
    await told('signalled', 'Sent interrupt. Waiting 7s before force killing')
  })

  it('have checks that are pending until half an interval has passed', async () => {
    const alloc = await runs('chk')
    await send('PUT', `/v1/allocation/${alloc}/stop`)
    const { NextAllocation: next } = await nomad.until(
      async () => (await send('GET', `/v1/allocation/${alloc}`)).body as { NextAllocation?: string },
      ({ NextAllocation }) => NextAllocation !== undefined,
    )
    const checks = await nomad.until(
      async () => (await send('GET', `/v1/client/allocation/${next}/checks`)).body as Record<string, object> | string | null,
      (answer) => answer !== null && typeof answer === 'object',
    )
    expect(Object.values(checks ?? {})).toMatchObject([{ Status: 'pending', Output: 'nomad: waiting to run' }])
  })
})
