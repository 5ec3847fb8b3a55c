// What the service says of itself.
import { Type } from 'typebox'
import { flag, said } from './words.ts'

export const Liveness = Type.Object({ live: flag('It runs') }, { $id: 'Liveness' })
export const ReadinessView = Type.Object(
  { ready: flag('Whether it can grant'), missing: Type.Array(said(), { description: 'What is missing, in sentences' }) },
  { $id: 'Readiness' },
)
export const SERVICE_SCHEMAS = [Liveness, ReadinessView]
