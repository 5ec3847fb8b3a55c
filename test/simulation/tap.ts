import type { Answer, DevNomad, Request } from '../../src/devnomad/devnomad.ts'

/** A write of a variable that Nomad has committed. */
export interface Committed {
  readonly kind: 'put' | 'acquire' | 'release' | 'remove'
  readonly path: string
  readonly index: number
  readonly items: Readonly<Record<string, string>>
  /** True time. */
  readonly at: number
  /** Who wrote it, and when that was sent. */
  readonly by: Sender
}
export interface Sender {
  readonly name: string
  readonly sentAt: number
}

/** Stands between everybody and Nomad: sees each request, and each write of a variable with the index of its commit, whether or
 *  not anybody is ever told. */
export class Tap {
  readonly #nomad: DevNomad
  readonly #now: () => number
  readonly #requested: (request: Request, by: Sender) => void
  #committed: Committed[] = []

  constructor(nomad: DevNomad, now: () => number, requested: (request: Request, by: Sender) => void) {
    this.#nomad = nomad
    this.#now = now
    this.#requested = requested
  }

  async handle(request: Request, by: Sender): Promise<Answer> {
    this.#requested(request, by)
    const answer = await this.#nomad.handle(request)
    this.#note(request, answer, by)
    return answer
  }

  /** What was committed since the last call, in its order. */
  take(): Committed[] {
    const taken = this.#committed
    this.#committed = []
    return taken.length < 2 ? taken : taken.toSorted((a, b) => a.index - b.index)
  }

  #note({ method, path }: Request, { status, headers, body }: Answer, by: Sender): void {
    if (method === 'GET' || !path.startsWith('/v1/var/') || (status !== 200 && status !== 204)) return
    const query = path.slice(path.indexOf('?'))
    if (query.includes('lock-renew')) return
    const index = Number(headers['X-Nomad-Index'])
    const at = this.#now()
    if (method === 'DELETE') {
      const gone = decodeURIComponent(path.slice('/v1/var/'.length, path.indexOf('?')))
      this.#committed.push({ kind: 'remove', path: gone, index, items: {}, at, by })
      return
    }
    const kind = query.includes('lock-acquire') ? 'acquire' : query.includes('lock-release') ? 'release' : 'put'
    const { Path, Items = {} } = JSON.parse(body) as { Path: string; Items?: Record<string, string> }
    this.#committed.push({ kind, path: Path, index, items: Items, at, by })
  }
}
