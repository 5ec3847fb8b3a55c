import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { openapiDocument } from '../src/api/openapi.ts'
import { ERRORS } from '../src/core/errors.ts'

interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly tags: readonly string[]
  readonly security: readonly unknown[]
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, unknown>> }>>
}
interface Document {
  readonly info: { readonly version: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, { readonly properties?: Record<string, { enum?: string[] }> }>>
  }
}

const file = async (path: string) => await readFile(new URL(`../${path}`, import.meta.url), 'utf8')
const document = JSON.parse(await openapiDocument()) as Document
const operations = Object.values(document.paths).flatMap((path) => Object.values(path))

it('the published contract is the one that the code makes: `npm run openapi` writes it', async () => {
  expect(await file('openapi/openapi.json')).toBe(await openapiDocument())
})

it('the contract has the version of the package', async () => {
  expect(document.info.version).toBe((JSON.parse(await file('package.json')) as { version: string }).version)
})

it('every operation has a name of its own, a summary and a tag', () => {
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length)
  for (const { summary, tags } of operations) expect([summary.length > 0, tags.length]).toEqual([true, 1])
})

it('every operation that changes something asks who calls, and says how it refuses', () => {
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, { security, responses }] of Object.entries(methods)) {
      if (method !== 'get') expect(security, `${method} ${path}`).not.toEqual([])
      const refuses = ['401', '403'].map((status) => status in responses)
      expect(refuses, `${method} ${path}`).toEqual([security.length > 0, security.length > 0])
    }
  }
})

it('every operation says how it fails, in problem documents', () => {
  for (const { operationId, responses } of operations) {
    expect(Object.keys(responses), operationId).toContain('400')
    for (const [status, { content }] of Object.entries(responses)) {
      if (status >= '400' && operationId !== 'isReady') expect(Object.keys(content ?? {})).toEqual(['application/problem+json'])
    }
  }
})

it('the contract names every kind of problem of the table, and no other', () => {
  expect(document.components.schemas['Problem']?.properties?.['kind']?.enum).toEqual(Object.keys(ERRORS))
})

it('nothing that answers show has a place for a lease, but the grant', () => {
  const withLease = Object.entries(document.components.schemas).filter(([, schema]) => 'lease' in (schema.properties ?? {}))
  expect(withLease.map(([name]) => name).toSorted()).toEqual(['GrantedHold', 'ReleaseHold', 'RenewHold'])
})
