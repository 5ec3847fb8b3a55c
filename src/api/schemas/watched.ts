// Watched files as people look at them: which allocations run with their current files, and what keeps the others from it.
import { Type } from 'typebox'
import { LEVEL_FIELDS, ScopeView } from './scopes.ts'
import { count, duration, oneOf, only, ref, said } from './words.ts'

export const WatchedAllocationView = Type.Object(
  {
    allocation: said('Its ID'),
    place: said('Where it stands: job.group[index]'),
    node: said('The name of its node'),
    state: oneOf(
      ['current', 'changed', 'found_out', 'unknown'],
      'current: it runs with its files as they are; changed: not yet; found_out: a file is new again after each act, and no more is done about it; unknown: it cannot be told',
    ),
    detail: said('Why, for people; empty when it is current'),
  },
  { $id: 'WatchedAllocation' },
)

export const WatchedGroupView = Type.Object(
  {
    scope: ref(ScopeView),
    watched: count('How many allocations'),
    current: count('How many of them run with their current files'),
    unknown: count('Of how many it cannot be told'),
    allocations: Type.Array(ref(WatchedAllocationView)),
    faults: Type.Array(said(), { description: 'Words of the job that cannot be read; what they are about is not watched' }),
    warnings: Type.Array(said(), { description: 'What will not work as it looks' }),
  },
  { $id: 'WatchedGroup', description: 'A group whose job wants files watched' },
)

export const WatchedList = Type.Object(
  {
    groups: Type.Array(ref(WatchedGroupView)),
    interval: duration('Between two looks at one allocation; longer than usual when there are too many'),
    missing: Type.Array(said(), { description: 'What keeps the service from looking, in sentences' }),
  },
  { $id: 'WatchedList' },
)

export const WatchedQuery = only(LEVEL_FIELDS)
export const WATCHED_SCHEMAS = [WatchedAllocationView, WatchedGroupView, WatchedList]
