import type { Raft } from '../raft.ts'
import type { Identities } from './identities.ts'
import { parsePolicy, type Rules } from './policy.ts'
import { ALL_RIGHTS, Rights, type Claim } from './rights.ts'

export interface JobAcl {
  readonly Namespace: string
  readonly JobID: string
  readonly Group: string
  readonly Task: string
}
export interface Policy {
  readonly Name: string
  readonly Description: string
  readonly Rules: string
  readonly JobACL: JobAcl | null
  readonly CreateIndex: number
  readonly ModifyIndex: number
}
export interface Token {
  readonly AccessorID: string
  readonly SecretID: string
  readonly Name: string
  readonly Type: 'management' | 'client'
  readonly Policies: readonly string[] | null
  readonly CreateTime: string
  readonly CreateIndex: number
  readonly ModifyIndex: number
}

/** Who sends a request. */
export type Sender =
  | { readonly kind: 'token'; readonly token: Token }
  | { readonly kind: 'workload'; readonly claim: Claim }
  | { readonly kind: 'nobody' }
  | { readonly kind: 'stranger' }

export interface AclSeams {
  readonly enabled: boolean
  readonly raft: Raft
  readonly identities: Identities
  readonly newId: () => string
  readonly wall: () => number
}

/** Policies and tokens, and what they come to for a request. Off, everybody may do everything. */
export class Acl {
  readonly enabled: boolean
  readonly #seams: AclSeams
  readonly #policies = new Map<string, Policy & { readonly parsed: Rules }>()
  readonly #tokens = new Map<string, Token>()
  #bootstrapped = 0

  constructor(seams: AclSeams) {
    this.enabled = seams.enabled
    this.#seams = seams
  }

  /** The first management token; once only: then the index at which it was. */
  bootstrap(secret?: string): Token | { readonly doneAt: number } {
    if (this.#bootstrapped > 0) return { doneAt: this.#bootstrapped }
    const token = this.putToken({ Name: 'Bootstrap Token', Type: 'management', Policies: null }, secret)
    this.#bootstrapped = token.CreateIndex
    return token
  }

  /** Throws an Error that says what is wrong with the rules. */
  putPolicy(policy: Pick<Policy, 'Name' | 'Description' | 'Rules' | 'JobACL'>): number {
    const parsed = parsePolicy(policy.Rules)
    const index = this.#seams.raft.commit('acl')
    const CreateIndex = this.#policies.get(policy.Name)?.CreateIndex ?? index
    this.#policies.set(policy.Name, { ...policy, parsed, CreateIndex, ModifyIndex: index })
    return index
  }

  deletePolicy(name: string): number {
    this.#policies.delete(name)
    return this.#seams.raft.commit('acl')
  }

  policy(name: string): Policy | undefined {
    return this.#policies.get(name)
  }

  get policies(): readonly Policy[] {
    return [...this.#policies.values()].sort((a, b) => (a.Name < b.Name ? -1 : 1))
  }

  putToken(wish: Pick<Token, 'Name' | 'Type' | 'Policies'>, secret = this.#seams.newId()): Token {
    const index = this.#seams.raft.commit('acl')
    const CreateTime = new Date(this.#seams.wall()).toISOString()
    const ids = { AccessorID: this.#seams.newId(), SecretID: secret }
    const token: Token = { ...ids, ...wish, CreateTime, CreateIndex: index, ModifyIndex: index }
    this.#tokens.set(token.SecretID, token)
    return token
  }

  tokenOf(accessorId: string): Token | undefined {
    return [...this.#tokens.values()].find((token) => token.AccessorID === accessorId)
  }

  deleteToken(token: Token): number {
    this.#tokens.delete(token.SecretID)
    return this.#seams.raft.commit('acl')
  }

  sender(secret: string): Sender {
    if (secret === '') return { kind: 'nobody' }
    const token = this.#tokens.get(secret)
    if (token !== undefined) return { kind: 'token', token }
    const claim = this.#seams.identities.verify(secret)
    return claim === undefined ? { kind: 'stranger' } : { kind: 'workload', claim }
  }

  /** Undefined: the token is not one of ours. Without a token there is only what the policy `anonymous` allows. */
  rightsOf(secret: string): Rights | undefined {
    if (!this.enabled) return ALL_RIGHTS
    const sender = this.sender(secret)
    switch (sender.kind) {
      case 'stranger':
        return undefined
      case 'nobody':
        return this.#rights(['anonymous'])
      case 'workload':
        return this.rightsOfWorkload(sender.claim)
      case 'token':
        return sender.token.Type === 'management' ? ALL_RIGHTS : this.#rights(sender.token.Policies ?? [])
    }
  }

  /** The policies attached to the workload's job, group or task, or to its namespace as a whole. */
  rightsOfWorkload(claim: Claim): Rights {
    if (!this.enabled) return ALL_RIGHTS
    const attached = [...this.#policies.values()].filter(({ JobACL: to }) => {
      if (to === null || to.Namespace !== claim.namespace) return false
      if (to.JobID !== '' && to.JobID !== claim.job) return false
      return (to.Group === '' || to.Group === claim.group) && (to.Task === '' || to.Task === claim.task)
    })
    return new Rights(
      false,
      attached.map(({ parsed }) => parsed),
      claim,
    )
  }

  // A policy that does not exist gives nothing.
  #rights(names: readonly string[]): Rights {
    return new Rights(
      false,
      names.flatMap((name) => this.#policies.get(name)?.parsed ?? []),
    )
  }
}
