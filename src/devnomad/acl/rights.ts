import type { Level, Rules } from './policy.ts'

/** Whose workload it is; may be compared, not trusted: whoever makes one has verified the identity. */
export interface Claim {
  readonly namespace: string
  readonly job: string
  readonly group: string
  readonly task: string
}

type Capabilities = ReadonlySet<string>

/** What the bearer of a token may do. Immutable: resolved anew for each request. Source: Nomad's acl/acl.go. */
export class Rights {
  readonly management: boolean
  readonly #namespaces: ReadonlyMap<string, Capabilities>
  readonly #variables: ReadonlyMap<string, Capabilities>
  readonly #levels: Readonly<Record<'agent' | 'node' | 'operator', Level | undefined>>
  readonly #claim: Claim | undefined

  constructor(management: boolean, policies: readonly Rules[] = [], claim?: Claim) {
    this.management = management
    this.#namespaces = merged(
      policies.flatMap(({ namespaces }) => namespaces.map(({ name, capabilities }) => [name, capabilities] as const)),
    )
    this.#variables = merged(
      policies.flatMap(({ namespaces }) =>
        namespaces.flatMap(({ name, variables }) =>
          variables.map(({ path, capabilities }) => [`${name}\0${path}`, capabilities] as const),
        ),
      ),
    )
    const level = (kind: 'agent' | 'node' | 'operator'): Level | undefined => {
      const all = policies.flatMap((rules) => rules[kind] ?? [])
      return (['deny', 'write', 'list', 'read'] as const).find((one) => all.includes(one))
    }
    this.#levels = { agent: level('agent'), node: level('node'), operator: level('operator') }
    this.#claim = claim
  }

  /** Any of the capabilities on the namespace; `*` asks whether there is any namespace that allows one. */
  namespace(name: string, ...anyOf: readonly string[]): boolean {
    if (this.management) return true
    const allows = (held: Capabilities): boolean => !held.has('deny') && anyOf.some((one) => held.has(one))
    if (name === '*' && [...this.#namespaces.values()].some(allows)) return true
    return allows(closest(this.#namespaces, name))
  }

  /** Any right at all on the namespace. */
  knows(name: string): boolean {
    const held = closest(this.#namespaces, name)
    return this.management || (held.size > 0 && !held.has('deny'))
  }

  /** `own`: the implicit right of a workload to read and list the variables of its job counts too (facts §7). */
  variable(namespace: string, path: string, capability: 'read' | 'list' | 'write' | 'destroy', own = false): boolean {
    if (this.management) return true
    const exact = this.#variables.get(`${namespace}\0${path}`)
    if (exact === undefined && own && (capability === 'read' || capability === 'list') && this.#isOwn(namespace, path))
      return true
    const held = exact ?? closest(this.#variables, `${namespace}\0${path}`)
    return !held.has('deny') && held.has(capability)
  }

  /** Some rule on variables in the namespace, or in one whose name begins with its name: Nomad looks for the bare prefix
   *  (source: acl/acl.go, AllowVariableSearch). Who may hear of which variable is asked again for each. */
  anyVariable(namespace: string): boolean {
    if (this.management || namespace === '*') return this.management || this.#variables.size > 0
    return [...this.#variables.keys()].some((key) => key.startsWith(namespace))
  }

  level(of: 'agent' | 'node' | 'operator', wanted: 'read' | 'write'): boolean {
    const held = this.#levels[of]
    return this.management || held === 'write' || (wanted === 'read' && held === 'read')
  }

  #isOwn(namespace: string, path: string): boolean {
    const claim = this.#claim
    if (claim?.namespace !== namespace) return false
    const { job, group, task } = claim
    return ['nomad/jobs', `nomad/jobs/${job}`, `nomad/jobs/${job}/${group}`, `nomad/jobs/${job}/${group}/${task}`].includes(path)
  }
}

/** Without ACLs, everybody is the management. */
export const ALL_RIGHTS = new Rights(true)

function merged(entries: readonly (readonly [string, readonly string[]])[]): Map<string, Set<string>> {
  const result = new Map<string, Set<string>>()
  for (const [name, capabilities] of entries) {
    const held = result.get(name) ?? new Set()
    for (const one of capabilities) held.add(one)
    result.set(name, held)
  }
  return result
}

const NONE: Capabilities = new Set()

// The exact rule, or of the globs the one that leaves the fewest characters to its stars.
function closest(rules: ReadonlyMap<string, Capabilities>, name: string): Capabilities {
  const exact = rules.get(name)
  if (exact !== undefined) return exact
  let best: { difference: number; held: Capabilities } | undefined
  for (const [glob, held] of rules) {
    if (!glob.includes('*') || !matches(glob, name)) continue
    const difference = name.length - glob.length + glob.split('*').length - 1
    if (best === undefined || difference < best.difference) best = { difference, held }
  }
  return best?.held ?? NONE
}

function matches(glob: string, name: string): boolean {
  const pattern = glob.split('*').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${pattern.join('.*')}$`, 's').test(name)
}
