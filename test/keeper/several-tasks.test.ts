import { afterEach, beforeEach, expect, it } from 'vitest'
import type { JobSpec } from '../../src/devnomad/devnomad.ts'
import { jobOfDev, World } from '../support/world.ts'

let world: World
beforeEach(() => void (world = new World()))
afterEach(() => world.close())

const here = () => new AbortController().signal

it('a unit of which one task runs again while another one is still stopping is not healthy', async () => {
  const job = structuredClone(jobOfDev({ allocations: 2, checks: false })) as unknown as {
    TaskGroups: { Tasks: { Config: object }[] }[]
  }
  const tasks = job.TaskGroups[0]?.Tasks ?? []
  const Config = { start_after: '0s', healthy_after: '1s', stop_after: '20s' }
  tasks.push({ ...tasks[0], Name: 'slow', KillTimeout: 30e9, Config } as never)
  world.nomad.registerJob(job as unknown as JobSpec)
  await world.until(async () => (await world.allocations()).length === 2)
  await world.until(async () => !(await world.cluster.deploying('default', 'web')), 200_000)
  const keeper = await world.replica()
  const [first, second] = (await world.allocations()) as [string, string]
  const ask = (allocation: string) => ({ allocation, key: `key of ${allocation}`, reason: 'rotated' })
  const { hold, lease } = await world.granted(keeper, ask(first))
  const restarted = world.restart(first)
  await world.clock.advance(1_000)
  await world.soon(keeper.release(hold.id, lease, 'done', here()))
  let runsAgainAt = Infinity
  world.nomad.observe(({ alloc, task, event, at }) => {
    if (alloc === first && task === 'slow' && event === 'running') runsAgainAt = at
  })
  const grantedAt = keeper.acquire(ask(second), 120_000, here()).then(() => world.clock.now())
  await restarted
  expect(await world.soon(grantedAt)).toBeGreaterThan(runsAgainAt)
})
