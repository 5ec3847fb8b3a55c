import { formatDuration } from '../core/duration.ts'
import { Problem } from '../core/errors.ts'
import { DevNomad, type JobSpec } from '../devnomad/devnomad.ts'
import type { AcquireDeps } from '../shim/acquire.ts'
import { contactOf } from '../shim/contact.ts'
import { parse } from './arguments.ts'
import { Stage } from './demo-stage.ts'
import type { Io, Verb } from './io.ts'
import { allowsColours, devSettings } from './settings.ts'

const help = `Shows what lockkeeper does, on a simulated Nomad with two replicas of the service, in less than a minute:
five allocations that all want a restart at once go one at a time; an operator lock stops them and lets them go on; a bad
change halts after the first one, and the mended change gets in. What is shown is also checked: exit code 1 when it is not so.

usage: lockkeeper demo [flags]

  --json    one event a line
`

const OPTIONS = { json: { type: 'boolean', default: false } } as const
const SECOND = 1e9
const PATIENCE_MS = 60_000
const LOCKED_MS = 3_000
const LEVEL = { namespace: 'default', job: 'web' }

export const verb: Verb = {
  help,
  async run(words, env, io) {
    const { values } = parse(words, OPTIONS)
    const nomad = new DevNomad({ clock: io.clock, newId: io.newId, lagMs: 500 })
    const nomadServer = await nomad.listen()
    const stage = new Stage(nomad, nomadServer.address, io, { json: values.json, colours: allowsColours(env) && io.stdout.isTTY })
    const closing: (() => Promise<void>)[] = [() => nomadServer.close()]
    try {
      stage.say('starting a simulated Nomad with a job of five allocations, and two replicas of lockkeeper')
      nomad.registerJob(JOB)
      const settings = devSettings(env, { listen: '127.0.0.1:0', 'log-level': 'error' })
      const { startReplica } = await import('../server.ts')
      const of = { ...settings, nomad: { ...settings.nomad, addresses: [nomadServer.address] } }
      const replicas = await Promise.all(['a', 'b'].map((name) => startReplica({ ...of, name }, { logTo: io.stderr })))
      closing.push(...replicas.map((replica) => () => replica.close()))
      await stage.open()
      const shims = await Promise.all(replicas.map(({ address }) => shimOf(address, io, closing)))
      await play(stage, shims, io)
      stage.end()
      return stage.failed ? 1 : 0
    } finally {
      for (const close of closing.toReversed()) await close()
      nomad.close()
    }
  },
}

/** Five allocations, each healthy a second after its start; all that the service needs to know is in the update block. */
const JOB: JobSpec = {
  ID: 'web',
  TaskGroups: [
    {
      Name: 'api',
      Count: 5,
      Update: { MaxParallel: 1, MinHealthyTime: SECOND, HealthyDeadline: 8 * SECOND, ProgressDeadline: 60 * SECOND },
      Services: [{ Name: 'web', Provider: 'nomad', Checks: [{ Name: 'up', Type: 'http', Interval: SECOND }] }],
      Tasks: [{ Name: 'app', Driver: 'dev', Config: { healthy_after: '1s' } }],
    },
  ],
}

async function play(stage: Stage, shims: readonly AcquireDeps[], io: Io): Promise<void> {
  const restart = (index: number, why: string) => restartInHold(stage, shims[index % shims.length] as AcquireDeps, index, why)

  stage.act('A certificate is rotated: all five want a restart at once. max_parallel is 1.')
  const wave = [0, 1, 2, 3, 4].map((index) => restart(index, 'certificate rotated'))
  await stage.until('two allocations are done', () => stage.grants.length >= 3)

  stage.act('In the middle of it an operator locks the job.')
  const inFlight = await stage.lock(LEVEL, 'looking at the graphs')
  const before = stage.grants.length
  stage.say(`lock answers: under way, granted before: ${inFlight.map((place) => `[${place}]`).join(' ') || 'nothing'}`)
  await io.clock.sleep(LOCKED_MS)
  stage.check('nobody was granted while it was locked', stage.grants.length === before)
  await stage.unlock(LEVEL)
  stage.act(`After ${formatDuration(LOCKED_MS)} it is unlocked, and the wave goes on.`)
  await Promise.all(wave)
  await stage.until('the last one is healthy', () => stage.down.size === 0)
  await stage.until('its hold is over', async () => !(await stage.isUnderWay(LEVEL)))
  stage.check('each of the five was restarted once', stage.stops.length === 5 && new Set(stage.stops).size === 5)
  stage.check('never two were down at a time', stage.mostDown === 1)
  stage.check(
    'the fencing tokens rise',
    stage.grants.every((token, i) => i === 0 || token > (stage.grants[i - 1] as number)),
  )

  stage.act('A bad change: allocation 0 does not become healthy with it. Allocation 1 wants it too.')
  stage.spoil(0)
  await restart(0, 'bad change')
  const waiting = restart(1, 'the same change')
  await stage.until('the semaphore is halted', async () => (await stage.halted()) !== null)
  stage.say(`halted: ${await stage.halted()}`)
  stage.check('the bad change reached one allocation only', stage.stops.length === 6 && stage.down.size === 1)

  stage.act('The change is mended. Allocation 0 asks again, and gets in: no operator is needed.')
  stage.mend(0)
  await restart(0, 'mended change')
  await waiting
  await stage.until('all are healthy', () => stage.down.size === 0)
  stage.check('the halt is lifted', (await stage.halted()) === null)
  stage.check('still never two were down at a time', stage.mostDown === 1)
}

async function shimOf(address: string, io: Io, closing: (() => Promise<void>)[]): Promise<AcquireDeps> {
  const [{ createServiceClient }, { createService }] = await Promise.all([
    import('../shim/client.ts'),
    import('../shim/service.ts'),
  ])
  const { clock, newId, random } = io
  const client = createServiceClient(contactOf(address, null), clock)
  closing.push(() => client.close())
  return { service: createService(client), clock, newId, random, tell: () => undefined }
}

/** What `lockkeeper run -- nomad alloc restart` does beside an allocation. */
async function restartInHold(stage: Stage, shim: AcquireDeps, index: number, reason: string): Promise<void> {
  const { acquire } = await import('../shim/acquire.ts')
  const allocation = stage.allocation(index)
  const patience = { since: shim.clock.now(), ms: PATIENCE_MS }
  const hold = await acquire(shim, { allocation, reason }, patience, stage.signal)
  if (!hold.valid()) throw new Problem('lease_lost', 'the lease was lost before it was acted')
  stage.granted(index, hold.token)
  await stage.restart(allocation)
  await hold.release('done')
}
