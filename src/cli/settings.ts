// The settings from flags and environment. The only place that knows the names of environment variables, but for Nomad's own
// (nomad/settings.ts). A flag wins over the environment; empty counts as unset.
import { hostname, userInfo } from 'node:os'
import { prefixFault } from '../keeper/paths.ts'
import type { Clock } from '../keeper/ports.ts'
import { AUTHS, type Auth } from '../listen.ts'
import { nomadSettings, type NomadSettings } from '../nomad/settings.ts'
import { absenceOf, ON_UNAVAILABLE, type Absence } from '../core/unavailable.ts'
import { readTokenFile, tokenSource } from '../nomad/token.ts'
import { contactOf, operatorContactOf, type Contact } from '../shim/contact.ts'
import { durationOf, invalid, wholeNumberOf } from './arguments.ts'
import type { Env } from './io.ts'

const DEFAULT_ADDRESS = 'http://127.0.0.1:4650'
const DEFAULT_LISTEN = '127.0.0.1:4650'
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

/** Where the service is, and as whom it is asked, beside a workload. */
export function serviceContact(env: Env, flag: string | undefined): Contact {
  const own = chosen(env['LOCKKEEPER_TOKEN_FILE'])
  const secrets = chosen(env['NOMAD_SECRETS_DIR'])
  const inTask = secrets === undefined ? null : { path: `${secrets}/nomad_lockkeeper.jwt`, expected: false }
  const token = own === undefined ? inTask : { path: own, expected: true }
  return contactOf(serviceAddress(env, flag), token)
}

/** Where the service is for an operator, who shows it the token of NOMAD_TOKEN or NOMAD_TOKEN_FILE. */
export function operatorContact(env: Env, flag: string | undefined, clock: Clock): Contact {
  const tokens = tokenSource(nomadSettings(env).token, readTokenFile, clock)
  return operatorContactOf(serviceAddress(env, flag), () => tokens.current())
}

function serviceAddress(env: Env, flag: string | undefined): string {
  return chosen(flag, env['LOCKKEEPER_ADDR']) ?? DEFAULT_ADDRESS
}

export interface UnavailableFlags {
  readonly 'on-unavailable'?: string | undefined
  readonly 'unavailable-wait'?: string | undefined
  readonly 'unavailable-then'?: string | undefined
  readonly 'jitter-window'?: string | undefined
}

/** What a shim does while the service is out of reach. */
export function unavailablePolicy(env: Env, flags: UnavailableFlags): Absence {
  const said = (flag: keyof UnavailableFlags, variable: string, other: string) => ({
    from: `--${flag} (${variable})`,
    text: chosen(flags[flag], env[variable]) ?? other,
  })
  const word = <T extends string>({ from, text }: { from: string; text: string }, words: readonly T[]): T => {
    const found = words.find((one) => one === text)
    if (found === undefined) throw invalid(`${from}: one of ${words.join(', ')}`)
    return found
  }
  const duration = ({ from, text }: { from: string; text: string }) => durationOf(from, text)
  const onUnavailable = word(said('on-unavailable', 'LOCKKEEPER_ON_UNAVAILABLE', 'wait'), ON_UNAVAILABLE)
  const lastResort = word(said('unavailable-then', 'LOCKKEEPER_UNAVAILABLE_THEN', 'skip'), ['skip', 'proceed', 'jitter'])
  const index = chosen(env['NOMAD_ALLOC_INDEX'])
  if (index === undefined && (onUnavailable === 'jitter' || (onUnavailable === 'wait' && lastResort === 'jitter')))
    throw invalid('jitter needs NOMAD_ALLOC_INDEX, which Nomad sets inside a task')
  return absenceOf({
    onUnavailable,
    lastResort,
    waitMs: duration(said('unavailable-wait', 'LOCKKEEPER_UNAVAILABLE_WAIT', '10m')),
    windowMs: duration(said('jitter-window', 'LOCKKEEPER_JITTER_WINDOW', '5m')),
    index: index === undefined ? 0 : wholeNumberOf('NOMAD_ALLOC_INDEX', index),
  })
}

/** Where a shim notes what it cannot report: beside the files of its task, with which it goes. */
export function absenceFile(env: Env): string | null {
  const folder = chosen(env['NOMAD_TASK_DIR'])
  return folder === undefined ? null : `${folder}/.lockkeeper-unreported`
}

/** The allocation that we are in, when a Nomad task runs us. */
export function ownAllocation(env: Env): string | undefined {
  return chosen(env['NOMAD_ALLOC_ID'])
}

/** The unit of a shared semaphore, unless given. */
export function ownHost(): string {
  return hostname()
}

