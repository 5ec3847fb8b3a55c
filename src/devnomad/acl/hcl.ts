// Room acl: who may do what: policies, tokens and workload identities (facts §3, §7).
// This file: as much of HCL as policies are written in: attributes, and blocks with at most one label.

export type HclValue = string | number | boolean | readonly HclValue[]
export interface HclBlock {
  readonly kind: string
  readonly label: string | undefined
  readonly attributes: Readonly<Record<string, HclValue>>
  readonly blocks: readonly HclBlock[]
}

const TOKEN = /\s+|#[^\n]*|\/\/[^\n]*|\/\*[\s\S]*?\*\/|("(?:[^"\\]|\\.)*"|[A-Za-z_][\w-]*|-?\d+(?:\.\d+)?|[{}[\],=])/y

/** Throws an Error that says what was not understood. */
export function parseHcl(text: string): HclBlock {
  const words = tokens(text)
  let at = 0
  const peek = (): string | undefined => words[at]
  const take = (wanted?: string): string => {
    const word = words[at++]
    if (word === undefined) throw new Error('object expected closing RBRACE got: EOF')
    if (wanted !== undefined && word !== wanted) throw new Error(`expected ${wanted} got: ${word}`)
    return word
  }
  const value = (): HclValue => {
    if (peek() !== '[') return scalar(take())
    take('[')
    const list: HclValue[] = []
    while (peek() !== ']') {
      list.push(value())
      if (peek() === ',') take(',')
    }
    take(']')
    return list
  }
  const body = (kind: string, label: string | undefined, end: string | undefined): HclBlock => {
    const attributes: Record<string, HclValue> = {}
    const blocks: HclBlock[] = []
    while (peek() !== end) {
      const name = String(scalar(take()))
      if (peek() === '=') {
        take('=')
        attributes[name] = value()
        continue
      }
      const of = peek() === '{' ? undefined : String(scalar(take()))
      take('{')
      blocks.push(body(name, of, '}'))
      take('}')
    }
    return { kind, label, attributes, blocks }
  }
  return body('', undefined, undefined)
}

function tokens(text: string): string[] {
  const found: string[] = []
  TOKEN.lastIndex = 0
  while (TOKEN.lastIndex < text.length) {
    const from = TOKEN.lastIndex
    const match = TOKEN.exec(text)
    if (match === null) throw new Error(`illegal character at ${from}`)
    if (match[1] !== undefined) found.push(match[1])
  }
  return found
}

function scalar(word: string): HclValue {
  if (word.startsWith('"')) return JSON.parse(word) as string
  if (word === 'true' || word === 'false') return word === 'true'
  if (/^-?\d/.test(word)) return Number(word)
  if (/^[{}[\],=]$/.test(word)) throw new Error(`unexpected token ${word}`)
  return word
}
