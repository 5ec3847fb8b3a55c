// What it costs, each figure beside its limit from the same run. On demand only: the figures of a busy machine mean little.
import { parseArgs } from 'node:util'
import { table, type Figure } from './figures.ts'
import { admission, start } from './local-measures.ts'
import { managedWrites } from './managed-measures.ts'
import { burst, crowd, handOver, throughput, writesPerRestart, type Measure } from './measures.ts'
import { stages } from './stage.ts'
import { watch } from './watch-measures.ts'

const MEASURES: Readonly<Record<string, Measure>> = {
  admission,
  start,
  'hand-over': handOver,
  throughput,
  writes: writesPerRestart,
  managed: managedWrites,
  burst,
  crowd,
  watch,
}
const help = `npm run bench -- [flags]: measures against a simulated Nomad, or the real one at NOMAD_ADDR (NOMAD_TOKEN).

  --only NAMES     some of them, with commas: ${Object.keys(MEASURES).join(', ')}
  --write-ms N     how much longer a write takes at the simulated Nomad (2, as the log of three servers on one machine does)
  --json           the figures as JSON

LOCKKEEPER_BENCH_BIN names another build than dist/bin.js, to compare with.
`

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: Object.keys(MEASURES).join(',') },
    'write-ms': { type: 'string', default: '2' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

async function run(): Promise<number> {
  const names = values.only.split(',')
  const unknown = names.find((name) => !Object.hasOwn(MEASURES, name))
  if (values.help || unknown !== undefined) {
    process.stdout.write(unknown === undefined ? help : `there is no measure ${unknown}\n${help}`)
    return unknown === undefined ? 0 : 2
  }
  const address = process.env['NOMAD_ADDR']
  const real = address === undefined || address === '' ? null : { address, token: process.env['NOMAD_TOKEN'] }
  const open = stages(real, Number(values['write-ms']))
  const figures: Figure[] = []
  for (const name of names) {
    process.stderr.write(`${name} …\n`)
    figures.push(...(await MEASURES[name]!(open)))
  }
  const nomad = real === null ? `simulated, ${values['write-ms']} ms a write` : 'real'
  if (values.json) process.stdout.write(`${JSON.stringify({ node: process.version, nomad, figures }, null, 2)}\n`)
  else process.stdout.write(`Node ${process.version}, Nomad: ${nomad}\n\n${table(figures)}\n`)
  return 0
}

process.exit(await run())
