import { describe, expect, it } from 'vitest'
import type { NomadFault } from '../../src/core/nomad-fault.ts'
import { timeOf } from '../../src/nomad/allocations.ts'
import { createCluster } from '../../src/nomad/cluster.ts'
import { taskSpec } from '../support/builders.ts'
import { ended, queryOf, reply, scripted, type Step } from './support.ts'

const ALLOCATION = '6cd6279b-a96f-0cea-c9d3-f519088a1cad'

/** Recorded from a real Nomad; fields that nobody reads are left out. */
const APP = {
  Failed: false,
  FinishedAt: null,
  LastRestart: null,
  Paused: '',
  Restarts: 2,
  StartedAt: '2026-11-29T16:53:58.459196557Z',
  State: 'running',
}
const STUB = {
  ClientStatus: 'running',
  CreateIndex: 14,
  DeploymentStatus: { Canary: false, Healthy: true, ModifyIndex: 17, Timestamp: '2026-11-29T16:53:59.61383039Z' },
  DesiredStatus: 'run',
  DesiredTransition: { ForceReschedule: null, Migrate: null, NoShutdownDelay: null, Reschedule: null },
  ID: ALLOCATION,
  JobID: 'multi',
  JobType: 'service',
  JobVersion: 3,
  Name: 'multi.g[1]',
  Namespace: 'default',
  NextAllocation: '',
  NodeID: 'dac7237e-2d66-d934-d396-2fd8c89d3257',
  NodeName: 'vm',
  TaskGroup: 'g',
  TaskStates: {
    app: APP,
    init: { ...APP, Restarts: 0, State: 'dead', StartedAt: '0001-01-01T00:00:00Z' },
    later: { ...APP, Restarts: 0, State: 'pending', StartedAt: null },
  },
}
const EXPECTED = {
  id: ALLOCATION,
  name: 'multi.g[1]',
  namespace: 'default',
  job: 'multi',
  group: 'g',
  jobVersion: 3,
  node: 'dac7237e-2d66-d934-d396-2fd8c89d3257',
  nodeName: 'vm',
  desired: 'run',
  client: 'running',
  next: null,
  migrating: false,
  createIndex: 14,
  tasks: {
    app: {
      state: 'running',
      failed: false,
      restarts: 2,
      startedAt: Date.parse('2026-11-29T16:53:58.459Z') + 0.196,
      stopping: false,
    },
    init: { state: 'dead', failed: false, restarts: 0, startedAt: null, stopping: false },
    later: { state: 'pending', failed: false, restarts: 0, startedAt: null, stopping: false },
  },
}

const CHECK = { Name: 'h', OnUpdate: 'require_healthy', Type: 'http', PortLabel: '', Path: '/', TaskName: '', Interval: 2e9 }
const service = (provider: string, ...checks: object[]) => ({ Name: 's', Provider: provider, Checks: checks })
const UPDATE = { HealthCheck: 'task_states', HealthyDeadline: 60_000_000_000, MaxParallel: 1, MinHealthyTime: 1_500_000_000 }
const JOB = {
  ID: 'multi',
  Namespace: 'default',
  Type: 'service',
  Version: 0,
  Stop: false,
  Meta: { lockkeeper_max_parallel: '2' },
  TaskGroups: [
    {
      Name: 'g',
      Count: 2,
      Meta: { lockkeeper_stagger: '5s' },
      Update: UPDATE,
      Services: null,
      Tasks: [
        { Name: 'sidecar', Lifecycle: { Hook: 'prestart', Sidecar: true } },
        { Name: 'init', Lifecycle: { Hook: 'poststart', Sidecar: false } },
        { Name: 'app', Lifecycle: null },
      ],
    },
  ],
}

function cluster(...steps: Step[]) {
  const { client, requests } = scripted(steps)
  return { cluster: createCluster(client), requests }
}
const kind = async (work: Promise<unknown>) => ((await ended(work)) as { error: NomadFault }).error.kind
const groupWith = async (group: object) => {
  const { cluster: nomad } = cluster(reply(200, { ...JOB, TaskGroups: [{ ...JOB.TaskGroups[0], ...group }] }))
  return (await nomad.job('default', 'multi'))?.groups[0]
}

