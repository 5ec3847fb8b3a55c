import { Refusal } from '../refusal.ts'

const TERM = /^\s*(?:"([^"]*)"\s+(not\s+)?in\s+([\w.]+)|([\w.]+)\s*(==|!=)\s*"([^"]*)")\s*$/

/** As much of Nomad's filter expressions as is needed to find jobs by their meta: `"key" in Meta`, `Field == "value"`, `!=`
 *  and `and` between them. Throws the 400 of an expression that is not understood. */
export function filterOf(text: string | null): (row: object) => boolean {
  if (text === null || text.trim() === '') return () => true
  const terms = text.split(/\s+and\s+/).map((part) => {
    const match = TERM.exec(part)
    if (match === null) throw refusal(part)
    const [, key, not, of, field, operator, wanted] = match
    if (key !== undefined) return (row: object) => holds(at(row, of as string), key) === (not === undefined)
    return (row: object) => (at(row, field as string) === wanted) === (operator === '==')
  })
  return (row) => terms.every((term) => term(row))
}

const refusal = (part: string): Refusal =>
  new Refusal(400, `failed to create result paginator: failed to read filter expression: no match found: ${part}`)

function at(row: object, path: string): unknown {
  return path.split('.').reduce<unknown>((value, key) => (value as Record<string, unknown> | null | undefined)?.[key], row)
}

function holds(value: unknown, key: string): boolean {
  if (Array.isArray(value)) return value.includes(key)
  return typeof value === 'object' && value !== null && key in value
}
