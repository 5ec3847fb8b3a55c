import { NomadFault } from '../core/nomad-fault.ts'
import type { Acted, Actions } from '../keeper/ports.ts'
import type { Answer } from './answers.ts'
import type { NomadClient } from './client.ts'

/** What Nomad says when nothing was done, measured (facts §3, §4). Through another agent it stands behind `rpc error: `. */
const NOT_RUNNING = /Task not running/
const OVER = /Unknown allocation|restart of an alloc that should not run/
const NO_TASK = /Could not find task runner for task/

/** Nomad's calls on allocations. Where it ends: they know no fencing and no idempotence, and what was sent cannot be called back. */
export function createActions(client: NomadClient): Actions {
  async function act(what: string, path: string, body: object, boundMs: number): Promise<Acted> {
    let said: Acted = { kind: 'done' }
    const meant = (status: number, text: string) => {
      const meaning = status < 400 ? null : meaningOf(text)
      if (meaning !== null) said = meaning
      return meaning !== null
    }
    const answer = await client.call({ what, method: 'PUT', path, body, boundMs, meant })
    // An agent that is shutting down says 200 to everything; a real answer has this in it (facts §4).
    if (said.kind === 'done' && !isAnswer(answer)) throw new NomadFault('unavailable', `${what}: who answered did nothing`, true)
    return said
  }
  return {
    restart: (id, task, ms) =>
      act('allocation.restart', `/v1/client/allocation/${id}/restart`, task === null ? {} : { TaskName: task }, ms),
    signal: (id, task, name, ms) =>
      act('allocation.signal', `/v1/client/allocation/${id}/signal`, { Task: task, Signal: name }, ms),
    stop: (id, ms) => act('allocation.stop', `/v1/allocation/${id}/stop`, {}, ms),
  }
}

function meaningOf(text: string): Acted | null {
  if (NOT_RUNNING.test(text)) return { kind: 'not_running' }
  if (OVER.test(text)) return { kind: 'over' }
  return NO_TASK.test(text) ? { kind: 'refused', why: 'the allocation has no such task' } : null
}

function isAnswer({ text }: Answer): boolean {
  try {
    const body: unknown = JSON.parse(text)
    return typeof body === 'object' && body !== null && 'Index' in body
  } catch {
    return false
  }
}