describe('allocations', () => {
  it('the list of a job is asked of the leader, with those of earlier registrations', async () => {
    const { cluster: nomad, requests } = cluster(reply(200, [STUB]))
    expect(await nomad.allocations('web', 'a/b c', undefined)).toEqual([EXPECTED])
    expect(requests[0]?.path).toBe('/v1/job/a%2Fb%20c/allocations?namespace=web&all=true')
  })

  it('a whole allocation tells its job version by its job', async () => {
    const { JobVersion: _, ...rest } = STUB
    const { cluster: nomad } = cluster(reply(200, { ...rest, Job: { Version: 3 } }))
    expect(await nomad.allocation(ALLOCATION)).toEqual(EXPECTED)
  })

  it('a replacement, a drain and a task that never was are told', async () => {
    const { cluster: nomad } = cluster(
      reply(200, [{ ...STUB, NextAllocation: 'other', DesiredTransition: { Migrate: true }, TaskStates: null }]),
    )
    expect(await nomad.allocations('default', 'multi')).toMatchObject([{ next: 'other', migrating: true, tasks: {} }])
  })

  it('a missing job has no allocations and no deployment', async () => {
    const { cluster: nomad } = cluster(reply(200, []), reply(200, 'null', { 'x-nomad-index': '0' }))
    expect(await nomad.allocations('default', 'nojob')).toEqual([])
    expect(await nomad.deploying('default', 'nojob')).toBe(false)
  })

  it('C2.6 why there is no node for a group is told in the words of `nomad job status`', async () => {
    // Recorded: one group with a constraint that no node meets, one that wants more memory than there is.
    const none = {
      ClassExhausted: null,
      ClassFiltered: null,
      ConstraintFiltered: null,
      DimensionExhausted: null,
      NodesEvaluated: 1,
    }
    const blocked = {
      Status: 'blocked',
      TriggeredBy: 'queued-allocs',
      FailedTGAllocs: {
        g: { ...none, ConstraintFiltered: { '${attr.kernel.name} = plan9': 1 } },
        h: { ...none, DimensionExhausted: { memory: 1 } },
        i: { ...none, NodesEvaluated: 0 },
        j: none,
      },
    }
    const placed = { Status: 'complete', FailedTGAllocs: { k: none } }
    const of = (group: string) => cluster(reply(200, [blocked, placed])).cluster.unplaced('default', 'multi', group)
    expect(await of('g')).toBe('constraint "${attr.kernel.name} = plan9": 1 nodes excluded by filter')
    expect(await of('h')).toBe('dimension "memory" exhausted on 1 nodes')
    expect(await of('i')).toBe('no nodes were eligible for evaluation')
    expect(await of('j')).toBe('no node can take it')
    expect([await of('k'), await of('other')]).toEqual([null, null])
  })

  it('an unknown allocation is null, and so is what is no ID; that is not even sent', async () => {
    const { cluster: nomad, requests } = cluster(reply(404, 'alloc not found'))
    expect(await nomad.allocation(ALLOCATION)).toBeNull()
    expect(await nomad.allocation('6cd6279b')).toBeNull()
    expect(await nomad.allocation(`${ALLOCATION}/restart`)).toBeNull()
    expect(requests).toHaveLength(1)
  })

  it('a 500 "Unknown allocation" is a missing right, not a missing allocation', async () => {
    const { cluster: nomad } = cluster(reply(500, `rpc error: Unknown allocation "${ALLOCATION}"`))
    expect(await kind(nomad.allocation(ALLOCATION))).toBe('denied')
  })

  it('an agent that is shutting down does not make an allocation unknown', async () => {
    const { client, clock } = scripted(Array(4).fill(reply(404, 'alloc not found', { 'x-nomad-knownleader': 'false' })))
    const work = ended(createCluster(client).allocation(ALLOCATION))
    await clock.advance(400)
    expect(await work).toEqual({
      error: expect.objectContaining({ kind: 'unavailable', message: expect.stringMatching(/no leader/) as string }) as Error,
    })
  })

  it.each([
    [{ ID: undefined }, /allocations\[\]\.ID/],
    [{ CreateIndex: 'x' }, /a whole number at job\.allocations\[\]\.CreateIndex/],
    [{ ClientStatus: 'new' }, /one of pending, running/],
    [{ TaskStates: { app: { ...APP, StartedAt: 'noon' } } }, /RFC 3339/],
    [{ TaskStates: { app: { ...APP, State: null } } }, /TaskStates\[\]\.State/],
  ])('an answer without what matters is rejected, and says what was expected: %o', async (change, text) => {
    const { cluster: nomad } = cluster(reply(200, [{ ...STUB, ...change }]))
    const { error } = (await ended(nomad.allocations('default', 'multi'))) as { error: NomadFault }
    expect(error).toMatchObject({ kind: 'rejected', maybeDone: false, message: expect.stringMatching(text) as string })
  })

  it('times keep their microseconds', () => {
    expect(timeOf('2026-11-29T16:53:58Z')).toBe(1_795_971_238_000)
    expect(timeOf('2026-11-29T16:53:58.4Z')).toBe(1_795_971_238_400)
    expect(timeOf('2026-11-29T17:53:58.000001999+01:00')).toBe(1_795_971_238_000.001)
    expect(timeOf('0001-01-01T00:00:00Z')).toBeNull()
  })
})

