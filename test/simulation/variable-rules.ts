// What every request about a variable must keep to, whatever comes of it (facts §1, §2; protocol G8).
import type { Request } from '../../src/devnomad/devnomad.ts'
import { Violation } from './ledger.ts'

/** Watches requests of the service. */
export class VariableRules {
  /** Lock IDs and lease paths that an acquire was ever sent with. */
  readonly #lockIds = new Map<string, string>()
  readonly #leasePaths = new Set<string>()

  saw({ method, path, body }: Request): void {
    if (method === 'GET' || !path.startsWith('/v1/var/')) return
    const [where, search = ''] = path.split('?')
    const query = new URLSearchParams(search)
    const name = decodeURIComponent((where as string).slice('/v1/var/'.length))
    const isLease = name.startsWith('lockkeeper/leases/')
    const operation = ['lock-acquire', 'lock-renew', 'lock-release'].find((one) => query.has(one))
    const { Lock: lock } = JSON.parse(body ?? '{}') as { Lock?: { ID: string; LockDelay?: string } }
    if (operation !== undefined && !isLease) throw new Violation('only leases are locked', `${operation} of ${name}`)
    if (method === 'PUT' && operation === undefined) {
      if (isLease) throw new Violation('a lease sees no plain set', name)
      if (lock !== undefined) throw new Violation('no Lock in a plain set', name)
    }
    if (operation === undefined && !query.get('cas')) throw new Violation('writes are check-and-set', `${method} ${name}`)
    if (operation === 'lock-acquire') this.#acquired(name, lock)
  }

  #acquired(name: string, lock: { ID: string; LockDelay?: string } | undefined): void {
    const used = lock === undefined ? undefined : this.#lockIds.get(lock.ID)
    if (lock === undefined || lock.ID === '') throw new Violation('lock IDs used once', `${name} is acquired without one`)
    if (used !== undefined) throw new Violation('lock IDs used once', `${name} is acquired with the ID of ${used}`)
    if (this.#leasePaths.has(name)) throw new Violation('lease path used once', `${name} is acquired a second time`)
    this.#lockIds.set(lock.ID, name)
    this.#leasePaths.add(name)
  }
}
