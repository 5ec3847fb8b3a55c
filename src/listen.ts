// Where a replica listens, and whether it asks there who calls.
import { isIPv4 } from 'node:net'
import { Problem } from './core/errors.ts'

export const AUTHS = ['identity', 'none'] as const
/** `identity`: workloads show their identity, operators their Nomad token. `none`: nobody is asked. */
export type Auth = (typeof AUTHS)[number]

export interface Listen {
  readonly host: string
  readonly port: number
}

/** `host:port`, `[::1]:4650`, `:4650` for all addresses. */
export function listenAddress(text: string): Listen {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]*)):(\d{1,5})$/.exec(text)
  const port = Number(match?.[3])
  if (match === null || port > 65_535) throw new Problem('invalid_request', 'listen: write host:port, such as 127.0.0.1:4650')
  return { host: match[1] ?? (match[2] === '' ? '::' : (match[2] as string)), port }
}

/** `said`: each time that somebody said it. Nothing said is `none` on loopback, where only this machine can call, and `identity`
 *  elsewhere. `none` elsewhere has to be said twice: whoever reaches the port may then restart what he likes. */
export function authOf(said: readonly Auth[], { host }: Listen): Auth {
  const last = said.at(-1) ?? (isLoopback(host) ? 'none' : 'identity')
  if (new Set(said).size > 1) throw new Problem('invalid_request', '--auth (LOCKKEEPER_AUTH): say identity or none, not both')
  if (last === 'none' && said.length < 2 && !isLoopback(host))
    throw new Problem(
      'invalid_request',
      `--auth none would let everybody who reaches ${host} ask, renew and lock. Take --auth identity, listen on 127.0.0.1, ` +
        'or say it twice: --auth none --auth none (LOCKKEEPER_AUTH=none,none)',
    )
  return last
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
}