describe('jobs', () => {
  it('a job comes with its meta, update blocks in milliseconds, and the role of each task', async () => {
    const { cluster: nomad, requests } = cluster(reply(200, JOB))
    expect(await nomad.job('web', 'multi')).toEqual({
      id: 'multi',
      namespace: 'default',
      type: 'service',
      version: 0,
      stopped: false,
      meta: { lockkeeper_max_parallel: '2' },
      groups: [
        {
          name: 'g',
          count: 2,
          meta: { lockkeeper_stagger: '5s' },
          update: { maxParallel: 1, minHealthyTime: 1_500, healthyDeadline: 60_000, healthCheck: 'task_states' },
          tasks: [taskSpec('sidecar', 'sidecar'), taskSpec('init', 'once'), taskSpec('app')],
          healthinessChecks: 0,
        },
      ],
    })
    expect(requests.map(({ path }) => path)).toEqual(['/v1/job/multi?namespace=web'])
  })

  it('a batch group has no update block', async () => {
    expect((await groupWith({ Update: null }))?.update).toBeNull()
  })

  it("checks of Nomad's own count, in groups and in tasks, but not Consul's and not ignored ones", async () => {
    const group = await groupWith({
      Services: [
        service('nomad', CHECK, { ...CHECK, Name: 'r', OnUpdate: 'ignore' }),
        service('consul', { ...CHECK, Name: 'c' }),
      ],
      Tasks: [{ Name: 'app', Services: [service('nomad', { ...CHECK, OnUpdate: '' })] }],
    })
    expect(group?.healthinessChecks).toBe(2)
  })

  it('the same check in two services counts once, as the client keeps one result for it', async () => {
    const group = await groupWith({
      Services: [service('nomad', CHECK), service('nomad', CHECK), service('nomad', { ...CHECK, PortLabel: 'other' })],
    })
    expect(group?.healthinessChecks).toBe(2)
  })

  it('a missing job is null; a job ID that ends like a route of Nomad is rejected', async () => {
    const { cluster: nomad } = cluster(reply(404, 'job not found'), reply(200, []), reply(200, { ...JOB, ID: 'other' }))
    expect(await nomad.job('default', 'nojob')).toBeNull()
    expect(await kind(nomad.job('default', 'a/allocations'))).toBe('rejected')
    expect(await kind(nomad.job('default', 'multi'))).toBe('rejected')
  })

  it.each([
    ['running', true],
    ['paused', true],
    ['blocked', true],
    ['unblocking', true],
    ['initializing', true],
    ['pending', true],
    ['successful', false],
    ['failed', false],
    ['cancelled', false],
  ])('a deployment that is %s: active is %s', async (status, active) => {
    const { cluster: nomad } = cluster(reply(200, { Status: status }))
    expect(await nomad.deploying('default', 'multi')).toBe(active)
  })
})

describe('checks, nodes, namespaces', () => {
  it('check results come with whole seconds; no checks are an empty list', async () => {
    const found = { Check: 'h', Group: 'g', ID: 'x', Mode: 'healthiness', Service: 's', Status: 'success', Timestamp: 1795970451 }
    const { cluster: nomad, requests } = cluster(reply(200, { '8008': found }), reply(200, 'null'))
    expect(await nomad.checks(ALLOCATION)).toEqual([
      { id: '8008', check: 'h', mode: 'healthiness', status: 'success', timestamp: 1795970451 },
    ])
    expect(await nomad.checks(ALLOCATION)).toEqual([])
    expect(requests[0]?.path).toBe(`/v1/client/allocation/${ALLOCATION}/checks?namespace=default`)
  })

  it('an agent that is away, and one that forgot the allocation, are not "no checks"', async () => {
    const { cluster: nomad } = cluster(reply(404, 'No path to node'), reply(404, `Unknown allocation "${ALLOCATION}"`))
    expect(await kind(nomad.checks(ALLOCATION))).toBe('unavailable')
    expect(await kind(nomad.checks(ALLOCATION))).toBe('rejected')
  })

  it('what is no allocation ID never gets behind a path where any method restarts', async () => {
    const { cluster: nomad, requests } = cluster()
    expect(await kind(nomad.checks(`${ALLOCATION}/restart?`))).toBe('rejected')
    expect(requests).toEqual([])
  })

  it('nodes tell whether they are up, eligible and draining', async () => {
    const node = { ID: 'n1', Status: 'ready', SchedulingEligibility: 'eligible', Drain: false }
    const draining = { ...node, ID: 'n2', Status: 'disconnected', SchedulingEligibility: 'ineligible', Drain: true }
    const { cluster: nomad } = cluster(reply(200, [node, draining]))
    expect(await nomad.nodes()).toEqual([
      { id: 'n1', status: 'ready', eligible: true, draining: false },
      { id: 'n2', status: 'disconnected', eligible: false, draining: true },
    ])
  })

  it('a namespace exists or not; without the right to know it is denied', async () => {
    const { cluster: nomad, requests } = cluster(
      reply(200, {}),
      reply(404, 'Namespace not found'),
      reply(403, 'Permission denied'),
    )
    expect(await nomad.namespaceExists('default')).toBe(true)
    expect(await nomad.namespaceExists('no/pe')).toBe(false)
    expect(await kind(nomad.namespaceExists('secret'))).toBe('denied')
    expect(requests[1]?.path).toBe('/v1/namespace/no%2Fpe?namespace=default')
    expect(requests.map(queryOf)).toEqual([{}, {}, {}])
  })

  it('what is no JSON at all is rejected', async () => {
    const { cluster: nomad } = cluster(reply(200, '<html>'))
    expect(await kind(nomad.nodes())).toBe('rejected')
  })
})
