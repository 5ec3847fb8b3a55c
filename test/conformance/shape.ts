import { expect } from 'vitest'

/** The kinds of values of an answer, to be held against a recorded one. */
export interface Shape {
  readonly value: unknown
}
export const shapeOf = (value: unknown): Shape => ({ value })

declare module 'vitest' {
  interface Matchers<T> {
    /** Every field of the recorded value is there, with the same kind of value; what may be null is not compared. */
    toContainShape(recorded: unknown): T
  }
}

expect.extend({
  toContainShape(received: Shape, recorded: unknown) {
    const wrong = differences(received.value, recorded, '')
    return { pass: wrong.length === 0, message: () => `differs from the recording:\n${wrong.join('\n')}` }
  },
})

function differences(actual: unknown, recorded: unknown, at: string): string[] {
  if (recorded === null) return []
  if (Array.isArray(recorded)) {
    if (!Array.isArray(actual)) return [`${at} is no list`]
    return recorded.length === 0 || actual.length === 0 ? [] : differences(actual[0], recorded[0], `${at}[0]`)
  }
  if (typeof recorded !== 'object') {
    return typeof actual === typeof recorded ? [] : [`${at} is ${JSON.stringify(actual)}, recorded ${JSON.stringify(recorded)}`]
  }
  if (typeof actual !== 'object' || actual === null) return [`${at} is ${JSON.stringify(actual)}`]
  // Maps by ID, task or group: their values are alike, their keys are not ours to compare.
  if (
    /(\.(Details|TaskStates|TaskGroups|Config|Meta)|^)$/.test(at) &&
    !['ID', 'Index', 'Path', 'keys'].some((key) => key in recorded)
  ) {
    if (at.endsWith('Details') || at.endsWith('Config') || at.endsWith('Meta')) return []
    const [one] = Object.values(actual)
    const [other] = Object.values(recorded)
    return one === undefined ? [`${at} is empty`] : differences(one, other, `${at}.*`)
  }
  const fields = actual as Record<string, unknown>
  return Object.entries(recorded).flatMap(([key, value]) =>
    key in fields ? differences(fields[key], value, `${at}.${key}`) : [`${at}.${key} is missing`],
  )
}
