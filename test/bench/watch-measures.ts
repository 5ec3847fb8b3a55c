// What it costs to look at watched files.
import type { Measure } from './measures.ts'
import { connectionsTo, usage, type Replica } from './processes.ts'
import { sleep } from './stage.ts'

const JOBS = 50
const ALLOCATIONS = 100
const ALL = JOBS * ALLOCATIONS
const IDLE_MS = 60_000

/** Five thousand allocations at one replica, each with one watched file, and nothing changes. */
export const watch: Measure = async (open) => {
  const stage = await open()
  try {
    for (let n = 0; n < JOBS; n++) await stage.api.register(jobOf(`watched-${n}`))
    const replica = await stage.replica()
    const startedAt = performance.now()
    let looked = 0
    while (looked < ALL && performance.now() - startedAt < 180_000) {
      await sleep(1_000)
      looked = (await figuresOf(replica)).current
    }
    const enteredS = (performance.now() - startedAt) / 1_000
    const [before, figures] = [usage(replica), await figuresOf(replica)]
    await sleep(IDLE_MS)
    const [after, then] = [usage(replica), await figuresOf(replica)]
    const connections = connectionsTo(replica, Number(new URL(stage.nomad.address).port))
    const cpu = after === null || before === null ? null : ((after.cpuMs - before.cpuMs) / IDLE_MS) * 100
    const all = looked >= ALL && then.current >= ALL
    const rate = ((then.looks - figures.looks) / IDLE_MS) * 1_000
    const note = `${looked} were seen after ${enteredS.toFixed(0)} s; ${rate.toFixed(0)} looks/s, an interval of ${then.interval} s`
    return [
      {
        name: '5,000 watched allocations: processor',
        value: cpu,
        unit: '% of a core',
        goal: '< 15 %',
        met: cpu === null ? null : all && cpu < 15,
        note,
      },
      {
        name: '5,000 watched allocations: calls for files',
        value: rate,
        unit: '/s',
        goal: '≤ 200 /s',
        met: all && rate <= 200,
      },
      {
        name: '5,000 watched allocations: connections to Nomad',
        value: connections,
        unit: '',
        goal: 'bounded (32)',
        met: connections === null ? null : all && connections <= 32,
      },
    ]
  } finally {
    await stage.end()
  }
}

function jobOf(id: string): object {
  const template = { DestPath: 'secrets/app.env', EmbeddedTmpl: 'KEY=value\n', ChangeMode: 'noop' }
  const task = { Name: 'app', Driver: 'dev', Config: { healthy_after: '0s' }, Templates: [template] }
  const group = { Name: 'api', Count: ALLOCATIONS, Tasks: [task] }
  return { ID: id, Type: 'service', Meta: { lockkeeper_watch: 'secrets/app.env' }, TaskGroups: [group] }
}

async function figuresOf({ address }: Replica): Promise<{ current: number; looks: number; interval: number }> {
  const page = await (await fetch(`${address}/metrics`)).text()
  const read = (line: RegExp) => Number(line.exec(page)?.[1] ?? 0)
  return {
    current: read(/^lockkeeper_watched_allocations\{state="current"\} (\d+)$/m),
    looks: read(/^lockkeeper_nomad_request_duration_seconds_count\{what="files.stat",outcome="answered"\} (\d+)$/m),
    interval: read(/^lockkeeper_watch_interval_seconds (\S+)$/m),
  }
}
