import type { Shape } from './shape.ts'

/** Why the scheduler finds no node for an allocation of this group, in the words of `nomad job status`; null: none waits for one. */
export function shortageOf(evaluations: readonly Shape[], group: string): string | null {
  const blocked = evaluations.filter((one) => one.text('Status') === 'blocked')
  const failed = blocked.map((one) => one.object('FailedTGAllocs')?.object(group) ?? null).find((found) => found !== null)
  return failed === undefined ? null : sentenceOf(failed)
}

function sentenceOf(failed: Shape): string {
  if (failed.count('NodesEvaluated') === 0) return 'no nodes were eligible for evaluation'
  const of = (key: string, text: (name: string, nodes: string) => string) =>
    Object.entries((failed.optional(key) ?? {}) as Record<string, number>).map(([name, nodes]) => text(name, String(nodes)))
  const reasons = [
    ...of('ConstraintFiltered', (name, nodes) => `constraint "${name}": ${nodes} nodes excluded by filter`),
    ...of('ClassFiltered', (name, nodes) => `class "${name}": ${nodes} nodes excluded by filter`),
    ...of('DimensionExhausted', (name, nodes) => `dimension "${name}" exhausted on ${nodes} nodes`),
    ...of('ClassExhausted', (name, nodes) => `class "${name}" exhausted on ${nodes} nodes`),
  ]
  return reasons.length === 0 ? 'no node can take it' : reasons.join('; ')
}
