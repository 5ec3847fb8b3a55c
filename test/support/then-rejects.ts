import { expect } from 'vitest'
import { Problem, type ErrorKind } from '../../src/core/errors.ts'

/** The work fails with a problem of this kind, whose detail says so. */
export async function thenRejects(work: Promise<unknown>, kind: ErrorKind, text: string): Promise<void> {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(Problem)
  expect((error as Problem).kind).toBe(kind)
  expect((error as Problem).message).toContain(text)
}
