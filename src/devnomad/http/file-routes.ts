import type { AllocationFiles } from '../client/files.ts'
import { Refusal } from '../refusal.ts'
import { json, text, type Answer, type Call } from './exchange.ts'

/** Finds the files of an allocation whose agent answers, or throws what Nomad says. */
export type Reach = (call: Call, id: string) => Promise<AllocationFiles | undefined>

/** `/v1/client/fs/ls|stat|cat/:alloc?path=` (facts §9). Any method will do. */
export class FileRoutes {
  readonly #reach: Reach

  constructor(reach: Reach) {
    this.#reach = reach
  }

  async one(call: Call, rest: string): Promise<Answer> {
    const [what, id = ''] = rest.split('/') as [string, string?]
    switch (what) {
      case 'ls':
        return json((await this.#files(call, id, (files) => files.list(call.query.get('path') || '/'))) ?? [])
      case 'stat': {
        const path = pathOf(call)
        const info = await this.#files(call, id, (files) => files.stat(path))
        return json({ ...info, ContentType: info.IsDir ? 'application/octet-stream' : 'text/plain; charset=utf-8' })
      }
      case 'cat':
        return this.#cat(call, id)
      default:
        throw new Refusal(404, 'resource not found')
    }
  }

  // Its status is always 200: a refusal comes as if it were the content.
  async #cat(call: Call, id: string): Promise<Answer> {
    try {
      const path = pathOf(call)
      return text(200, await this.#files(call, id, (files) => files.cat(path)))
    } catch (error) {
      if (error instanceof Refusal) return text(200, error.message)
      throw error
    }
  }

  async #files<T>(call: Call, id: string, work: (files: AllocationFiles) => T): Promise<T> {
    const files = await this.#reach(call, id)
    if (files === undefined) throw new Refusal(404, `state for allocation ${id} not found on client`)
    try {
      return work(files)
    } catch (error) {
      const { message } = error as Error
      throw new Refusal(message.endsWith('no such file or directory') ? 404 : 500, message)
    }
  }
}

function pathOf(call: Call): string {
  const path = call.query.get('path')
  if (!path) throw new Refusal(400, 'must provide a file name')
  return path
}
