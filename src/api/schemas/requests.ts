// Managed requests: asked for here, acted on by Lockkeeper itself.
import { Type } from 'typebox'
import { LEVEL_FIELDS, ScopeView } from './scopes.ts'
import { duration, name, oneOf, only, optional, orNull, ref, said, text, time } from './words.ts'
import { WAIT_KINDS } from '../../core/errors.ts'
import { REQUEST_STATES } from '../../core/request.ts'
import { SIGNALS } from '../../core/signals.ts'

export const AskRequest = only(
  {
    allocation: name('Full ID of the allocation; it tells namespace, job and group'),
    component: optional(name('Another semaphore than that of the group as a whole')),
    task: optional(name('The task that is acted on; without it all that run')),
    action: optional(oneOf(['restart', 'signal', 'replace'], 'What is to be done; restart if not given')),
    signal: optional(oneOf([...SIGNALS], 'With action signal: its name; SIGHUP if not given')),
    reason: text('Why, for people'),
    since: optional(
      time('On the clock of the allocation’s own host: the mtime of a file there, say. Any start after it satisfies the request'),
    ),
    deadline: optional(time('When the credential ends that this is about: the earlier the sooner')),
    priority: optional(Type.Integer({ minimum: -1000, maximum: 1000, description: 'Higher goes first; 0 if not given' })),
    wave: optional(
      name(
        'A label for the requests that belong together. A request that has one already, and is acted on, is joined as it is: the answer tells its label',
      ),
    ),
  },
  'AskRequest',
)

export const WaitingFor = Type.Object(
  { kind: oneOf([...WAIT_KINDS], 'The reason, for programs'), detail: said('The reason, for people') },
  { $id: 'WaitingFor' },
)

export const RequestView = Type.Object(
  {
    id: said('ID of the request: the same while it is open, however often it is asked for'),
    allocation: said('What is acted on'),
    scope: ref(ScopeView),
    place: said('Where the allocation stands: the same for its replacement'),
    action: said('What is done'),
    tasks: Type.Array(said('A task'), { description: 'Those that are acted on; none: all that run' }),
    reason: said('Why it was asked for'),
    wave: optional(said('The label')),
    at: optional(time('When it was first asked for')),
    state: oneOf(
      [...REQUEST_STATES],
      'waiting; acting: a replica acts; observing: the health gate watches; done: restarted and healthy; failed: not healthy in time; gone: the allocation has ended; cancelled',
    ),
    position: orNull(Type.Integer({ minimum: 1, description: 'Its place in the queue, from 1; null: it does not wait' })),
    waiting_for: orNull(ref(WaitingFor)),
    detail: said('Why it is as it is'),
    warnings: optional(Type.Array(said('A sentence'), { description: 'When it was asked for: what will not work as it looks' })),
  },
  { $id: 'Request' },
)
export const Satisfied = Type.Object(
  { satisfied: Type.Literal(true, { description: 'It was started after what was asked for, or has finished by design' }) },
  { $id: 'Satisfied', description: 'There is nothing to do' },
)
export const RequestList = Type.Object({ requests: Type.Array(ref(RequestView)) }, { $id: 'RequestList' })

export const RequestPath = Type.Object({ id: said('ID of the request') })
export const RequestsQuery = only({ ...LEVEL_FIELDS, wave: optional(name('Only those with this label')) })
export const FollowQuery = only({
  wait: optional(duration('How long to wait until something about it has changed, 0s to 10m; 0s if not given')),
})

export const REQUEST_SCHEMAS = [AskRequest, WaitingFor, RequestView, Satisfied, RequestList]
