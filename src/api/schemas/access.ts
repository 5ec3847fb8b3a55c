// Who may call an operation: each route says it as its `security`, so that the contract and what is enforced (callers.ts) are one.

/** Nobody is asked. */
export const ANYBODY = []
/** Workloads for what is their own; operators as far as Nomad lets their token write or read the semaphore. */
export const WORKLOAD_OR_OPERATOR = [{ workload: [] }, { operator: [] }]
/** Workloads, of what is their own. */
export const WORKLOAD = [{ workload: [] }]
/** Nomad decides, by the write that is made with the operator's token. */
export const OPERATOR = [{ operator: [] }]

/** How those are refused who may not. */
export const REFUSALS = ['unauthorized', 'forbidden'] as const

export const SECURITY_SCHEMES = {
  workload: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'The workload identity of the task, with the audience `lockkeeper`: read its file anew for each call',
  },
  operator: { type: 'apiKey', in: 'header', name: 'X-Nomad-Token', description: 'A Nomad token' },
} as const
