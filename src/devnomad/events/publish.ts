import type { Evaluation } from '../cluster/evaluations.ts'
import type { Allocation, Deployment, Job, Node } from '../cluster/shapes.ts'
import type { Event } from './event-buffer.ts'

/** A row of a table that was written, at its ModifyIndex. */
export type Written =
  | { readonly table: 'allocs'; readonly row: Allocation }
  | { readonly table: 'jobs'; readonly row: Job }
  | { readonly table: 'deployments'; readonly row: Deployment }
  | { readonly table: 'nodes'; readonly row: Node }
  | { readonly table: 'evals'; readonly row: Evaluation }

/** The event of a row as it is now; the row may change afterwards. */
export function eventOf(written: Written): Event {
  switch (written.table) {
    case 'allocs': {
      // The job is not part of it.
      const { Job: _job, ...row } = written.row
      const of = { Topic: 'Allocation', Type: 'AllocationUpdated', FilterKeys: [row.JobID, row.DeploymentID] } as const
      return { ...of, Key: row.ID, Namespace: row.Namespace, Index: row.ModifyIndex, Payload: { Allocation: row } }
    }
    case 'jobs': {
      const row = { ...written.row }
      const of = { Topic: 'Job', Type: 'JobRegistered', FilterKeys: null } as const
      return { ...of, Key: row.ID, Namespace: row.Namespace, Index: row.ModifyIndex, Payload: { Job: row } }
    }
    case 'deployments': {
      const row = structuredClone(written.row)
      const of = { Topic: 'Deployment', Type: 'DeploymentStatusUpdate', FilterKeys: [row.JobID] } as const
      return { ...of, Key: row.ID, Namespace: row.Namespace, Index: row.ModifyIndex, Payload: { Deployment: row } }
    }
    case 'nodes': {
      const row = { ...written.row }
      const of = { Topic: 'Node', Type: 'NodeRegistration', FilterKeys: null } as const
      return { ...of, Key: row.ID, Namespace: '', Index: row.ModifyIndex, Payload: { Node: row } }
    }
    case 'evals': {
      const row = { ...written.row }
      const of = { Topic: 'Evaluation', Type: 'EvaluationUpdated', FilterKeys: [row.JobID, row.DeploymentID ?? ''] } as const
      return { ...of, Key: row.ID, Namespace: row.Namespace, Index: row.ModifyIndex, Payload: { Evaluation: row } }
    }
  }
}
