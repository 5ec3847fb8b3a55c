import { readFile } from 'node:fs/promises'
import { Problem } from '../core/errors.ts'

/** Where the service is, and who asks. Both are asked for before each call: Nomad rewrites their files while we wait. */
export interface Contact {
  /** At least one. Throws Problem `service_unavailable` while there is none. */
  readonly addresses: () => Promise<readonly string[]>
  /** The header that shows who asks; none: nobody says. It is a secret. */
  readonly credentials: () => Promise<Readonly<Record<string, string>>>
}

/** Where the token of the workload identity is. `expected`: without it nothing is asked; else it is sent when it is there. */
export interface TokenFile {
  readonly path: string
  readonly expected: boolean
}

const USABLE = /^[\x21-\x7e]+$/

/** Of a workload. `from`: addresses with commas or spaces between them, or `@` and the path of a file with such in it.
 *  Throws Problem `invalid_request` for addresses that are none. */
export function contactOf(from: string, token: TokenFile | null): Contact {
  const identity = token === null ? async () => null : identitySource(token)
  return { addresses: addressSource(from), credentials: shown(identity, (jwt) => ({ authorization: `Bearer ${jwt}` })) }
}

/** Of an operator, who shows a Nomad token; null: none. Otherwise as `contactOf`. */
export function operatorContactOf(from: string, nomadToken: () => Promise<string | null>): Contact {
  return { addresses: addressSource(from), credentials: shown(nomadToken, (token) => ({ 'x-nomad-token': token })) }
}

function shown(secret: () => Promise<string | null>, headers: (secret: string) => Record<string, string>) {
  return async () => {
    const found = await secret()
    return found === null ? {} : headers(found)
  }
}

function addressSource(from: string): Contact['addresses'] {
  if (!from.startsWith('@')) {
    const addresses = addressesIn(from)
    if (addresses.length === 0) throw new Problem('invalid_request', '--addr (LOCKKEEPER_ADDR) names no address')
    return async () => addresses
  }
  return async () => {
    const addresses = addressesIn((await contentOf(from.slice(1))) ?? '')
    if (addresses.length > 0) return addresses
    throw new Problem('service_unavailable', 'the file of --addr (LOCKKEEPER_ADDR) is not there, or names no replica')
  }
}

function addressesIn(text: string): string[] {
  const all = text.split(/[\s,]+/).map((address) => address.replace(/\/+$/, ''))
  const addresses = [...new Set(all.filter((address) => address !== ''))]
  for (const address of addresses) {
    // The text never repeats the address: somebody may have put a password into it.
    const url = URL.canParse(address) ? new URL(address) : null
    if (url === null || !['http:', 'https:'].includes(url.protocol) || url.username !== '' || url.search !== '') {
      const how = 'write an address as http://host:4650, without user, password or query'
      throw new Problem('invalid_request', `--addr (LOCKKEEPER_ADDR): ${how}`)
    }
  }
  return addresses
}

/** A file that is gone, empty or half written for a moment leaves the token as it is. */
function identitySource({ path, expected }: TokenFile): () => Promise<string | null> {
  let token: string | null = null
  return async () => {
    const found = (await contentOf(path))?.trim() ?? ''
    if (USABLE.test(found)) token = found
    if (token === null && expected) throw new Problem('unauthorized', 'the file of LOCKKEEPER_TOKEN_FILE holds no usable token')
    return token
  }
}

async function contentOf(path: string): Promise<string | null> {
  return await readFile(path, 'utf8').catch(() => null)
}
