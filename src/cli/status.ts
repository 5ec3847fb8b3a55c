import type { Level } from '../core/scope.ts'
import { problemOf } from '../shim/answers.ts'
import { createServiceClient, type ServiceClient } from '../shim/client.ts'
import { LEVEL_HELP, LEVEL_OPTIONS, levelOf, parse } from './arguments.ts'
import { plain, writeJson, type Verb } from './io.ts'
import { allowsColours, ownNamespace, serviceContact } from './settings.ts'
import { statusText, type LockView, type SemaphoreView } from './status-view.ts'
import { watchedText, type WatchedView } from './watched-view.ts'

const help = `Shows who holds, who waits and why, what failed, what is shut, and which allocations run with their current watched files. Without
flags everything.

usage: lockkeeper status [LEVEL] [flags]

${LEVEL_HELP}
  --addr URL[,URL...]  the service (LOCKKEEPER_ADDR, http://127.0.0.1:4650); @FILE: what is in that file
  --json               what the service answers: {semaphores, locks, watched}
`

const OPTIONS = { ...LEVEL_OPTIONS, addr: { type: 'string' }, json: { type: 'boolean', default: false } } as const
const BOUND_MS = 15_000

export const verb: Verb = {
  help,
  async run(words, env, io) {
    const { values } = parse(words, OPTIONS)
    const level = levelOf(values, ownNamespace(env))
    const client = createServiceClient(serviceContact(env, values.addr), io.clock)
    try {
      const query = queryOf(level)
      const { semaphores } = await get<{ semaphores: readonly SemaphoreView[] }>(client, `/v1/semaphores${query}`, 'semaphores')
      const { locks } = await get<{ locks: readonly LockView[] }>(client, '/v1/locks', 'locks')
      const watched = await get<WatchedView>(client, `/v1/watched${query}`, 'groups')
      if (values.json) writeJson(io.stdout, { semaphores, locks, watched })
      else {
        const colours = allowsColours(env) && io.stdout.isTTY
        const options = { colours, now: io.clock.wall(), plain }
        io.stdout.write(`${statusText(semaphores, locks, options)}${watchedText(watched, options)}`)
      }
      return 0
    } finally {
      await client.close()
    }
  },
}

/** The body, in which `field` is a list. */
async function get<T>(client: ServiceClient, path: string, field: string): Promise<T> {
  const answer = await client.call({ method: 'GET', path, boundMs: BOUND_MS }, new AbortController().signal)
  const list = (answer.body as Record<string, unknown> | null)?.[field]
  if (answer.status !== 200 || !Array.isArray(list)) throw problemOf(answer, 'the address of the service')
  return answer.body as T
}

function queryOf(level: Level): string {
  const query = new URLSearchParams(level as Record<string, string>).toString()
  return query === '' ? '' : `?${query}`
}
