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

function shell(
  name: string,
  script: string,
  dev: Record<string, unknown> = {},
): { Name: string; Driver: string; Config: Record<string, unknown> } {
  return real
    ? { Name: name, Driver: 'raw_exec', Config: { command: '/bin/sh', args: ['-c', script] } }
    : { Name: name, Driver: 'dev', Config: { healthy_after: '0s', ...dev } }
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

const copyIdentity =
  'cp "$NOMAD_SECRETS_DIR/nomad_lockkeeper.jwt" "$NOMAD_ALLOC_DIR/data/lockkeeper.jwt"; while :; do sleep 0.2; done'

/** One allocation whose task has an identity for us. */
export const identified: JobSpec = {
  ID: 'chk',
  TaskGroups: [
    {
      ...group,
      Name: 'g',
      Count: 1,
      Networks: chkGroup.Networks,
      Services: chkGroup.Services,
      Tasks: [
        {
          ...shell('app', copyIdentity),
          Identities: [{ Name: 'lockkeeper', Audience: ['lockkeeper'], TTL: 60 * SECOND, File: true }],
          Templates: [
            {
              DestPath: 'local/conf.txt',
              EmbeddedTmpl: 'hello {{ with nomadVar "nomad/jobs/chk" }}{{ .v }}{{ end }}',
              ChangeMode: 'noop',
            },
          ],
        },
      ],
    },
  ],
}

const variable = '{{ with nomadVar "nomad/jobs/filed" }}{{ .v }}{{ end }}'
const template = (DestPath: string, EmbeddedTmpl: string, more: object = {}): object => ({
  DestPath,
  EmbeddedTmpl,
  ChangeMode: 'noop',
  Splay: 0,
  ...more,
})

/** Its files are rendered from a variable. */
export const filed: JobSpec = {
  ID: 'filed',
  TaskGroups: [
    {
      ...group,
      Name: 'g',
      Count: 1,
      Tasks: [
        {
          ...longRunning('app'),
          Identities: [{ Name: 'lockkeeper', Audience: ['lockkeeper'], TTL: 60 * SECOND, File: true }],
          Templates: [
            template('local/conf.txt', `v=${variable}`),
            template('local/run.sh', '#!/bin/sh\n', { Perms: '0755' }),
            template('local/restarts.txt', variable, { ChangeMode: 'restart' }),
            template('secrets/env', `V=${variable}\n`, { Envvars: true }),
          ],
        },
      ],
    },
  ],
}

/** Its prestart sidecar waits for a variable, and all others for that sidecar. */
export const staged: JobSpec = {
  ID: 'staged',
  TaskGroups: [
    {
      ...group,
      Name: 'g',
      Count: 1,
      Tasks: [
        longRunning('app'),
        { ...longRunning('after'), Lifecycle: { Hook: 'poststart', Sidecar: true } },
        {
          ...longRunning('before'),
          Lifecycle: { Hook: 'prestart', Sidecar: true },
          Templates: [template('local/conf.txt', '{{ with nomadVar "nomad/jobs/staged" }}{{ .v }}{{ end }}')],
        },
      ],
    },
  ],
}

/** Has no services, and a shutdown_delay all the same. */
export const delayed: JobSpec = {
  ID: 'delayed',
  TaskGroups: [{ ...group, Name: 'g', Count: 1, ShutdownDelay: 4 * SECOND, Tasks: [longRunning('app')] }],
}

/** Ends by any signal, and is told to by its own. */
export const signalled: JobSpec = {
  ID: 'signalled',
  TaskGroups: [
    {
      ...group,
      Name: 'g',
      Count: 1,
      Tasks: [{ ...shell('app', 'exec sleep 1000', { on_signal: 'exit' }), KillSignal: 'SIGUSR1', KillTimeout: 7 * SECOND }],
    },
  ],
}

/** A new version for each value; its updates begin with a canary. */
export const canary = (v: string): JobSpec => ({
  ID: 'canary',
  Meta: { v },
  TaskGroups: [{ ...group, Update: { ...group.Update, Canary: 1 }, Name: 'g', Count: 2, Tasks: [longRunning('app')] }],
})

/** One on each node. */
export const system = (v: string): JobSpec => {
  const { ReschedulePolicy: _none, ...rest } = group
  return { ID: 'system', Type: 'system', Meta: { v }, TaskGroups: [{ ...rest, Name: 'g', Tasks: [longRunning('app')] }] }
}

/** More than any node has. */
export const tooLarge: JobSpec = {
  ID: 'large',
  TaskGroups: [{ ...group, Name: 'g', Count: 1, Tasks: [{ ...longRunning('app'), Resources: { MemoryMB: 10_000_000 } }] }],
}
