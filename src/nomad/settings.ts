import { Problem } from '../core/errors.ts'

/** Paths are read anew for each new connection, so a rotated certificate needs no restart. */
export interface TlsSettings {
  readonly caFile?: string
  readonly caDirectory?: string
  readonly clientCertificate?: string
  readonly clientKey?: string
  readonly serverName?: string
  readonly skipVerify: boolean
}

/** Where a token comes from: a fixed one (or none at all), or a file that somebody else rewrites (a workload identity). */
export type TokenSetting = { readonly value?: string } | { readonly file: string }

export interface NomadSettings {
  /** `http://…`, `https://…` or `unix:///path`; never empty, without a trailing slash. */
  readonly addresses: readonly string[]
  /** The one namespace of the service's own variables; jobs are asked for in theirs. */
  readonly namespace: string
  readonly region?: string
  readonly token: TokenSetting
  readonly tls: TlsSettings
}

const DEFAULT_ADDRESS = 'http://127.0.0.1:4646'
/** What Go's strconv.ParseBool takes, as the Nomad CLI does. */
const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ...['1', 't', 'T', 'TRUE', 'true', 'True'].map((word) => [word, true] as const),
  ...['0', 'f', 'F', 'FALSE', 'false', 'False'].map((word) => [word, false] as const),
])
/** What an HTTP header may carry; a token with a line break in it would fail later, and less clearly. */
const TOKEN = /^[\x21-\x7e]+$/

/** Reads the environment as the Nomad CLI does; beyond it, NOMAD_ADDR may be a list, separated by commas, and NOMAD_TOKEN_FILE
 *  wins over NOMAD_TOKEN (Nomad puts both beside a task, and only the file stays fresh: facts §7). Empty counts as unset.
 *  Throws Problem `invalid_request` that names the setting, never a token. */
export function nomadSettings(env: Readonly<Record<string, string | undefined>>): NomadSettings {
  const read = (name: string) => {
    const value = env[name]?.trim()
    return value === undefined || value === '' ? undefined : value
  }
  const namespace = read('NOMAD_NAMESPACE') ?? 'default'
  if (namespace === '*') throw invalid('NOMAD_NAMESPACE is *: name the one namespace that holds the variables of this service')
  const region = read('NOMAD_REGION')
  return {
    addresses: addresses(read('NOMAD_ADDR') ?? DEFAULT_ADDRESS),
    namespace,
    ...(region === undefined ? {} : { region }),
    token: token(read('NOMAD_TOKEN'), read('NOMAD_TOKEN_FILE')),
    tls: tls(read),
  }
}

function addresses(list: string): string[] {
  const all = list.split(',').map((address) => address.trim().replace(/\/+$/, ''))
  const found = [...new Set(all.filter((address) => address !== ''))]
  for (const address of found) {
    const fault = addressFault(address)
    if (fault !== null) throw invalid(`NOMAD_ADDR: ${fault}`)
  }
  if (found.length === 0) throw invalid('NOMAD_ADDR names no address')
  return found
}

/** The text never repeats the address: somebody may have put a password into it. */
function addressFault(address: string): string | null {
  if (!URL.canParse(address)) return 'an address is not a URL: write it as http://host:4646'
  const url = new URL(address)
  if (!['http:', 'https:', 'unix:'].includes(url.protocol)) return 'an address starts with http://, https:// or unix://'
  if (url.username !== '' || url.password !== '') return 'an address holds a user name or password: use a token'
  if (url.search !== '' || url.hash !== '') return 'an address has a query'
  if (url.protocol === 'unix:') return url.pathname === '' ? 'a unix address has no path: unix:///path' : null
  return url.pathname === '/' ? null : 'an address has a path: Nomad must be at the root'
}

function token(value: string | undefined, file: string | undefined): TokenSetting {
  if (file !== undefined) return { file }
  if (value === undefined) return {}
  if (!TOKEN.test(value)) throw invalid('NOMAD_TOKEN holds characters that no token has')
  return { value }
}

function tls(read: (name: string) => string | undefined): TlsSettings {
  const clientCertificate = read('NOMAD_CLIENT_CERT')
  const clientKey = read('NOMAD_CLIENT_KEY')
  if ((clientCertificate === undefined) !== (clientKey === undefined))
    throw invalid('NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY need each other: give both or none')
  const skip = read('NOMAD_SKIP_VERIFY') ?? 'false'
  const skipVerify = BOOLEANS.get(skip)
  if (skipVerify === undefined) throw invalid('NOMAD_SKIP_VERIFY is neither true nor false')
  const caFile = read('NOMAD_CACERT')
  const caDirectory = read('NOMAD_CAPATH')
  const serverName = read('NOMAD_TLS_SERVER_NAME')
  return {
    ...(caFile === undefined ? {} : { caFile }),
    ...(caDirectory === undefined ? {} : { caDirectory }),
    ...(clientCertificate === undefined || clientKey === undefined ? {} : { clientCertificate, clientKey }),
    ...(serverName === undefined ? {} : { serverName }),
    skipVerify,
  }
}

function invalid(detail: string): Problem {
  return new Problem('invalid_request', detail)
}
