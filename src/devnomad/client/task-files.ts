import { milliseconds, type Identity, type Task as TaskSpec } from '../cluster/shapes.ts'
import { NOT_RUNNING } from './task.ts'
import { TemplateManager, type TemplateSeams } from './template-manager.ts'

export interface TaskFilesSeams extends Omit<TemplateSeams, 'rendered'> {
  readonly issue: (identity: Identity) => string
}

/** The files that Nomad writes for one task: its directories, identities, Vault token and rendered templates (facts §7, §8,
 *  §9). */
export class TaskFiles {
  readonly #seams: TaskFilesSeams
  readonly #spec: TaskSpec
  readonly #secrets: string
  readonly #renewals = new Set<() => void>()
  #templates: TemplateManager | undefined
  #begin: (() => void) | undefined
  #vaultTokens = 0

  constructor(spec: TaskSpec, seams: TaskFilesSeams) {
    this.#seams = seams
    this.#spec = spec
    this.#secrets = `/${spec.Name}/secrets`
    for (const name of ['', '/local', '/private', '/secrets', '/tmp']) seams.files.directory(`/${spec.Name}${name}`)
  }

  /** Before each start: identities are written anew. Before the first, all templates must have been rendered; `begin` is
   *  called when they have. */
  prepare(begin: () => void): void {
    this.#writeIdentities()
    if (this.#templates?.rendered === true) return begin()
    this.#begin = begin
    if (this.#templates !== undefined) return
    this.#seams.files.write(`${this.#secrets}/.nomad-mount`, '')
    if (this.#vaultTokens === 0) this.#writeVaultToken()
    this.#attach()
  }

  close(): void {
    this.#begin = undefined
    this.#detach()
    this.#templates = undefined
  }

  /** The agent ends: what it meant to do is lost, and nobody listens at the task's socket. */
  detach(): void {
    if (this.#templates === undefined) return
    this.#detach()
    this.#seams.files.remove(`${this.#secrets}/api.sock`)
  }

  /** The agent is there again, and does what it does before a start, though the process runs on. */
  restore(): void {
    if (this.#templates === undefined) return
    this.#writeIdentities()
    this.#attach()
  }

  /** Vault did not renew the token: there is a new one. */
  renewVaultToken(): void {
    const { Vault } = this.#spec
    const task = this.#seams.task()
    if (Vault === null || this.#templates === undefined) return
    this.#writeVaultToken()
    const text = 'Vault: new Vault token acquired'
    if (Vault.ChangeMode === 'restart' && task.restartable) void task.restart(text)
    if (Vault.ChangeMode === 'signal') this.#signal('Vault', Vault.ChangeSignal, text)
  }

  #attach(): void {
    this.#seams.files.write(`${this.#secrets}/api.sock`, '', 'Srw-rw-rw-')
    const rendered = (): void => {
      const begin = this.#begin
      this.#begin = undefined
      begin?.()
    }
    this.#templates = new TemplateManager(this.#spec.Templates ?? [], { ...this.#seams, rendered })
    this.#templates.start()
  }

  #detach(): void {
    this.#templates?.close()
    this.#cancelRenewals()
  }

  #cancelRenewals(): void {
    for (const cancel of this.#renewals) cancel()
    this.#renewals.clear()
  }

  #writeIdentities(): void {
    this.#cancelRenewals()
    for (const identity of [this.#spec.Identity, ...(this.#spec.Identities ?? [])]) this.#write(identity)
  }

  // The file is always fresh; who is told of it is another matter.
  #write(identity: Identity): void {
    const name = identity.Name === 'default' ? 'nomad_token' : `nomad_${identity.Name}.jwt`
    if (identity.File) this.#seams.files.write(`${this.#secrets}/${name}`, this.#seams.issue(identity))
    if (identity.TTL <= 0 || (!identity.File && identity.ChangeMode === 'noop')) return
    const cancel = this.#seams.timers.after(milliseconds(identity.TTL) / 2, () => {
      this.#renewals.delete(cancel)
      this.#write(identity)
      this.#renewed(identity)
    })
    this.#renewals.add(cancel)
  }

  // At once, without a splay. What meets no process kills the task (facts §8).
  #renewed({ Name, ChangeMode, ChangeSignal }: Identity): void {
    const task = this.#seams.task()
    const who = `Identity[${Name}]`
    if (ChangeMode === 'restart') {
      if (task.restartable) void task.restart(`${who}: new token acquired`)
      else void task.kill(`${who}: failed to restart: ${NOT_RUNNING}`)
    }
    if (ChangeMode === 'signal') this.#signal(who, ChangeSignal, `${who}: new Identity token acquired`)
  }

  #signal(who: string, signal: string, text: string): void {
    const task = this.#seams.task()
    if (task.alive) task.signal(signal, text)
    else void task.kill(`${who}: failed to send signal: ${NOT_RUNNING}`)
  }

  #writeVaultToken(): void {
    if (this.#spec.Vault === null) return
    this.#vaultTokens += 1
    if (this.#spec.Vault.DisableFile) return
    this.#seams.files.write(`${this.#secrets}/vault_token`, `hvs.${this.#seams.env['NOMAD_ALLOC_ID']}.${this.#vaultTokens}`)
  }
}
