import { readFile } from 'node:fs/promises'
import { DevNomad, type JobSpec } from '../devnomad/devnomad.ts'
import { playScenario, readScenario, ScenarioFault, type Step } from '../devnomad/scenario.ts'
import { durationOf, invalid, parse, wholeNumberOf } from './arguments.ts'
import type { Io, Verb } from './io.ts'
import { devSettings } from './settings.ts'
import { untilSignal } from './until-signal.ts'

const help = `A small simulated Nomad with a job of five allocations, and one replica of the service, in one process: to try things.
Nothing is kept when it ends.

usage: lockkeeper dev [flags]

  --nomad-port PORT      of the simulated Nomad on 127.0.0.1 (4646); 0 takes a free one
  --nomad-only           without the service: one is started by hand, or several
  --listen HOST:PORT     of the service (LOCKKEEPER_LISTEN, 127.0.0.1:4650)
  --healthy-after TIME   how long a restarted task needs to be healthy (5s)
  --scenario FILE        what happens in the simulated Nomad, and when: a JSON list of steps like
                         {"at": "10s", "do": "crash", "job": "web", "group": "api", "index": 0}; the README has all
  --log-level LEVEL      of the service (LOCKKEEPER_LOG_LEVEL, here warn)
  --json                 the addresses as JSON
`

const OPTIONS = {
  'nomad-port': { type: 'string', default: '4646' },
  'nomad-only': { type: 'boolean', default: false },
  listen: { type: 'string' },
  'healthy-after': { type: 'string', default: '5s' },
  scenario: { type: 'string' },
  'log-level': { type: 'string' },
  json: { type: 'boolean', default: false },
} as const
const SECOND = 1e9

export const verb: Verb = {
  help,
  async run(words, env, io) {
    const { values } = parse(words, OPTIONS)
    durationOf('--healthy-after', values['healthy-after'])
    const port = wholeNumberOf('--nomad-port', values['nomad-port'])
    const steps = values.scenario === undefined ? [] : await scenarioOf(values.scenario)
    const settings = devSettings(env, values)
    const { clock, newId, random, stderr } = io
    const nomad = new DevNomad({ clock, newId })
    const start = async () => {
      const listening = await nomad.listen(port)
      nomad.registerJob(sampleJob(values['healthy-after']))
      const logTo = { write: (text: string) => stderr.write(text) }
      const of = { ...settings, nomad: { ...settings.nomad, addresses: [listening.address] } }
      const load = async () => (await import('../server.ts')).startReplica(of, { clock, newId, random, logTo })
      const replica = values['nomad-only'] ? null : await load()
      await show(nomad, listening.address, replica?.address ?? null, values.json, io)
      const over = new AbortController()
      const tell = ({ says }: Step, problem?: string) =>
        stderr.write(`scenario: ${says}${problem === undefined ? '' : `: ${problem}`}\n`)
      const playing = playScenario(steps, nomad, { clock, signal: over.signal, tell })
      return {
        async close() {
          over.abort()
          await playing
          await replica?.close()
          await listening.close()
        },
      }
    }
    try {
      return await untilSignal('lockkeeper dev', start, io)
    } finally {
      nomad.close()
    }
  },
}

async function scenarioOf(file: string): Promise<readonly Step[]> {
  try {
    return readScenario(await readFile(file, 'utf8'))
  } catch (error) {
    if (error instanceof ScenarioFault) throw invalid(`--scenario ${file}: ${error.faults.join('; ')}`)
    throw invalid(`--scenario: ${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})`)
  }
}

/** `web`, one group `api`, whose update block says all that the service needs to know. */
function sampleJob(healthyAfter: string): JobSpec {
  return {
    ID: 'web',
    TaskGroups: [
      {
        Name: 'api',
        Count: 5,
        Update: { MaxParallel: 1, MinHealthyTime: 2 * SECOND, HealthyDeadline: 60 * SECOND, ProgressDeadline: 120 * SECOND },
        Services: [{ Name: 'web', Provider: 'nomad', Checks: [{ Name: 'up', Type: 'http', Interval: 2 * SECOND }] }],
        Tasks: [{ Name: 'app', Driver: 'dev', Config: { healthy_after: healthyAfter } }],
      },
    ],
  }
}

/** The allocations of the sample job, as soon as they are placed. */
async function placed(nomad: DevNomad, clock: Io['clock']): Promise<string[]> {
  for (;;) {
    const { body } = await nomad.handle({ method: 'GET', path: '/v1/job/web/allocations' })
    const all = JSON.parse(body) as { ID: string; Name: string }[]
    if (all.length > 0) return all.toSorted((a, b) => a.Name.localeCompare(b.Name, 'en', { numeric: true })).map(({ ID }) => ID)
    await clock.sleep(50)
  }
}

async function show(nomad: DevNomad, nomadAddress: string, address: string | null, json: boolean, io: Io): Promise<void> {
  const { stdout, clock } = io
  const ids = await placed(nomad, clock)
  if (json) return stdout.write(`${JSON.stringify({ nomad: nomadAddress, lockkeeper: address, allocations: ids })}\n`)
  const restart = (id: string) =>
    `lockkeeper run --allocation ${id} -- curl -sX PUT $NOMAD_ADDR/v1/client/allocation/${id}/restart -d '{}'`
  stdout.write(`Nomad (simulated)  ${nomadAddress}, job web, group api, five allocations:
${ids.map((id) => `                   ${id}`).join('\n')}
Lockkeeper         ${address ?? 'not started; start it with: lockkeeper serve'}

In another terminal:

  export NOMAD_ADDR=${nomadAddress} LOCKKEEPER_ADDR=${address ?? 'http://127.0.0.1:4650'}

  ${restart(ids[0] as string)}
  ${restart(ids[1] as string)}
        the second one waits until the first is healthy again

  lockkeeper status
  lockkeeper lock --job web --reason 'looking into it'
  lockkeeper unlock --job web

Ctrl-C ends all of it.
`)
}
