// Room client: what happens on the nodes, truly and at once. The servers learn of it later (facts §4).
// This file: the `config` block of a task whose driver is `dev`.
import { parseDuration } from '../../core/duration.ts'

/** How a simulated task behaves; durations in Go style. All may be left out. */
export interface DevConfig {
  /** From the start to running. */
  readonly start_after?: string
  /** From running until its checks would pass. */
  readonly healthy_after?: string
  /** false: its checks fail (a bad value). */
  readonly healthy?: boolean
  /** From the kill signal to the end of the process. */
  readonly stop_after?: string
  /** Ends by itself so long after running, with `exit_code`. */
  readonly exit_after?: string | null
  readonly exit_code?: number
  /** What a signal does: nothing, end the process, or make it read its config anew. */
  readonly on_signal?: 'ignore' | 'exit' | 'reload'
  /** How long a change_script runs in it, and how that ends. */
  readonly script_takes?: string
  readonly script_exit_code?: number
}

export interface Behaviour {
  readonly startAfterMs: number
  readonly healthyAfterMs: number
  readonly healthy: boolean
  readonly stopAfterMs: number
  readonly exitAfterMs: number | null
  readonly exitCode: number
  readonly onSignal: 'ignore' | 'exit' | 'reload'
  readonly scriptTakesMs: number
  readonly scriptExitCode: number
}

/** `endsByItself`: the default for lifecycle tasks that are not sidecars. */
export function behaviour(config: DevConfig, endsByItself: boolean): Behaviour {
  const exitAfter = config.exit_after ?? (endsByItself ? '0s' : null)
  return {
    startAfterMs: duration(config.start_after ?? '0s'),
    healthyAfterMs: duration(config.healthy_after ?? '5s'),
    healthy: config.healthy ?? true,
    stopAfterMs: duration(config.stop_after ?? '100ms'),
    exitAfterMs: exitAfter === null ? null : duration(exitAfter),
    exitCode: config.exit_code ?? 0,
    onSignal: config.on_signal ?? 'ignore',
    scriptTakesMs: duration(config.script_takes ?? '0s'),
    scriptExitCode: config.script_exit_code ?? 0,
  }
}

function duration(text: string): number {
  const ms = parseDuration(text)
  if (ms === null) throw new Error(`no duration: ${text}`)
  return ms
}

const isDuration = (value: unknown): boolean => typeof value === 'string' && parseDuration(value) !== null
const FIELDS: Readonly<Record<keyof DevConfig, (value: unknown) => boolean>> = {
  start_after: isDuration,
  healthy_after: isDuration,
  healthy: (value) => typeof value === 'boolean',
  stop_after: isDuration,
  exit_after: isDuration,
  exit_code: (value) => Number.isInteger(value),
  script_takes: isDuration,
  script_exit_code: (value) => Number.isInteger(value),
  on_signal: (value) => value === 'ignore' || value === 'exit' || value === 'reload',
}

/** What is wrong with a config that somebody wrote; undefined: nothing. Without it a mistyped key would be a default, and a
 *  wrong duration would be found only when the task starts. */
export function configFault(config: object): string | undefined {
  for (const [key, value] of Object.entries(config)) {
    if (!Object.hasOwn(FIELDS, key)) return `${key}: there is no such field, but ${Object.keys(FIELDS).join(', ')}`
    if (value !== null && !FIELDS[key as keyof DevConfig](value)) return `${key}: it cannot be ${JSON.stringify(value)}`
  }
  return undefined
}
