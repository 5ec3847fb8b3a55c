import { NomadFault } from '../core/nomad-fault.ts'
import type { FileEntry, Files } from '../keeper/ports.ts'
import { ALLOCATION_ID, timeOf } from './allocations.ts'
import { bodyOf, type Answer } from './answers.ts'
import type { NomadClient } from './client.ts'
import { shape, shapes, type Shape } from './shape.ts'

/** Who watches a folder with more files than this means another one. */
const MAX_ENTRIES = 1_000
/** Such a list takes about 200 bytes an entry. */
const MAX_BYTES = 512 * 1_024

/** The file API over HTTP. Any server forwards it to the allocation's own client agent. Nomad's texts name paths of the host, so none
 *  of them is passed on. `cat` is never used: it answers 200 to what it refuses (facts §9). */
export function createFiles(client: NomadClient): Files {
  /** Null: nothing is there. */
  async function ask(what: string, call: string, allocation: string, path: string, signal?: AbortSignal): Promise<Answer | null> {
    if (!ALLOCATION_ID.test(allocation)) throw new NomadFault('rejected', `${what}: not the ID of an allocation`)
    const url = `/v1/client/fs/${call}/${allocation}`
    const isMissing = (status: number, text: string) => status >= 400 && text.includes('no such file or directory')
    try {
      const asked = { what, method: 'GET', path: url, query: { path }, maxBytes: MAX_BYTES, meant: isMissing } as const
      const answer = await client.call(asked, signal)
      return answer.status === 200 ? answer : null
    } catch (error) {
      if (!(error instanceof NomadFault) || error.kind === 'too_large') throw error
      if (error.kind === 'denied') throw new NomadFault('denied', `${what}: the token has no right read-fs in the namespace`)
      if (error.kind === 'unavailable')
        throw new NomadFault('unavailable', `${what}: the client agent of the allocation does not answer`, false)
      throw new NomadFault('rejected', `${what}: Nomad refuses to show ${path}`)
    }
  }

  return {
    async stat(allocation, path, signal) {
      const what = 'files.stat'
      const answer = await ask(what, 'stat', allocation, path, signal)
      return answer === null ? null : entryOf(shape(bodyOf(answer), what))
    },

    async list(allocation, path, signal) {
      const what = 'files.list'
      try {
        const answer = await ask(what, 'ls', allocation, path, signal)
        if (answer === null) return null
        const entries = shapes(bodyOf(answer), what)
        return entries.length > MAX_ENTRIES ? 'too_many' : entries.map(entryOf)
      } catch (error) {
        if (error instanceof NomadFault && error.kind === 'too_large') return 'too_many'
        throw error
      }
    },
  }
}

/** ModTime is RFC 3339 with nanoseconds, read as a StartedAt is, so that the two may be compared. */
function entryOf(from: Shape): FileEntry {
  return { name: from.text('Name'), isDirectory: from.flag('IsDir'), mtime: timeOf(from.text('ModTime')) ?? 0 }
}
