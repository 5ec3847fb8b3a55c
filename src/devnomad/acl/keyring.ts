import { createPublicKey, generateKeyPairSync, sign, verify, type KeyObject } from 'node:crypto'

export type Algorithm = 'RS256' | 'EdDSA'

interface Key {
  readonly id: string
  readonly algorithm: Algorithm
  readonly privateKey: KeyObject
  readonly publicKey: KeyObject
}

/** The servers' signing keys. The newest one signs; older ones verify until they are forgotten. Keys are made when they are
 *  first needed: an RSA key takes its time. */
export class Keyring {
  readonly #newId: () => string
  #algorithm: Algorithm
  #keys: Key[] = []

  constructor(newId: () => string, algorithm: Algorithm = 'RS256') {
    this.#newId = newId
    this.#algorithm = algorithm
  }

  /** A new key signs from now on. Returns its ID. */
  rotate(algorithm: Algorithm = this.#algorithm): string {
    this.#algorithm = algorithm
    void this.#active
    return this.#make().id
  }

  /** A key that no longer signs vanishes: what it has signed is worth nothing any more. */
  forget(id: string): void {
    this.#keys = this.#keys.filter((key) => key.id !== id)
  }

  /** A compact JWT; its header names the key. */
  sign(claims: object): string {
    const key = this.#active
    const head = encoded({ alg: key.algorithm, kid: key.id, typ: 'JWT' })
    const signed = `${head}.${encoded(claims)}`
    const signature = sign(key.algorithm === 'RS256' ? 'sha256' : null, Buffer.from(signed), key.privateKey)
    return `${signed}.${signature.toString('base64url')}`
  }

  /** The claims of a token that one of the keys has signed and that holds at `wallSeconds`; else undefined. */
  verify(token: string, wallSeconds: number): Record<string, unknown> | undefined {
    const [head, payload, signature, more] = token.split('.')
    if (head === undefined || payload === undefined || signature === undefined || more !== undefined) return undefined
    const { kid, alg } = decoded(head)
    const key = this.#keys.find((one) => one.id === kid && one.algorithm === alg)
    if (key === undefined) return undefined
    const data = Buffer.from(`${head}.${payload}`)
    const hash = key.algorithm === 'RS256' ? 'sha256' : null
    if (!verify(hash, data, key.publicKey, Buffer.from(signature, 'base64url'))) return undefined
    const claims = decoded(payload)
    return typeof claims['exp'] === 'number' && claims['exp'] < wallSeconds ? undefined : claims
  }

  /** `/.well-known/jwks.json` */
  get published(): object[] {
    void this.#active
    return this.#keys.map(({ id, algorithm, publicKey }) => ({
      use: 'sig',
      ...publicKey.export({ format: 'jwk' }),
      kid: id,
      alg: algorithm,
    }))
  }

  get #active(): Key {
    return this.#keys.at(-1) ?? this.#make()
  }

  #make(): Key {
    const pair =
      this.#algorithm === 'RS256' ? generateKeyPairSync('rsa', { modulusLength: 2048 }) : generateKeyPairSync('ed25519')
    const { privateKey } = pair
    const key = { id: this.#newId(), algorithm: this.#algorithm, privateKey, publicKey: createPublicKey(privateKey) }
    this.#keys.push(key)
    return key
  }
}

const encoded = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

function decoded(part: string): Record<string, unknown> {
  try {
    return JSON.parse(Buffer.from(part, 'base64url').toString('utf8')) as Record<string, unknown>
  } catch {
    return {}
  }
}
