import { groupOf, milliseconds, type Allocation, type Identity } from '../cluster/shapes.ts'
import type { Keyring } from './keyring.ts'
import type { Claim } from './rights.ts'

/** Identities of workloads: who an allocation's task is, signed by the servers (facts §7). */
export class Identities {
  readonly #keyring: Keyring
  readonly #wall: () => number
  readonly #newId: () => string
  readonly #alloc: (id: string) => Allocation | undefined

  constructor(keyring: Keyring, wall: () => number, newId: () => string, alloc: (id: string) => Allocation | undefined) {
    this.#keyring = keyring
    this.#wall = wall
    this.#newId = newId
    this.#alloc = alloc
  }

  /** A fresh token; without a TTL it does not expire, but ends with its allocation. The group is only in `sub`. */
  issue(alloc: Allocation, task: string, identity: Pick<Identity, 'Name' | 'Audience' | 'TTL'>): string {
    const now = Math.floor(this.#wall() / 1000)
    const { Audience: all, Name, TTL } = identity
    return this.#keyring.sign({
      aud: all.length === 1 ? all[0] : all,
      ...(TTL > 0 ? { exp: now + Math.floor(milliseconds(TTL) / 1000) } : {}),
      iat: now,
      jti: this.#newId(),
      nbf: now,
      nomad_allocation_id: alloc.ID,
      nomad_job_id: alloc.JobID,
      nomad_namespace: alloc.Namespace,
      nomad_task: task,
      sub: ['global', alloc.Namespace, alloc.JobID, alloc.TaskGroup, task, Name].join(':'),
    })
  }

  /** Of a task that has an identity of this name; throws for a script that names another one. */
  issueNamed(alloc: Allocation, task: string, name: string): string {
    const spec = groupOf(alloc.Job, alloc.TaskGroup).Tasks.find((one) => one.Name === task)
    if (spec === undefined) throw new Error(`no task ${task} in ${alloc.ID}`)
    const found = [spec.Identity, ...(spec.Identities ?? [])].find((one) => one.Name === name)
    if (found === undefined) throw new Error(`no identity ${name} of ${task}`)
    return this.issue(alloc, task, found)
  }

  /** Whose token it is: signed by a known key, not expired, and its allocation is not over. */
  verify(token: string): Claim | undefined {
    const claims = this.#keyring.verify(token, this.#wall() / 1000)
    if (claims === undefined) return undefined
    const alloc = this.#alloc(String(claims['nomad_allocation_id']))
    if (alloc === undefined || alloc.ClientStatus === 'complete' || alloc.ClientStatus === 'failed') return undefined
    const task = String(claims['nomad_task'])
    return { namespace: alloc.Namespace, job: alloc.JobID, group: alloc.TaskGroup, task }
  }
}
