import { createHash } from 'node:crypto'
import { milliseconds, type Check, type Group, type Service } from '../cluster/shapes.ts'
import type { Timers } from '../timers.ts'

export interface CheckResult {
  readonly Check: string
  readonly Group: string
  readonly ID: string
  readonly Mode: 'healthiness' | 'readiness'
  readonly Output: string
  readonly Service: string
  readonly Status: 'success' | 'failure' | 'pending'
  readonly StatusCode?: number
  readonly Task?: string
  /** Whole seconds. */
  readonly Timestamp: number
}

interface Watched {
  readonly service: Service
  readonly check: Check
  /** The task that is asked; undefined: all main tasks of the group. */
  readonly task: string | undefined
}

/** The Nomad checks of one allocation. They run on their own, at their interval, whatever the tasks do: so a result
 *  survives a restart until the next run (facts §5). */
export class Checks {
  readonly #results = new Map<string, CheckResult>()
  readonly #cancels: (() => void)[] = []

  constructor(
    alloc: { id: string; name: string },
    group: Group,
    seams: { timers: Timers; wall: () => number; passes: (task: string | undefined) => boolean; changed: () => void },
  ) {
    watched(group).forEach((one, at) => {
      const id = createHash('sha256').update([alloc.id, one.service.Name, one.check.Name, at].join('\0')).digest('hex')
      const told = (result: Pick<CheckResult, 'Status' | 'Output' | 'StatusCode'>): void => {
        const before = this.#results.get(id)?.Status
        this.#results.set(id, {
          Check: one.check.Name,
          Group: alloc.name,
          ID: id,
          Mode: one.check.OnUpdate === 'ignore' ? 'readiness' : 'healthiness',
          Service: one.service.Name,
          ...result,
          ...(one.task === undefined ? {} : { Task: one.task }),
          Timestamp: Math.floor(seams.wall() / 1000),
        })
        if (before !== result.Status) seams.changed()
      }
      const run = (): void => {
        this.#cancels[at] = seams.timers.after(milliseconds(one.check.Interval), run)
        if (!seams.passes(one.task)) return told({ Status: 'failure', Output: 'nomad: connection refused' })
        const code = one.check.Type === 'http' ? { StatusCode: 200 } : {}
        told({ Status: 'success', Output: `nomad: ${one.check.Type} ok`, ...code })
      }
      told({ Status: 'pending', Output: 'nomad: waiting to run' })
      // Half an interval: Nomad's compromise between too early and too slow.
      this.#cancels[at] = seams.timers.after(milliseconds(one.check.Interval) / 2, run)
    })
  }

  /** By ID; null when there are none. */
  get results(): Record<string, CheckResult> | null {
    return this.#results.size === 0 ? null : Object.fromEntries(this.#results)
  }

  /** Whether every healthiness check has passed; readiness checks say nothing of health. */
  get passing(): boolean {
    return [...this.#results.values()].every((result) => result.Mode === 'readiness' || result.Status === 'success')
  }

  /** Stops, and forgets: a finished allocation has no results. */
  close(): void {
    for (const cancel of this.#cancels) cancel()
    this.#results.clear()
  }
}

// Consul's checks are not Nomad's to show.
function watched(group: Group): Watched[] {
  const of = (services: Service[] | null, task: string | undefined): Watched[] =>
    (services ?? [])
      .filter((service) => service.Provider === 'nomad')
      .flatMap((service) => (service.Checks ?? []).map((check) => ({ service, check, task })))
  return [
    ...of(group.Services, undefined).map((one) => ({ ...one, task: one.check.TaskName || one.service.TaskName || undefined })),
    ...group.Tasks.flatMap((task) => of(task.Services, task.Name)),
  ]
}
