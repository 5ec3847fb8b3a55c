import type { Static } from 'typebox'
import type { RequestSeen } from '../../keeper/requests.ts'
import type { RequestView } from '../schemas/requests.ts'
import { scopeView, timeText } from './holds.ts'

export function requestView(seen: RequestSeen): Static<typeof RequestView> {
  const { id, unit, scope, place, action, tasks, reason, wave, at, state, position, wait, detail } = seen
  return {
    id,
    allocation: unit,
    scope: scopeView(scope),
    place,
    action,
    tasks: [...tasks],
    reason,
    ...(wave === null ? {} : { wave }),
    ...(at === null ? {} : { at: timeText(at) }),
    state,
    position,
    waiting_for: wait,
    detail,
  }
}
