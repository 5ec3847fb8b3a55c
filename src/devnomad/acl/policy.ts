import { parseHcl, type HclBlock, type HclValue } from './hcl.ts'

export interface VariablesRule {
  readonly path: string
  readonly capabilities: readonly string[]
}
export interface NamespaceRule {
  readonly name: string
  readonly capabilities: readonly string[]
  readonly variables: readonly VariablesRule[]
}
export type Level = 'deny' | 'read' | 'list' | 'write'

/** What one policy allows, with its shorthands spelled out. */
export interface Rules {
  readonly namespaces: readonly NamespaceRule[]
  readonly agent: Level | undefined
  readonly node: Level | undefined
  readonly operator: Level | undefined
}

// As Nomad expands `policy = "read"` and `"write"` of a namespace, as far as something here asks for it.
const READ = ['list-jobs', 'parse-job', 'read-job', 'read-job-scaling', 'list-scaling-policies', 'read-scaling-policy']
const SHORTHANDS: Readonly<Record<string, readonly string[]>> = {
  deny: ['deny'],
  read: READ,
  write: [...READ, 'scale-job', 'submit-job', 'dispatch-job', 'read-logs', 'read-fs', 'alloc-exec', 'alloc-lifecycle'],
  scale: ['list-scaling-policies', 'read-scaling-policy', 'read-job-scaling', 'scale-job', 'read-job'],
}
const MORE = `
  alloc-node-exec sentinel-override csi-register-plugin csi-write-volume csi-read-volume csi-list-volume
  csi-mount-volume host-volume-create host-volume-register host-volume-read host-volume-write
  host-volume-delete submit-recommendation register-job revert-job deregister-job purge-job evaluate-job
  plan-job tag-job-version stable-job fail-deployment pause-deployment promote-deployment
  unblock-deployment cancel-deployment set-alloc-health-deployment gc-allocation pause-allocation
  force-periodic-job delete-service-registration
`
  .trim()
  .split(/\s+/)
const NAMESPACE_CAPABILITIES = new Set([...Object.values(SHORTHANDS).flat(), ...MORE])
const PATH_CAPABILITIES = new Set(['read', 'list', 'write', 'destroy', 'deny'])
const LEVELS = new Set(['deny', 'read', 'list', 'write'])
const KNOWN = new Set(['namespace', 'node_pool', 'host_volume', 'agent', 'node', 'operator', 'sentinel', 'quota', 'plugin'])

/** Reads a policy. Throws an Error that says what is wrong with it. */
export function parsePolicy(text: string): Rules {
  const root = parseHcl(text)
  const unknown = [...Object.keys(root.attributes), ...root.blocks.map((block) => block.kind)].filter((key) => !KNOWN.has(key))
  if (unknown.length > 0) throw new Error(`Failed to parse ACL Policy: Invalid or duplicate policy keys: ${unknown.join(', ')}`)
  const namespaces = root.blocks.filter((block) => block.kind === 'namespace').map(namespaceRule)
  const level = (kind: string): Level | undefined => levelOf(root.blocks.find((block) => block.kind === kind))
  const rules = { namespaces, agent: level('agent'), node: level('node'), operator: level('operator') }
  if (root.blocks.length === 0) throw new Error(`Invalid policy: ${text}`)
  return rules
}

function namespaceRule(block: HclBlock): NamespaceRule {
  const { policy } = block.attributes
  const name = block.label ?? ''
  if (!/^[a-zA-Z0-9-*]{1,128}$/.test(name)) throw new Error(`Invalid namespace name: ${name}`)
  if (policy !== undefined && SHORTHANDS[String(policy)] === undefined) throw new Error(`Invalid namespace policy: ${name}`)
  const own = texts(block.attributes['capabilities'])
  for (const one of own) {
    if (!NAMESPACE_CAPABILITIES.has(one)) throw new Error(`Invalid namespace capability '${one}': namespace ${name}`)
  }
  const variables = block.blocks
    .filter(({ kind }) => kind === 'variables')
    .flatMap(({ blocks }) => blocks)
    .map((rule): VariablesRule => {
      const capabilities = texts(rule.attributes['capabilities'])
      const bad = capabilities.find((one) => !PATH_CAPABILITIES.has(one))
      if (bad !== undefined) throw new Error(`Invalid variable capability '${bad}' in namespace ${name}`)
      if (rule.label === undefined) throw new Error(`Invalid missing variable path in namespace ${name}`)
      // Who may read a path may list it too.
      return { path: rule.label, capabilities: capabilities.includes('read') ? [...capabilities, 'list'] : capabilities }
    })
  return { name, capabilities: [...(SHORTHANDS[String(policy)] ?? []), ...own], variables }
}

function levelOf(block: HclBlock | undefined): Level | undefined {
  if (block === undefined) return undefined
  const { policy } = block.attributes
  if (typeof policy !== 'string' || !LEVELS.has(policy)) throw new Error(`Invalid ${block.kind} policy: ${String(policy)}`)
  return policy as Level
}

function texts(value: HclValue | undefined): string[] {
  return Array.isArray(value) ? value.map(String) : value === undefined ? [] : [String(value)]
}
