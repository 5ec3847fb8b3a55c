// Holds: asking, renewing, releasing, looking at one, and ending one by force.
import { Type } from 'typebox'
import { ScopeView } from './scopes.ts'
import { count, duration, flag, name, oneOf, only, optional, orNull, ref, said, secret, text, time } from './words.ts'

const ACTIONS: ['restart', 'signal', 'reload', 'replace'] = ['restart', 'signal', 'reload', 'replace']
const phase = () => oneOf(['acting', 'observing'], 'acting: its actor may act. observing: the health gate watches the unit')

export const AskHold = only(
  {
    allocation: optional(name('Full ID of the allocation; it tells namespace, job and group. Either this or shared')),
    component: optional(name('With allocation: another semaphore than that of the group as a whole')),
    task: optional(name('With allocation: the task that is acted on; without it all of them')),
    shared: optional(name('Name of a shared semaphore. Either this or allocation')),
    unit: optional(name('With shared: what is unavailable meanwhile, any text')),
    action: optional(oneOf(ACTIONS, 'What is going to be done; restart if not given')),
    reason: text('Why, for people'),
    key: secret('Random, one per asking process: only the same process is given the same hold again'),
    priority: optional(Type.Integer({ minimum: -1000, maximum: 1000, description: 'Higher goes first; 0 if not given' })),
    since: optional(
      time('With allocation, on the clock of its own host: the mtime of a file there, say. Started after it, it needs no hold'),
    ),
    deadline: optional(time('When the credential ends that this waits for: the earlier the sooner')),
  },
  'AskHold',
  'Either an allocation, or a unit in a shared semaphore',
)

export const WaitQuery = only({ wait: optional(duration('How long to wait for the grant, 0s to 10m; 0s if not given')) })
export const HoldPath = Type.Object({ hold: said('ID of the hold') })

export const GrantedHold = Type.Object(
  {
    hold: said('ID of the hold'),
    lease: secret('The secret of the lease: whoever knows it holds. Nobody else is ever told'),
    token: count('The fencing token: higher than all before it in this semaphore'),
    slot: count('The slot that it takes'),
    ttl: duration('Act only within this, counted from before the ask or the last renewal was sent'),
    renew_every: duration('How often to renew'),
    scope: ref(ScopeView),
    unit: said('What is held'),
  },
  { $id: 'GrantedHold', description: 'Renew once before you act; then act, renew meanwhile, and release' },
)

export const LeaseBody = only({ lease: secret('The secret that came with the grant') }, 'RenewHold')
export const RenewedHold = Type.Object(
  { phase: phase(), valid_for: duration('From before the renewal was sent') },
  { $id: 'RenewedHold', description: 'The lease is yours for so long' },
)

export const ReleaseBody = only(
  {
    lease: secret('The secret that came with the grant'),
    outcome: optional(
      oneOf(['done', 'abandoned', 'failed'], 'done: the act has begun. abandoned: you did not act. done if not given'),
    ),
  },
  'ReleaseHold',
)
export const ReleasedHold = Type.Object(
  { phase: oneOf(['observing', 'over'], 'observing: the health gate decides when the slot is free. over: it is free') },
  { $id: 'ReleasedHold' },
)

export const HoldView = Type.Object(
  {
    hold: said('ID of the hold'),
    scope: ref(ScopeView),
    unit: said('What is unavailable meanwhile: an allocation; in a shared semaphore any text'),
    place: said('Where the unit stands: the same for its replacement'),
    node: optional(said('The node of the allocation, when it is known here')),
    tasks: Type.Array(said('A task'), { description: 'Those that are acted on; none: all that run' }),
    action: oneOf(ACTIONS, 'What is done'),
    reason: said('Why it was asked for'),
    actor: said('Who acts'),
    token: count('The fencing token'),
    slot: count('The slot that it takes'),
    phase: phase(),
    outcome: orNull(said('How the actor ended its part, or what ended it; null while it acts')),
    since: time('When it was granted'),
    phase_since: time('Since when it is in this phase'),
    deadline: optional(time('When the phase is overdue')),
    was_up: flag('Whether the unit was up when it was granted'),
  },
  { $id: 'Hold', description: 'A granted request, without anything of its lease' },
)

export const ForceBody = only({ reason: text('Why, for people'), by: optional(text('Who')) }, 'ForceRelease')
export const ForcedRelease = Type.Object(
  {
    hold: said('ID of the hold'),
    scope: ref(ScopeView),
    unit: said('What was held'),
    warning: said('What this cannot do'),
  },
  { $id: 'ForcedRelease' },
)

export const HOLD_SCHEMAS = [
  AskHold,
  GrantedHold,
  LeaseBody,
  RenewedHold,
  ReleaseBody,
  ReleasedHold,
  HoldView,
  ForceBody,
  ForcedRelease,
]
