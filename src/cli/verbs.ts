import type { Verb } from './io.ts'

export interface Entry {
  /** One line for the list of verbs. */
  readonly about: string
  /** Each verb loads what it needs and nothing else: a shim starts fast. */
  load(): Promise<{ readonly verb: Verb }>
}

/** In the order of `lockkeeper --help`. */
export const VERBS: ReadonlyMap<string, Entry> = new Map<string, Entry>([
  ['run', { about: 'run a command inside a hold', load: () => import('./run.ts') }],
  ['restart', { about: 'restart a job or an allocation, one after another', load: () => import('./restart.ts') }],
  ['status', { about: 'who holds, who waits, and why', load: () => import('./status.ts') }],
  ['lock', { about: 'shut a level: nobody new is granted below it', load: () => import('./lock.ts') }],
  ['unlock', { about: 'open it again', load: () => import('./unlock.ts') }],
  ['resume', { about: 'let a halted semaphore go on', load: () => import('./resume.ts') }],
  ['release', { about: 'end a hold by force', load: () => import('./release.ts') }],
  ['serve', { about: 'run a replica of the service', load: () => import('./serve.ts') }],
  ['dev', { about: 'a simulated Nomad and the service, to try things', load: () => import('./dev.ts') }],
  ['demo', { about: 'show on a simulated cluster what it does', load: () => import('./demo.ts') }],
  ['openapi', { about: 'print the contract of the API', load: () => import('./openapi.ts') }],
  ['version', { about: 'print the version', load: () => import('./version.ts') }],
])
