import type { Raft } from '../raft.ts'
import { nanoseconds, type Job, type Nanoseconds } from './shapes.ts'

export type Trigger =
  | 'job-register'
  | 'job-deregister'
  | 'alloc-stop'
  | 'alloc-failure'
  | 'alloc-reschedule'
  | 'deployment-watcher'
  | 'node-update'
  | 'node-drain'
  | 'queued-allocs'
  | 'reconnect'

/** Why a group could not be placed, in Nomad's figures. */
export interface Shortage {
  NodesEvaluated: number
  NodesExhausted: number
  NodesFiltered: number
  NodesInPool: number
  NodesAvailable: Record<string, number>
  NodePool: string
  DimensionExhausted: Record<string, number> | null
  ConstraintFiltered: Record<string, number> | null
  ClassExhausted: null
  ClassFiltered: null
  CoalescedFailures: number
}

/** As `/v1/evaluations` shows it. */
export interface Evaluation {
  ID: string
  Namespace: string
  JobID: string
  JobModifyIndex: number
  Type: Job['Type']
  Priority: number
  TriggeredBy: Trigger
  Status: 'pending' | 'blocked' | 'complete'
  StatusDescription?: string
  DeploymentID?: string
  PreviousEval?: string
  NextEval?: string
  BlockedEval?: string
  WaitUntil?: string
  SnapshotIndex?: number
  QueuedAllocations?: Record<string, number>
  FailedTGAllocs?: Record<string, Shortage>
  CreateIndex: number
  ModifyIndex: number
  CreateTime: Nanoseconds
  ModifyTime: Nanoseconds
}

const KEPT = 500

/** Why the scheduler looked, and what came of it. The oldest are forgotten. */
export class Evaluations {
  readonly #raft: Raft
  readonly #newId: () => string
  readonly #wall: () => number
  readonly #written: (row: Evaluation) => void
  readonly #all = new Map<string, Evaluation>()

  constructor(raft: Raft, newId: () => string, wall: () => number, written: (row: Evaluation) => void) {
    this.#written = written
    this.#raft = raft
    this.#newId = newId
    this.#wall = wall
  }

  get(id: string): Evaluation | undefined {
    return this.#all.get(id)
  }

  get all(): readonly Evaluation[] {
    return [...this.#all.values()]
  }

  of(namespace: string, job: string): Evaluation[] {
    return this.all.filter((one) => one.Namespace === namespace && one.JobID === job)
  }

  create(of: Pick<Job, 'Namespace' | 'ID'> & Partial<Job>, why: Trigger, more: Partial<Evaluation> = {}): Evaluation {
    const now = nanoseconds(this.#wall())
    const evaluation: Evaluation = {
      ID: this.#newId(),
      Namespace: of.Namespace,
      JobID: of.ID,
      JobModifyIndex: of.JobModifyIndex ?? 0,
      Type: of.Type ?? 'service',
      Priority: of.Priority ?? 50,
      TriggeredBy: why,
      Status: 'pending',
      CreateIndex: this.#raft.index,
      ModifyIndex: this.#raft.index,
      CreateTime: now,
      ModifyTime: now,
      ...more,
    }
    this.#all.set(evaluation.ID, evaluation)
    this.#written(evaluation)
    const [oldest] = this.#all.keys()
    if (this.#all.size > KEPT && oldest !== undefined) this.#all.delete(oldest)
    return evaluation
  }

  /** It has come to something; one entry of the log. */
  done(evaluation: Evaluation, outcome: Partial<Evaluation> = {}): void {
    const index = this.#raft.commit('evals')
    Object.assign(evaluation, { Status: 'complete', ...outcome, ModifyIndex: index, ModifyTime: nanoseconds(this.#wall()) })
    this.#written(evaluation)
  }

  forget(namespace: string, job: string): void {
    for (const { ID } of this.of(namespace, job)) this.#all.delete(ID)
  }
}
