// Room torture: a real Nomad, real replicas and shims as processes, and a nemesis that kills and freezes all of them. What is
// promised is judged afterwards, from what the workloads, the acts, the fenced log and Nomad itself wrote down.
// This file: what stands on the cluster.

export interface Group {
  readonly name: string
  readonly count: number
  readonly maxParallel: number
}

export const GROUPS: readonly Group[] = [
  { name: 'solo', count: 4, maxParallel: 1 },
  { name: 'pair', count: 6, maxParallel: 2 },
  { name: 'moody', count: 3, maxParallel: 1 },
]
/** The group that gets a bad value now and then. */
export const MOODY = 'moody'
export const SHARED: readonly string[] = ['north', 'south']

export const LEASE_TTL_MS = 10_000
/** Exit codes of acts: they reach whoever called the shim. */
export const ACT_REFUSED = 20
export const ACT_FAILED = 21

const SECOND = 1e9

/** The job. Each task runs the workload with the folder that its log and its value are in. */
export function jobOf(id: string, node: string, workload: string, folder: string): object {
  return {
    ID: id,
    Name: id,
    Type: 'service',
    Datacenters: ['*'],
    TaskGroups: GROUPS.map(({ name, count, maxParallel }) => ({
      Name: name,
      Count: count,
      RestartPolicy: { Attempts: 1_000, Delay: SECOND, Interval: 3_600 * SECOND, Mode: 'delay' },
      Networks: [{ Mode: 'host', DynamicPorts: [{ Label: 'http' }] }],
      Services: [
        {
          Name: `${id}-${name}`,
          Provider: 'nomad',
          PortLabel: 'http',
          Address: '127.0.0.1',
          Checks: [{ Name: 'up', Type: 'http', Path: '/', Interval: SECOND, Timeout: SECOND }],
        },
      ],
      Update: {
        MaxParallel: maxParallel,
        HealthCheck: 'checks',
        MinHealthyTime: 2 * SECOND,
        HealthyDeadline: 40 * SECOND,
        ProgressDeadline: 300 * SECOND,
      },
      Tasks: [
        {
          Name: 'app',
          Driver: 'raw_exec',
          Config: { command: node, args: [workload, folder, name] },
          Resources: { CPU: 20, MemoryMB: 64 },
        },
      ],
    })),
  }
}