/** Whether colours are wanted at all (no-color.org). */
export function allowsColours(env: Env): boolean {
  return chosen(env['NO_COLOR']) === undefined
}

/** Who operates, for people who read it. It proves nothing. */
export function operatorName(env: Env): string {
  const name = chosen(env['USER'], env['LOGNAME']) ?? userName()
  return `${name}@${hostname()}`
}

export interface OperatorSettings {
  readonly nomad: NomadSettings
  readonly prefix: string
}

export interface ServeSettings extends OperatorSettings {
  /** As startReplica takes it: `host:port`. */
  readonly listen: string
  /** As startReplica takes it: each time that it was said. */
  readonly auth: readonly Auth[]
  /** Name of this replica, for people. */
  readonly name: string
  readonly leaseTtlMs: number
  readonly logLevel: (typeof LOG_LEVELS)[number]
}

export interface ServeFlags {
  readonly listen?: string | undefined
  readonly auth?: readonly string[] | undefined
  readonly prefix?: string | undefined
  readonly 'lease-ttl'?: string | undefined
  readonly 'log-level'?: string | undefined
  readonly name?: string | undefined
}

/** NOMAD_NAMESPACE, which says where the variables of the service are. */
export function ownNamespace(env: Env): string | undefined {
  return chosen(env['NOMAD_NAMESPACE'])
}

export function operatorSettings(env: Env, prefix: string | undefined): OperatorSettings {
  return { nomad: nomadSettings(env), prefix: prefixOf(env, prefix) }
}

export function serveSettings(env: Env, flags: ServeFlags): ServeSettings {
  return {
    ...operatorSettings(env, flags.prefix),
    listen: chosen(flags.listen, env['LOCKKEEPER_LISTEN']) ?? DEFAULT_LISTEN,
    auth: auths(flags.auth ?? chosen(env['LOCKKEEPER_AUTH'])?.split(',') ?? []),
    name: chosen(flags.name, env['LOCKKEEPER_NAME']) ?? hostname(),
    leaseTtlMs: leaseTtl(chosen(flags['lease-ttl'], env['LOCKKEEPER_LEASE_TTL']) ?? '15s'),
    logLevel: logLevel(chosen(flags['log-level'], env['LOCKKEEPER_LOG_LEVEL']) ?? 'info'),
  }
}

/** Those of `dev`: the service must meet the simulated Nomad and no other, whatever the environment says of a real one. Nobody is
 *  asked who they are, wherever it listens: nothing real is behind it. */
export function devSettings(env: Env, flags: ServeFlags): ServeSettings {
  const { LOCKKEEPER_LISTEN, LOCKKEEPER_LOG_LEVEL } = env as { LOCKKEEPER_LISTEN?: string; LOCKKEEPER_LOG_LEVEL?: string }
  const level = chosen(flags['log-level'], LOCKKEEPER_LOG_LEVEL) ?? 'warn'
  return serveSettings({ LOCKKEEPER_LISTEN }, { ...flags, auth: ['none', 'none'], 'log-level': level, name: 'dev' })
}

function prefixOf(env: Env, flag: string | undefined): string {
  const prefix = chosen(flag, env['LOCKKEEPER_PREFIX']) ?? 'lockkeeper'
  const fault = prefixFault(prefix)
  if (fault !== null) throw invalid(`--prefix (LOCKKEEPER_PREFIX): ${fault}`)
  return prefix
}

function auths(words: readonly string[]): Auth[] {
  return words.map((word) => {
    const auth = AUTHS.find((one) => one === word.trim())
    if (auth === undefined) throw invalid(`--auth (LOCKKEEPER_AUTH): one of ${AUTHS.join(', ')}`)
    return auth
  })
}

/** Nomad takes 10s to 24h for a lock. */
function leaseTtl(text: string): number {
  const ms = durationOf('--lease-ttl (LOCKKEEPER_LEASE_TTL)', text)
  if (ms < 10_000 || ms > 86_400_000) throw invalid('--lease-ttl (LOCKKEEPER_LEASE_TTL): it may be 10s to 24h')
  return ms
}

function logLevel(text: string): ServeSettings['logLevel'] {
  const level = LOG_LEVELS.find((one) => one === text)
  if (level === undefined) throw invalid(`--log-level (LOCKKEEPER_LOG_LEVEL): one of ${LOG_LEVELS.join(', ')}`)
  return level
}

function chosen(...texts: (string | undefined)[]): string | undefined {
  return texts.map((text) => text?.trim()).find((text) => text !== undefined && text !== '')
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    // A container may have no name for its user.
    return 'unknown'
  }
}
