// Semaphores as people look at them: who holds, who waits and why, what failed, and the policy with where each value came from.
import { Type } from 'typebox'
import { WAIT_KINDS } from '../../core/errors.ts'
import { HoldView } from './holds.ts'
import { LEVEL_FIELDS, SCOPE_FIELDS, ScopeView } from './scopes.ts'
import { count, duration, flag, oneOf, only, optional, orNull, ref, said, text, time } from './words.ts'

const from = said('Where the value came from: default, update, job meta, group meta, shared …')
const amount = (description: string) => Type.Object({ value: count(description), from })
const length = (description: string) => Type.Object({ value: duration(description), from })

export const PolicyView = Type.Object(
  {
    max_parallel: amount('How many holds at once; 0: not gated'),
    max_unavailable: amount('How many units may be held or down when the next one to go is up'),
    min_healthy_time: length('How long a unit must be healthy without a break'),
    healthy_deadline: length('When a unit that is not healthy has failed'),
    health_check: Type.Object({ value: oneOf(['checks', 'task_states', 'none'], 'What healthy means'), from }),
    stagger: length('The least time between two grants'),
    min_interval: length('The least time between two starts of a unit; from watched files 5m where none is set'),
    max_errors: amount('More failures than this halt the semaphore'),
    acting_deadline: length('An actor that takes longer is overdue'),
    wait_for_deployment: Type.Object({ value: flag('Whether an active deployment is waited for'), from }),
  },
  { $id: 'Policy', description: 'The policy in force' },
)

export const QueueEntry = Type.Object(
  {
    unit: said('What waits'),
    place: said('Where the unit stands'),
    position: Type.Integer({ minimum: 1, description: 'From 1' }),
    kind: Type.Unsafe<(typeof WAIT_KINDS)[number]>({ type: 'string', enum: [...WAIT_KINDS], description: 'Why it waits' }),
    detail: said('Why it waits, for people'),
    priority: Type.Integer({ description: 'Higher goes first' }),
    deadline: optional(time('When the credential ends that it waits for')),
  },
  { $id: 'QueueEntry', description: 'An open request' },
)

export const FailureView = Type.Object(
  {
    unit: said('What did not become healthy'),
    place: said('Where the unit stands'),
    token: count('The fencing token of its hold'),
    slot: count('The slot of its hold'),
    reason: said(),
    at: time('When'),
    job_version: count('The version of the job that failed'),
  },
  { $id: 'Failure', description: 'A unit that did not become healthy after its hold' },
)

export const SemaphoreView = Type.Object(
  {
    scope: orNull(ref(ScopeView)),
    path: said('The Nomad variable that holds the state'),
    grants: orNull(count('The newest fencing token: it counts up with each grant; null: the state cannot be read')),
    holds: Type.Array(ref(HoldView)),
    queue: Type.Array(ref(QueueEntry), { description: 'Who waits, in order' }),
    failures: Type.Array(ref(FailureView)),
    halted: orNull(Type.Object({ since: time('Since when'), reason: said() })),
    locked: orNull(said('The sentence about the operator lock that shuts it; null: none')),
    policy: optional(ref(PolicyView)),
    policy_faults: optional(Type.Array(said(), { description: 'Values that were refused; while there are any, none goes' })),
    unreadable: optional(said('Why the stored state cannot be read; it is left as it is, and shut')),
    warning: optional(said('What of this could not be found out now')),
  },
  {
    $id: 'Semaphore',
    description: 'The restart budget of one scope. Without policy: nothing is open there and many were listed; ask for its job',
  },
)
export const SemaphoreList = Type.Object({ semaphores: Type.Array(ref(SemaphoreView)) }, { $id: 'SemaphoreList' })

export const SemaphoresQuery = only(LEVEL_FIELDS)
export const ResumeBody = only({ ...SCOPE_FIELDS, reason: text('Why, for people'), by: optional(text('Who')) }, 'Resume')
export const Resumed = Type.Object({ resumed: flag('False: it was not halted, and nothing had failed') }, { $id: 'Resumed' })

export const SEMAPHORE_SCHEMAS = [PolicyView, QueueEntry, FailureView, SemaphoreView, SemaphoreList, ResumeBody, Resumed]
