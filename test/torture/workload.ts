// What runs in each allocation: starts slowly, then answers its check, badly when its group's value is bad when it starts.
// argv: folder, group.
import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { append, WORKLOADS, type WorkloadLine } from './journal.ts'

const [, , folder = '.', group = ''] = process.argv
const say = (event: WorkloadLine['event']) =>
  append<WorkloadLine>(folder, WORKLOADS, { event, allocation: process.env['NOMAD_ALLOC_ID'] ?? '', group, pid: process.pid })

say('start')
const stop = () => {
  say('stop')
  setTimeout(() => process.exit(0), 100 + Math.random() * 400)
}
process.once('SIGINT', stop)
process.once('SIGTERM', stop)
const good = !existsSync(join(folder, `bad-${group}`))
await sleep(800 + Math.random() * 1_200)
createServer((_, response) => response.writeHead(good ? 200 : 500).end()).listen(
  Number(process.env['NOMAD_PORT_http']),
  '127.0.0.1',
  () => say(good ? 'healthy' : 'bad'),
)
