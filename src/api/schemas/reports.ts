// What shims tell of the time in which they could not ask.
import { Type } from 'typebox'
import { count, name, only, optional } from './words.ts'

const MOST = 10_000
const times = (description: string) => optional(Type.Integer({ minimum: 1, maximum: MOST, description }))

export const AbsenceReport = only(
  {
    allocation: optional(name('Full ID of the allocation beside which it was')),
    unavailable: only({
      wait: times('It waited, and was heard again'),
      jitter: times('It acted without a hold, at a moment of its own'),
      proceed: times('It acted without a hold, at once'),
      skip: times('It did not act'),
    }),
  },
  'AbsenceReport',
  'How many times a shim did what while nobody could be asked',
)
export const AbsenceCounted = Type.Object({ counted: count('How many') }, { $id: 'AbsenceCounted' })

export const REPORT_SCHEMAS = [AbsenceReport, AbsenceCounted]
