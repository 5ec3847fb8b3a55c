import { parseDuration } from '../core/duration.ts'

/** A step as it stands in the file. */
export type Fields = Readonly<Record<string, unknown>>

/** What is wrong with a step, in a few words. */
export class Wrong extends Error {}

export function text(fields: Fields, key: string, otherwise?: string): string {
  const value = fields[key] ?? otherwise
  if (value === undefined) throw new Wrong(`${key} is missing`)
  if (typeof value !== 'string') throw new Wrong(`${key}: it must be a text`)
  return value
}

export function number(fields: Fields, key: string, otherwise?: number): number {
  const value = fields[key] ?? otherwise
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) throw new Wrong(`${key}: it must be a whole number`)
  return value
}

export function flag(fields: Fields, key: string): boolean {
  const value = fields[key] ?? false
  if (typeof value !== 'boolean') throw new Wrong(`${key}: it must be true or false`)
  return value
}

export function object(fields: Fields, key: string): Record<string, string> {
  const value = fields[key]
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Wrong(`${key}: it must be an object`)
  return value as Record<string, string>
}

export function duration(fields: Fields, key: string): number {
  const value = text(fields, key)
  const ms = parseDuration(value)
  if (ms === null) throw new Wrong(`${key}: "${value}" is no duration; write it like 30s or 1h30m`)
  return ms
}

export function oneOf<const T extends string>(fields: Fields, key: string, allowed: readonly T[]): T {
  const value = text(fields, key)
  const found = allowed.find((one) => one === value)
  if (found === undefined) throw new Wrong(`${key}: "${value}" is none of ${allowed.join(', ')}`)
  return found
}
