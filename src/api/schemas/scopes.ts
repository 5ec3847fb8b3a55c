// How scopes and levels are named: by fields, in bodies and queries alike, never by path segments (job IDs hold slashes).
import { Type } from 'typebox'
import { levelName, name, namespace, optional, said } from './words.ts'

export const LEVEL_FIELDS = {
  namespace: optional(namespace()),
  job: optional(name('A job ID; needs namespace')),
  group: optional(name('A group of the job; needs job')),
  component: optional(name('A component of the group; needs group')),
  shared: optional(levelName('A shared semaphore; empty: all of them')),
}
export const LOCK_LEVEL_FIELDS = {
  ...LEVEL_FIELDS,
  nodes: optional(levelName('A group of nodes; empty: all of them')),
}

export const SCOPE_FIELDS = {
  namespace: optional(namespace()),
  job: optional(name('A job ID; needs namespace and group')),
  group: optional(name('A group of the job')),
  component: optional(name('A component of the group; without it the group as a whole')),
  shared: optional(name('A shared semaphore, instead of the others')),
}

/** In answers. */
export const SCOPE_VIEW_FIELDS = {
  namespace: optional(said()),
  job: optional(said()),
  group: optional(said()),
  component: optional(said()),
  shared: optional(said()),
  nodes: optional(said()),
}
export const ScopeView = Type.Object(SCOPE_VIEW_FIELDS, {
  $id: 'Scope',
  description: 'What a semaphore is about: namespace, job, group and perhaps component; or shared; or nodes',
})
