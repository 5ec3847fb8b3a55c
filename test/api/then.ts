import { expect } from 'vitest'
import { openapiDocument } from '../../src/api/openapi.ts'
import { ERRORS, type ErrorKind } from '../../src/core/errors.ts'
import type { HttpAnswer } from '../support/replica.ts'

interface Contract {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly responses: Readonly<Record<string, object>> }>>>>
}

export const thenIt = {
  /** A whole problem document, of exactly this kind. */
  isProblem(answer: HttpAnswer, kind: ErrorKind): void {
    expect(answer.body['kind'], answer.text).toBe(kind)
    expect(answer.headers.get('content-type')).toBe('application/problem+json')
    expect(answer.status).toBe(ERRORS[kind].status)
    expect(answer.body).toMatchObject({
      type: `urn:lockkeeper:problem:${kind}`,
      title: ERRORS[kind].title,
      status: ERRORS[kind].status,
      detail: expect.any(String),
    })
  },

  /** Refused, naming what is wrong. */
  isRefused(answer: HttpAnswer, field: string): void {
    thenIt.isProblem(answer, 'invalid_request')
    expect(answer.body['field'], answer.text).toBe(field)
    expect(answer.body['detail']).toContain(field)
  },

  /** Each operation answered with nothing but the statuses that the contract names for it, and errors are problem documents. */
  async keepsTheContract(
    seen: readonly { readonly method: string; readonly path: string; readonly answer: HttpAnswer }[],
  ): Promise<void> {
    const { paths } = JSON.parse(await openapiDocument()) as Contract
    for (const { method, path, answer } of seen) {
      if (answer.status >= 400 && !path.startsWith('/health/ready'))
        expect(answer.headers.get('content-type'), answer.text).toBe('application/problem+json')
      const template = Object.keys(paths).find((one) => patternOf(one).test(path.split('?', 1)[0] as string))
      const operation = template === undefined ? undefined : paths[template]?.[method.toLowerCase()]
      if (operation === undefined) continue
      expect(Object.keys(operation.responses), `${method} ${path}: ${answer.text}`).toContain(String(answer.status))
    }
  },
}

function patternOf(template: string): RegExp {
  return new RegExp(`^${template.replaceAll(/\{[^}]+\}/g, '[^/]+').replaceAll('.', '\\.')}$`)
}
