// Operator locks: which levels are shut, by whom, and what was in flight when one was put.
import { Type } from 'typebox'
import { HoldView } from './holds.ts'
import { LOCK_LEVEL_FIELDS, SCOPE_VIEW_FIELDS } from './scopes.ts'
import { only, optional, ref, said, text, time } from './words.ts'

export const LockView = Type.Object(
  {
    ...SCOPE_VIEW_FIELDS,
    path: said('The Nomad variable that shuts the level'),
    reason: said(),
    by: said('Who put it'),
    until: optional(time('When it ends by itself')),
  },
  {
    $id: 'OperatorLock',
    description: 'A level that is shut. Without any level field: everything; or, if written by hand, what its path says',
  },
)
export const LockList = Type.Object({ locks: Type.Array(ref(LockView)) }, { $id: 'OperatorLockList' })

export const LockBody = only(
  {
    ...LOCK_LEVEL_FIELDS,
    reason: text('Why, for people'),
    by: optional(text('Who')),
    until: optional(text('When it ends by itself: a time (RFC 3339), or a duration from now such as 2h, at most 8760h')),
  },
  'PutOperatorLock',
  'Without any level field: everything',
)
export const Locked = Type.Object(
  {
    locked: said('What is locked, as a sentence'),
    in_flight: Type.Array(ref(HoldView), { description: 'Granted before: they go on, and none is handed out after' }),
  },
  { $id: 'Locked' },
)
export const LevelQuery = only(LOCK_LEVEL_FIELDS)

export const LOCK_SCHEMAS = [LockView, LockList, LockBody, Locked]
