import { milliseconds, type Allocation, type ReschedulePolicy } from './shapes.ts'

/** When a failed allocation may be replaced (wall, ms); null: never, its policy is exhausted. */
export function rescheduleAt(alloc: Allocation, policy: ReschedulePolicy | null, wall: number): number | null {
  if (policy === null) return null
  const past = alloc.RescheduleTracker?.Events ?? []
  if (!policy.Unlimited) {
    const since = wall - milliseconds(policy.Interval)
    const recent = past.filter((event) => milliseconds(event.RescheduleTime) > since)
    if (recent.length >= policy.Attempts) return null
  }
  return endedAt(alloc) + delayMs(policy, past.length)
}

export function delayMs(policy: ReschedulePolicy, attempt: number): number {
  const base = milliseconds(policy.Delay)
  const growth = { constant: 1, exponential: 2 ** attempt, fibonacci: fibonacci(attempt) }[policy.DelayFunction] ?? 1
  const max = milliseconds(policy.MaxDelay)
  return max > 0 ? Math.min(base * growth, max) : base * growth
}

function endedAt(alloc: Allocation): number {
  const ends = Object.values(alloc.TaskStates ?? {}).map((task) => (task.FinishedAt ? Date.parse(task.FinishedAt) : 0))
  return Math.max(0, ...ends)
}

function fibonacci(n: number): number {
  let [a, b] = [1, 1]
  for (let i = 0; i < n; i++) [a, b] = [b, a + b]
  return a
}
