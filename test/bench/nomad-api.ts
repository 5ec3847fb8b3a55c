import { randomUUID } from 'node:crypto'
import { Wire, type WireAnswer } from './wire.ts'

/** The few calls that are measured bare: what Nomad itself can do, with nothing of ours between. */
export class NomadApi {
  readonly #wire: Wire
  readonly #headers: string

  constructor(address: string, token: string | undefined) {
    this.#wire = new Wire(address)
    this.#headers = token === undefined || token === '' ? '' : `x-nomad-token: ${token}\r\n`
  }

  async list(
    prefix: string,
  ): Promise<{ index: number; variables: { Path: string; CreateIndex: number; ModifyIndex: number }[] }> {
    const answer = await this.#call('GET', `/v1/vars?prefix=${encodeURIComponent(prefix)}`)
    return { index: answer.index, variables: JSON.parse(answer.text) as [] }
  }

  /** ModifyIndex after the write. Throws when it lost the check-and-set. */
  async put(path: string, cas: number): Promise<number> {
    const answer = await this.#call('PUT', `/v1/var/${path}?cas=${cas}`, { Path: path, Items: { state: 'x'.repeat(1_000) } })
    if (answer.status !== 200) throw new Error(`a bare write was answered ${answer.status} ${answer.text}`)
    return (JSON.parse(answer.text) as { ModifyIndex: number }).ModifyIndex
  }

  async remove(path: string): Promise<void> {
    await this.#call('DELETE', `/v1/var/${path}`)
  }

  /** The lock ID; null: somebody else has it. */
  async acquire(path: string): Promise<string | null> {
    const ID = randomUUID()
    const body = { Path: path, Items: { about: 'bench' }, Lock: { ID, TTL: '15s', LockDelay: '1ms' } }
    const { status, text } = await this.#call('PUT', `/v1/var/${path}?lock-acquire`, body)
    if (status !== 200 && status !== 409) throw new Error(`a bare acquire was answered ${status} ${text}`)
    return status === 200 ? ID : null
  }

  async release(path: string, ID: string): Promise<void> {
    const { status, text } = await this.#call('PUT', `/v1/var/${path}?lock-release`, { Path: path, Lock: { ID } })
    if (status !== 200) throw new Error(`a bare release was answered ${status} ${text}`)
  }

  async register(job: object): Promise<void> {
    const { status, text } = await this.#call('PUT', '/v1/jobs', { Job: job })
    if (status !== 200) throw new Error(`a job was answered ${status} ${text}`)
  }

  close(): void {
    this.#wire.close()
  }

  #call(method: string, path: string, body?: object): Promise<WireAnswer> {
    return this.#wire.call(method, path, body, this.#headers)
  }
}
