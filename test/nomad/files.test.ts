import { describe, expect, it } from 'vitest'
import type { NomadFault } from '../../src/core/nomad-fault.ts'
import { createCluster } from '../../src/nomad/cluster.ts'
import { createFiles } from '../../src/nomad/files.ts'
import { SendFault } from '../../src/nomad/transport.ts'
import { ended, queryOf, reply, scripted, type Step } from './support.ts'

const ALLOCATION = '66b22bc5-4b99-87b6-5289-e4a038accfb3'
const HOST = `/tmp/nomad/data/alloc/${ALLOCATION}`
/** Recorded from a real Nomad, as everything here. */
const ENTRY = { FileMode: '-rw-r--r--', IsDir: false, ModTime: '2026-11-30T01:18:43.425742219Z', Name: 'app.env', Size: 8 }
const SOCKET = { ...ENTRY, FileMode: 'Srw-rw-rw-', ModTime: '2026-11-30T01:18:42.965742205Z', Name: 'api.sock', Size: 0 }

function given(...steps: Step[]) {
  const { client, requests } = scripted(steps)
  return { files: createFiles(client), cluster: createCluster(client), requests }
}
const faultOf = async (work: Promise<unknown>) => {
  const result = await ended(work)
  if ('value' in result) throw new Error('it went well')
  return result.error as NomadFault
}

describe('the files of an allocation', () => {
  it('one is asked for by its path, and its date is that of its host to the microsecond', async () => {
    const { files, requests } = given(reply(200, { ...ENTRY, ContentType: 'text/plain' }))
    expect(await files.stat(ALLOCATION, '/app/secrets/app.env')).toEqual({
      name: 'app.env',
      isDirectory: false,
      mtime: Date.UTC(2026, 10, 30, 1, 18, 43) + 425.742,
    })
    expect(requests[0]?.path).toMatch(`/v1/client/fs/stat/${ALLOCATION}?`)
    expect(queryOf(requests[0] as NonNullable<(typeof requests)[0]>)).toEqual({ path: '/app/secrets/app.env' })
  })

  it('a folder shows what is in it', async () => {
    const { files } = given(reply(200, [SOCKET, ENTRY]))
    const entries = await files.list(ALLOCATION, '/app/secrets')
    expect(entries).toMatchObject([{ name: 'api.sock' }, { name: 'app.env' }])
  })

  it('what is not there is null', async () => {
    const { files } = given(
      reply(404, `stat ${HOST}/app/secrets/nope: no such file or directory`),
      reply(404, `open ${HOST}/app/nope: no such file or directory`),
    )
    expect(await files.stat(ALLOCATION, '/app/secrets/nope')).toBeNull()
    expect(await files.list(ALLOCATION, '/app/nope')).toBeNull()
  })

  it.each([
    ['rejected', reply(500, `open ${HOST}/app/local/a.conf: not a directory`)],
    ['rejected', reply(500, `open ${HOST}/app/secrets: permission denied`)],
    ['rejected', reply(404, `state for allocation ${ALLOCATION} not found on client`)],
    ['unavailable', reply(404, 'No path to node')],
    ['denied', reply(403, 'Permission denied')],
  ] as const)('%s: what Nomad says of paths of the host is not passed on', async (kind, step) => {
    const { files } = given(step)
    const fault = await faultOf(files.list(ALLOCATION, '/app/local'))
    expect(fault.kind).toBe(kind)
    expect(fault.message).not.toContain('/tmp/nomad')
  })

  it('a folder of thousands is too many, also when the answer is not read to its end', async () => {
    const many = Array.from({ length: 1_001 }, (_, n) => ({ ...ENTRY, Name: String(n) }))
    const tooLarge: Step = () => {
      throw new SendFault('too_large', 'more than was asked for')
    }
    const { files, requests } = given(reply(200, many), reply(200, many.slice(1)), tooLarge)
    expect(await files.list(ALLOCATION, '/alloc/data')).toBe('too_many')
    expect(await files.list(ALLOCATION, '/alloc/data')).toHaveLength(1_000)
    expect(await files.list(ALLOCATION, '/alloc/data')).toBe('too_many')
    expect(requests[0]?.maxBytes).toBeLessThanOrEqual(1_048_576)
  })

  it('nothing is sent for what is no allocation', async () => {
    const { files, requests } = given()
    expect((await faultOf(files.stat('../x', '/app/x'))).kind).toBe('rejected')
    expect(requests).toEqual([])
  })
})

describe('the jobs with a meta key', () => {
  it('are service and system jobs of all namespaces, in one filtered list', async () => {
    const job = { ID: 'web', Namespace: 'default', Type: 'service', Stop: false, ParentID: '', JobModifyIndex: 13 }
    const rows = [
      { ...job, JobSummary: { ModifyIndex: 23 } },
      { ...job, ID: 'agent', Namespace: 'ops', Type: 'system' },
      { ...job, ID: 'nightly', Type: 'batch' },
      { ...job, ID: 'web/dispatch-1', ParentID: 'web' },
      { ...job, ID: 'old', Stop: true },
    ]
    const { cluster, requests } = given(reply(200, rows))
    expect(await cluster.jobsWithMeta('lockkeeper_watch')).toEqual([
      { namespace: 'default', id: 'web', version: '13.23' },
      { namespace: 'ops', id: 'agent', version: '13.0' },
    ])
    const query = new URLSearchParams(requests[0]?.path.split('?')[1])
    expect(query.get('namespace')).toBe('*')
    expect(query.get('filter')).toBe('"lockkeeper_watch" in Meta')
  })
})
