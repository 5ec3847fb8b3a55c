import { formatDuration } from '../../core/duration.ts'
import type { Variable } from '../variables/table.ts'

/** A variable as Nomad shows it. */
export function content(variable: Variable): object {
  return { ...metadata(variable), ...(variable.items && { Items: variable.items }) }
}

/** Without its Items; with its lock, which not everybody may see (facts §2). */
export function metadata({ namespace, path, lock, ...variable }: Variable): object {
  return {
    Namespace: namespace,
    Path: path,
    ...(lock && {
      Lock: { TTL: formatDuration(lock.ttlMs), LockDelay: formatDuration(lock.delayMs), ID: lock.id },
    }),
    CreateIndex: variable.createIndex,
    CreateTime: variable.createTime,
    ModifyIndex: variable.modifyIndex,
    ModifyTime: variable.modifyTime,
  }
}
