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
  const fields = value as Readonly<Record<string, unknown>>
  const at = (key: string) => `${where}.${key}`
  const optional = (key: string) => (Object.hasOwn(fields, key) ? (fields[key] ?? null) : null)
  const text = (key: string) => {
    const found = optional(key)
    if (typeof found !== 'string') throw unexpected(at(key), 'a string')
    return found
  }
  const entries = (key: string) => {
    const found = optional(key) ?? {}
    if (typeof found !== 'object' || Array.isArray(found)) throw unexpected(at(key), 'an object')
    return Object.entries(found)
  }
  return {
    text,
    optional,
    count(key) {
      const found = optional(key)
      if (!Number.isSafeInteger(found) || (found as number) < 0) throw unexpected(at(key), 'a whole number')
      return found as number
    },
    flag(key) {
      const found = optional(key) ?? false
      if (typeof found !== 'boolean') throw unexpected(at(key), 'true or false')
      return found
    },
    oneOf(key, values) {
      const found = text(key)
      const known = values.find((value) => value === found)
      if (known === undefined) throw unexpected(at(key), `one of ${values.join(', ')}`)
      return known
    },
    list: (key) => shapes(optional(key), at(key)),
    object: (key) => (optional(key) === null ? null : shape(optional(key), at(key))),
    map: (key) => entries(key).map(([name, found]) => [name, shape(found, `${at(key)}[]`)]),
    texts(key) {
      const found = entries(key)
      if (!found.every((entry): entry is [string, string] => typeof entry[1] === 'string'))
        throw unexpected(at(key), 'a map of strings')
      return Object.fromEntries(found)
    },
  }
}

/** The objects of a list; null, which Nomad writes for an empty one, is empty. */
export function shapes(value: unknown, where: string): Shape[] {
  if (value === null) return []
  if (!Array.isArray(value)) throw unexpected(where, 'a list')
  return value.map((element) => shape(element, `${where}[]`))
}

function unexpected(where: string, expected: string): NomadFault {
  return new NomadFault('rejected', `Nomad's answer has an unexpected shape: expected ${expected} at ${where}`)
}
