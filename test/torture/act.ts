// The command under a shim: restarts an allocation through Nomad's API, or writes to a fenced log. argv: what to do as JSON.
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { append, ACTS, type ActLine } from './journal.ts'
import { ACT_FAILED, ACT_REFUSED } from './setup.ts'

export interface Task {
  readonly folder: string
  readonly shim: string
  readonly unit: string
  /** How long it takes before the call, or between the first and the last write. */
  readonly thinkMs: number
  /** Where the restart is asked for, one address after another. */
  readonly nomad: readonly string[]
  readonly token: string | null
  /** The fenced log; null: a restart. */
  readonly fenced: string | null
}

const CALL_MS = 6_000
const WRITE_EVERY_MS = 250

const task = JSON.parse(process.argv[2] ?? '') as Task
const { folder, shim, unit } = task
const hold = process.env['LOCKKEEPER_HOLD'] ?? ''
const token = Number(process.env['LOCKKEEPER_TOKEN'])
process.stdout.write(`LOCKKEEPER_TOKEN=${token}\n`)
append<ActLine>(folder, ACTS, { shim, event: 'begin', unit, token, hold, pid: process.pid })
process.once('SIGTERM', () => {
  append<ActLine>(folder, ACTS, { shim, event: 'terminated' })
  process.exit(143)
})
const code = task.fenced === null ? await restart() : await write(task.fenced)
append<ActLine>(folder, ACTS, { shim, event: 'end', code })
process.exit(code)

async function restart(): Promise<number> {
  await sleep(task.thinkMs)
  for (const [nth, address] of task.nomad.entries()) {
    append<ActLine>(folder, ACTS, { shim, event: 'call', nth, address })
    const { status, text } = await call(`${address}/v1/client/allocation/${unit}/restart`, 'PUT', {})
    append<ActLine>(folder, ACTS, { shim, event: 'answer', nth, status, text: text.slice(0, 120) })
    if (status === 200) return 0
    // An earlier call without an answer has taken effect.
    if (nth > 0 && text.includes('Task not running')) return 0
    await sleep(500)
  }
  return ACT_FAILED
}

async function write(fenced: string): Promise<number> {
  const endsAt = Date.now() + task.thinkMs
  for (let step = 'enter'; ; step = Date.now() < endsAt ? 'write' : 'leave') {
    const { status } = await call(fenced, 'POST', { name: unit, token, hold, shim, step })
    if (status !== 200) {
      append<ActLine>(folder, ACTS, { shim, event: 'refused' })
      return ACT_REFUSED
    }
    if (step === 'leave') return 0
    await sleep(WRITE_EVERY_MS)
  }
}

/** `status` null: no answer. */
async function call(url: string, method: string, body: object): Promise<{ status: number | null; text: string }> {
  try {
    const headers = { 'content-type': 'application/json', ...(task.token === null ? {} : { 'x-nomad-token': task.token }) }
    const answer = await fetch(url, { method, headers, body: JSON.stringify(body), signal: AbortSignal.timeout(CALL_MS) })
    return { status: answer.status, text: await answer.text() }
  } catch (error) {
    return { status: null, text: String(error) }
  }
}
