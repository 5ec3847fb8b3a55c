// The words of the contract: what a name, a text, a duration and a time look like on the wire.
import { Type, type Static, type TSchema, type TUnsafe } from 'typebox'

/** No control characters, and no half of a surrogate pair: two different ones would become one path. */
const LETTER = '[^\\p{Cc}\\p{Cs}]'
const NAME = `^${LETTER}{1,256}$`
const LEVEL_NAME = `^${LETTER}{0,256}$`
const TEXT = `^${LETTER}{1,1000}$`
const NAMESPACE = '^[a-zA-Z0-9-]{1,128}$'
const SECRET = '^[!-~]{1,128}$'
const DURATION = '^[0-9.a-zµ]{1,64}$'

/** What is expected where a pattern does not match: a regular expression is no sentence. */
export const EXPECTED: Readonly<Record<string, string>> = {
  [NAME]: '1 to 256 characters, none of them a control character',
  [LEVEL_NAME]: 'at most 256 characters, none of them a control character',
  [TEXT]: '1 to 1000 characters, none of them a control character',
  [NAMESPACE]: 'a namespace: 1 to 128 letters, digits and dashes',
  [SECRET]: '1 to 128 visible ASCII characters',
  [DURATION]: 'a duration such as 30s or 1m30s',
}

export const name = (description: string) => Type.String({ pattern: NAME, description })
/** Empty: all of that kind. */
export const levelName = (description: string) => Type.String({ pattern: LEVEL_NAME, description })
export const text = (description: string) => Type.String({ pattern: TEXT, description })
/** A text in an answer. */
export const said = (description?: string) => Type.String(description === undefined ? {} : { description })
export const secret = (description: string) => Type.String({ pattern: SECRET, description })
export const namespace = () => Type.String({ pattern: NAMESPACE, description: 'A Nomad namespace' })
export const duration = (description: string) => Type.String({ pattern: DURATION, description, examples: ['30s'] })
export const time = (description: string) => Type.String({ format: 'date-time', description })
export const count = (description: string) => Type.Integer({ minimum: 0, description })
export const flag = (description: string) => Type.Boolean({ description })
export const oneOf = <const T extends string[]>(values: T, description: string) =>
  Type.Unsafe<T[number]>({ type: 'string', enum: values, description })
/** A value of which an answer says that there is none. */
export const orNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])
export const optional = Type.Optional

/** Nothing but these fields: a misspelt one is refused, not dropped. */
export const only = <T extends Record<string, TSchema>>(properties: T, $id?: string, description?: string) =>
  Type.Object(properties, {
    additionalProperties: false,
    ...($id === undefined ? {} : { $id }),
    ...(description === undefined ? {} : { description }),
  })

/** A schema that stands as a component of the contract, by its name. */
export function ref<T extends TSchema & { readonly $id?: string }>(schema: T): TUnsafe<Static<T>> {
  return Type.Unsafe<Static<T>>({ $ref: `${schema.$id}#` })
}

/** The query of a route that takes none. */
export const NoQuery = only({})
