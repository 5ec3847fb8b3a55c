// Who we are among the replicas: our own lease, the others that are alive, and which share of the work is ours.
import { createHash } from 'node:crypto'
import { acquireLease, type Lease, type LeaseDeps } from './lease.ts'
import type { Paths } from './paths.ts'
import type { Snapshot } from './watch.ts'

const RETRY_MS = 2_000

export interface Replica {
  readonly id: string
  /** For people. */
  readonly name: string
  /** The lease under which this replica acts; null: none. Ask it whether it is valid. */
  readonly lease: Lease | null
  /** Watches over a call that acts. While one is under way, or was left without an answer lately, our lease is not given back but
   *  runs out: who takes over must not look before the call can be executed no more (protocol M2). */
  acting<T>(call: Promise<T>): Promise<T>
  /** Whether the replica of this id holds a lease, as the newest snapshot shows it; we ourselves always count as alive. */
  isAlive(id: string): boolean
  /** Whether this piece of work falls to us (rendezvous hashing over the live replicas). Thrift, never safety. */
  isMine(work: string): boolean
  /** The live replica that this piece of work falls to. */
  ownerOf(work: string): string
  /** The ids of those that are alive, ours among them; another set as soon as one comes or goes. */
  readonly alive: ReadonlySet<string>
  /** How many other replicas are alive. */
  readonly others: number
  see(snapshot: Snapshot): void
  /** Keeps a lease of ours until the signal aborts, then gives it back. A lost one is followed by a fresh one. */
  run(signal: AbortSignal): Promise<void>
}

export function createReplica(deps: LeaseDeps, paths: Paths, name: string): Replica {
  const id = deps.newId()
  let alive: ReadonlySet<string> = new Set([id])
  const ownerOf = (work: string) =>
    alive.size === 1 ? id : ([...alive].toSorted((a, b) => compare(weight(work, b), weight(work, a)))[0] as string)
  let lease: Lease | null = null
  const calls = new Set<Promise<unknown>>()
  let unansweredAt = -Infinity
  return {
    id,
    name,
    get lease() {
      return lease
    },
    async acting(call) {
      const answered = call.catch(() => (unansweredAt = deps.clock.now())).finally(() => calls.delete(answered))
      calls.add(answered)
      return await call
    },
    isAlive: (other) => alive.has(other),
    isMine: (work) => ownerOf(work) === id,
    ownerOf,
    get alive() {
      return alive
    },
    get others() {
      return alive.size - 1
    },
    see(snapshot) {
      // Its path is used once, so it is locked as long as it is as the acquire left it (facts §2).
      const leases = [...snapshot.entries.values()].filter((meta) => meta.path.startsWith(paths.replicas) && isUntouched(meta))
      const seen = new Set([id, ...leases.map(({ path }) => path.slice(paths.replicas.length).split('/')[0] as string)])
      if (seen.size !== alive.size || [...seen].some((one) => !alive.has(one))) alive = seen
    },
    async run(signal) {
      for (let nth = 1; !signal.aborted; nth++) {
        lease = await tryAcquire(deps, paths.replicaLease(id, nth), name, signal)
        await lease?.keep(signal)
        await Promise.all(calls)
        if (signal.aborted && deps.clock.now() - unansweredAt > deps.ttlMs) await lease?.end()
        lease = null
        if (!signal.aborted) await deps.clock.sleep(RETRY_MS, signal).catch(() => undefined)
      }
    },
  }
}

/** A variable whose path is used once and that nothing was done to since its acquire: the lock on it still stands. */
export function isUntouched(meta: { readonly createIndex: number; readonly modifyIndex: number }): boolean {
  return meta.createIndex === meta.modifyIndex
}

async function tryAcquire(deps: LeaseDeps, path: string, name: string, signal: AbortSignal): Promise<Lease | null> {
  try {
    return await acquireLease(deps, path, { actor: `replica ${name}` }, signal)
  } catch (error) {
    if (!signal.aborted) deps.log.warn({ path, error: String(error) }, 'no lease for this replica; it works on without')
    return null
  }
}

function weight(work: string, replica: string): string {
  return createHash('sha256').update(`${work}\n${replica}`).digest('hex')
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
