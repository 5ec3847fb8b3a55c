import type { Clock } from '../keeper/ports.ts'

export interface DevNomadOptions {
  readonly clock: Clock
  readonly newId: () => string
  /** Names of the nodes to begin with. */
  readonly nodes?: readonly string[]
  /** How long the servers' view of tasks lags behind the truth; measured: about a second. */
  readonly lagMs?: number
  /** Jitter of blocking queries, splay of templates: between 0 and 1. Repeats itself when left out. */
  readonly random?: () => number
  /** How often (0 to 1) a write answers a blocking query that it does not concern. */
  readonly spuriousWakes?: number
  /** With ACLs: until `acl.bootstrap()`, or that call over HTTP, nobody may do anything. */
  readonly acl?: boolean
  /** Of one address, over HTTP; 0: as many as they like. Nomad's own default is 100 (facts §3). */
  readonly maxConnectionsPerClient?: number
  /** How many events the event stream remembers; Nomad's own default is 100. */
  readonly eventBufferSize?: number
}
