import { NomadFault } from '../core/nomad-fault.ts'

/** A JSON object of Nomad's, read field by field: fields that we do not know are ignored, one that matters and is missing or of
 *  another kind is a NomadFault `rejected` that says what was expected, and where. Values themselves are never in the text. */
export interface Shape {
  text(key: string): string
  /** A whole number ≥ 0. */
  count(key: string): number
  /** Missing and null are false: Nomad leaves out what is empty. */
  flag(key: string): boolean
  oneOf<const T extends string>(key: string, values: readonly T[]): T
  /** The objects of a list; missing and null are empty. */
  list(key: string): Shape[]
  /** Missing and null are null. */
  object(key: string): Shape | null
  /** The objects of a map, by name. */
  map(key: string): [string, Shape][]
  /** A map of strings; missing and null are empty. */
  texts(key: string): Record<string, string>
  optional(key: string): unknown
}

export function shape(value: unknown, where: string): Shape {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw unexpected(where, 'an object')
  return new Fields(value as Readonly<Record<string, unknown>>, where)
}

/** A class: of a list of ten thousand, a closure for each way to read a field is most of the work. */
class Fields implements Shape {
  readonly #fields: Readonly<Record<string, unknown>>
  readonly #where: string

  constructor(fields: Readonly<Record<string, unknown>>, where: string) {
    this.#fields = fields
    this.#where = where
  }

  optional(key: string): unknown {
    return Object.hasOwn(this.#fields, key) ? (this.#fields[key] ?? null) : null
  }
  text(key: string): string {
    const found = this.optional(key)
    if (typeof found !== 'string') throw unexpected(this.#at(key), 'a string')
    return found
  }
  count(key: string): number {
    const found = this.optional(key)
    if (!Number.isSafeInteger(found) || (found as number) < 0) throw unexpected(this.#at(key), 'a whole number')
    return found as number
  }
  flag(key: string): boolean {
    const found = this.optional(key) ?? false
    if (typeof found !== 'boolean') throw unexpected(this.#at(key), 'true or false')
    return found
  }
  oneOf<const T extends string>(key: string, values: readonly T[]): T {
    const found = this.text(key)
    const known = values.find((value) => value === found)
    if (known === undefined) throw unexpected(this.#at(key), `one of ${values.join(', ')}`)
    return known
  }
  list(key: string): Shape[] {
    return shapes(this.optional(key), this.#at(key))
  }
  object(key: string): Shape | null {
    const found = this.optional(key)
    return found === null ? null : shape(found, this.#at(key))
  }
  map(key: string): [string, Shape][] {
    return this.#entries(key).map(([name, found]) => [name, shape(found, `${this.#at(key)}[]`)])
  }
  texts(key: string): Record<string, string> {
    const found = this.#entries(key)
    if (!found.every((entry): entry is [string, string] => typeof entry[1] === 'string'))
      throw unexpected(this.#at(key), 'a map of strings')
    return Object.fromEntries(found)
  }

  #entries(key: string): [string, unknown][] {
    const found = this.optional(key) ?? {}
    if (typeof found !== 'object' || Array.isArray(found)) throw unexpected(this.#at(key), 'an object')
    return Object.entries(found)
  }
  #at(key: string): string {
    return `${this.#where}.${key}`
  }
}

/** The objects of a list; null, which Nomad writes for an empty one, is empty. */
export function shapes(value: unknown, where: string): Shape[] {
  if (value === null) return []
  if (!Array.isArray(value)) throw unexpected(where, 'a list')
  const each = `${where}[]`
  return value.map((element) => shape(element, each))
}

function unexpected(where: string, expected: string): NomadFault {
  return new NomadFault('rejected', `Nomad's answer has an unexpected shape: expected ${expected} at ${where}`)
}
