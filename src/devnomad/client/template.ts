/** Items of a variable; undefined: there is none, or it may not be read. */
export type ReadVariable = (path: string) => Readonly<Record<string, string>> | undefined

export type Rendered =
  | { readonly kind: 'rendered'; readonly text: string }
  /** A template waits for all of its variables before it writes anything. */
  | { readonly kind: 'missing'; readonly paths: readonly string[] }

const WITH = /\{\{-?\s*with\s+nomadVar\s+"([^"]+)"\s*-?\}\}([\s\S]*?)\{\{-?\s*end\s*-?\}\}/g
const ITEM = /\{\{-?\s*\.([\w.-]+?)(?:\.Value)?\s*-?\}\}/g
const ENV = /\{\{-?\s*env\s+"([^"]+)"\s*-?\}\}/g

/** As much of Nomad's template language as renders variables:
 *  `{{ with nomadVar "nomad/jobs/x" }}{{ .key }}{{ end }}` and `{{ env "NAME" }}`. Pure. */
export function render(text: string, read: ReadVariable, env: Readonly<Record<string, string>>): Rendered {
  const missing = new Set<string>()
  const withVariables = text.replaceAll(WITH, (_, path: string, inner: string) => {
    const items = read(path)
    if (items === undefined) missing.add(path)
    return inner.replaceAll(ITEM, (_all, key: string) => items?.[key] ?? '<no value>')
  })
  if (missing.size > 0) return { kind: 'missing', paths: [...missing] }
  return { kind: 'rendered', text: withVariables.replaceAll(ENV, (_, name: string) => env[name] ?? '') }
}
