import { Problem } from '../../src/core/errors.ts'
import { problemOf } from '../../src/shim/answers.ts'
import type { ServiceClient } from '../../src/shim/client.ts'
import type { Chance } from './chance.ts'
import type { Host } from './host.ts'
import type { Network } from './network.ts'
import type { Tamper } from './nomad-link.ts'
import type { SimulatedReplica } from './replica.ts'

/** What a replica answers when another one may do better. */
const MOVE = new Set([502, 503, 504])

/** A shim's way to the service, over the simulated network. As the real one: the replica that answered last, else each of the others
 *  once. `renewed` is called for each renewal that succeeded with the time, on the shim's own clock, before it was sent. */
export function linkToService(
  host: Host,
  replicas: () => readonly SimulatedReplica[],
  network: Network,
  chance: Chance,
  renewed: (hold: string, sentAt: number) => void,
  tamper: Tamper,
): ServiceClient {
  let current = chance.whole(0, 7)
  return {
    async call(call, signal) {
      const forged = tamper.instead?.(call)
      if (forged != null) return forged
      const all = replicas()
      const first = current
      let said: Problem | null = null
      for (let nth = 0; nth < all.length; nth++) {
        const replica = all[(first + nth) % all.length] as SimulatedReplica
        const sentAt = host.clock.now()
        try {
          const answer = await host.clock.within(call.boundMs, signal, (bounded) =>
            network.exchange(host, replica.host, bounded, (closed) => replica.serve(call, closed)),
          )
          if (!MOVE.has(answer.status)) {
            current = first + nth
            const [, hold] = /^\/v1\/holds\/([^/]+)\/renew$/.exec(call.path) ?? []
            if (hold !== undefined && answer.status === 200) renewed(hold, sentAt)
            return answer
          }
          said = problemOf(answer, replica.host.name)
        } catch {
          signal.throwIfAborted()
        }
      }
      current = first + 1
      throw said ?? new Problem('service_unavailable', 'no replica of the service answers')
    },
    close: async () => undefined,
  }
}
