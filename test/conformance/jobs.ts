// The jobs that were recorded, as they would be registered: with the dev driver for the double, raw_exec for the real one.
import type { JobSpec } from '../../src/devnomad/devnomad.ts'

const SECOND = 1e9
const real = process.env['LOCKKEEPER_TEST_NOMAD_ADDR'] !== undefined

const group = {
  RestartPolicy: { Attempts: 2, Delay: SECOND, Interval: 1_800 * SECOND, Mode: 'fail' },
  ReschedulePolicy: { Delay: 5 * SECOND, DelayFunction: 'constant', MaxDelay: 3_600 * SECOND, Unlimited: true },
  Update: {
    MaxParallel: 1,
    HealthCheck: 'task_states',
    MinHealthyTime: 2 * SECOND,
    HealthyDeadline: 60 * SECOND,
    ProgressDeadline: 120 * SECOND,
  },
}

function longRunning(name: string): { Name: string; Driver: string; Config: Record<string, unknown> } {
  return shell(name, 'trap "exit 0" TERM INT; trap : HUP USR2; while :; do sleep 0.2; done')
}

function shell(name: string, script: string): { Name: string; Driver: string; Config: Record<string, unknown> } {
  return real
    ? { Name: name, Driver: 'raw_exec', Config: { command: '/bin/sh', args: ['-c', script] } }
    : { Name: name, Driver: 'dev', Config: { healthy_after: '0s' } }
}

export const web: JobSpec = { ID: 'web', TaskGroups: [{ ...group, Name: 'g', Count: 3, Tasks: [longRunning('app')] }] }

const http = { Name: 'h', Type: 'http', Path: '/', Interval: 2 * SECOND, Timeout: SECOND }
const chkGroup = {
  ...group,
  Update: { ...group.Update, HealthCheck: 'checks' },
  Name: 'g',
  Count: 2,
  Networks: [{ Mode: 'host', DynamicPorts: [{ Label: 'http' }] }],
  Services: [{ Name: 'chk', Provider: 'nomad', PortLabel: 'http', Checks: [http] }],
  Tasks: [shell('app', 'exec python3 -m http.server $NOMAD_PORT_http --bind 127.0.0.1')],
}
export const chk: JobSpec = { ID: 'chk', TaskGroups: [chkGroup] }

export const multi: JobSpec = {
  ID: 'multi',
  TaskGroups: [
    {
      ...group,
      Name: 'g',
      Count: 2,
      Tasks: [
        { ...longRunning('sidecar'), Lifecycle: { Hook: 'prestart', Sidecar: true } },
        {
          Name: 'init',
          Driver: real ? 'raw_exec' : 'dev',
          Config: real ? { command: '/bin/true' } : {},
          Lifecycle: { Hook: 'poststart', Sidecar: false },
        },
        longRunning('app'),
      ],
    },
  ],
}
