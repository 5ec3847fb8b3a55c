// What a semaphore is about (scope), what an operator lock shuts (level), and how the two relate.

/** A restart budget of a group, or of one component of it. */
export interface GroupScope {
  readonly namespace: string
  readonly job: string
  readonly group: string
  readonly component?: string
}
/** A budget across jobs, by name. */
export interface SharedScope {
  readonly shared: string
}
/** A budget of node reboots, by node group. */
export interface NodesScope {
  readonly nodes: string
}
export type Scope = GroupScope | SharedScope | NodesScope

/** What an operator lock shuts: everything (no field), a namespace, a job, a group, a component, all shared semaphores
 *  (`shared: ''`) or one, all node groups (`nodes: ''`) or one. Fields are given from the left without a gap. */
export interface Level {
  readonly namespace?: string
  readonly job?: string
  readonly group?: string
  readonly component?: string
  readonly shared?: string
  readonly nodes?: string
}

export function isGroupScope(scope: Scope): scope is GroupScope {
  return 'group' in scope
}

/** The levels that a lock on would shut the scope, from the widest (`{}`) to the scope itself. */
export function levelsAbove(scope: Scope): Level[] {
  if ('shared' in scope) return [{}, { shared: '' }, { shared: scope.shared }]
  if ('nodes' in scope) return [{}, { nodes: '' }, { nodes: scope.nodes }]
  const { namespace, job, group, component } = scope
  const levels: Level[] = [{}, { namespace }, { namespace, job }, { namespace, job, group }]
  return component === undefined ? levels : [...levels, { namespace, job, group, component }]
}

/** Whether the scope lies at or below the level. */
export function contains(level: Level, scope: Scope): boolean {
  const key = nameOf(level)
  return levelsAbove(scope).some((above) => nameOf(above) === key)
}

/** The names of a level or scope in order, as one text that is different for different ones. Not a path: see keeper/paths. */
export function nameOf(level: Level | Scope): string {
  return JSON.stringify(segmentsOf(level))
}

/** The names from the left; `~shared` and `~nodes` stand where a namespace would (no namespace can be called so). */
export function segmentsOf(level: Level | Scope): string[] {
  const { namespace, job, group, component, shared, nodes } = level as Level
  if (shared !== undefined) return shared === '' ? ['~shared'] : ['~shared', shared]
  if (nodes !== undefined) return nodes === '' ? ['~nodes'] : ['~nodes', nodes]
  return [namespace, job, group, component].filter((name) => name !== undefined)
}

/** For people: `default/web/api`, `shared docker`, `everything`. */
export function describe(level: Level | Scope): string {
  const { shared, nodes } = level as Level
  if (shared !== undefined) return shared === '' ? 'all shared semaphores' : `shared ${shared}`
  if (nodes !== undefined) return nodes === '' ? 'all nodes' : `nodes ${nodes}`
  return segmentsOf(level).join('/') || 'everything'
}

/** Null when the fields name a level; else what is wrong with them. */
export function levelFault(level: Level): string | null {
  const { namespace, job, group, component, shared, nodes } = level
  const chain = [namespace, job, group, component]
  const kinds = [chain.some((name) => name !== undefined), shared !== undefined, nodes !== undefined]
  if (kinds.filter(Boolean).length > 1) return 'give one of: namespace/job/group/component, shared, nodes'
  const names = ['namespace', 'job', 'group', 'component']
  const gap = chain.findIndex((name, i) => name !== undefined && i > 0 && chain[i - 1] === undefined)
  return gap > 0 ? `${names[gap]} needs ${names[gap - 1]}` : null
}
