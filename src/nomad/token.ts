import { readFile } from 'node:fs/promises'
import { NomadFault } from '../core/nomad-fault.ts'
import type { Clock, Log } from '../keeper/ports.ts'
import type { TokenSetting } from './settings.ts'

/** Reads a token file whole. A port, so that a simulation needs no disk. */
export type ReadTokenFile = (path: string) => Promise<string>

export const readTokenFile: ReadTokenFile = (path) => readFile(path, 'utf8')

export interface TokenSource {
  /** The token to send now; null: send none. Throws NomadFault `denied` when there is a file and nothing usable was ever in it. */
  current(): Promise<string | null>
  /** After a 403 with `used`: another token, when there is one by now; else null. */
  another(used: string | null): Promise<string | null>
}

const FRESH_MS = 1_000
const USABLE = /^[\x21-\x7e]+$/

/** Follows a token file: Nomad rewrites a workload identity every half TTL, also while the task runs (facts §7). The content is
 *  compared, at most once a second, and not the mtime: reading so small a file costs the same and misses nothing.
 *  A file that is gone, empty or half written for a moment leaves the token as it is. */
export function tokenSource(setting: TokenSetting, read: ReadTokenFile, clock: Clock, log?: Log): TokenSource {
  if (!('file' in setting)) {
    const value = setting.value ?? null
    return { current: () => Promise.resolve(value), another: () => Promise.resolve(null) }
  }
  const { file } = setting
  let token: string | null = null
  let readAt = Number.NEGATIVE_INFINITY
  let reading: Promise<void> | null = null

  async function load(): Promise<void> {
    readAt = clock.now()
    const found = await read(file).then(
      (text) => (USABLE.test(text.trim()) ? text.trim() : null),
      () => null,
    )
    if (found === null) log?.warn({ kept: token !== null }, 'the file of NOMAD_TOKEN_FILE holds no usable token')
    else if (found !== token) {
      if (token !== null) log?.info({}, 'a new Nomad token was read from the file of NOMAD_TOKEN_FILE')
      token = found
    }
  }
  const refresh = () => (reading ??= load().finally(() => (reading = null)))

  return {
    async current() {
      if (reading !== null || clock.now() - readAt >= FRESH_MS) await refresh()
      if (token === null) throw new NomadFault('denied', 'the file of NOMAD_TOKEN_FILE holds no usable token')
      return token
    },
    async another(used) {
      if (token === used) await refresh()
      return token === used ? null : token
    },
  }
}
