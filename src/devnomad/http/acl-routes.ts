import type { Acl, JobAcl, Policy, Token } from '../acl/acl.ts'
import type { Keyring } from '../acl/keyring.ts'
import type { Raft } from '../raft.ts'
import { listed, Refusal } from '../refusal.ts'
import { atIndex, bodyOf, demand, json, meta, text, type Answer, type Call } from './exchange.ts'

/** `/v1/acl/…`, the published keys and their rotation. */
export class AclRoutes {
  readonly #acl: Acl
  readonly #keyring: Keyring
  readonly #raft: Raft

  constructor(acl: Acl, keyring: Keyring, raft: Raft) {
    this.#acl = acl
    this.#keyring = keyring
    this.#raft = raft
  }

  bootstrap(call: Call): Answer {
    writes(call)
    this.#on()
    const { BootstrapSecret: secret } = call.body === '' ? {} : bodyOf<{ BootstrapSecret?: string }>(call)
    const done = this.#acl.bootstrap(secret)
    if ('doneAt' in done) throw new Refusal(400, `ACL bootstrap already done (reset index: ${done.doneAt})`)
    return json(tokenView(done), atIndex(done.CreateIndex))
  }

  policies(call: Call): Answer {
    this.#on()
    const sender = this.#acl.sender(call.token)
    const own = sender.kind === 'token' ? (sender.token.Policies ?? []) : []
    const seen = this.#acl.policies.filter(({ Name }) => call.rights.management || own.includes(Name))
    return json(
      seen.map(({ Rules: _rules, ...stub }) => stub),
      meta(this.#raft.tableIndex('acl')),
    )
  }

  policy(call: Call, name: string): Answer {
    this.#on()
    if (call.method === 'GET') {
      const sender = this.#acl.sender(call.token)
      demand(call.rights.management || (sender.kind === 'token' && sender.token.Policies?.includes(name) === true))
      const found = this.#acl.policy(name)
      if (found === undefined) throw new Refusal(404, 'ACL policy not found')
      return json(policyView(found), meta(found.ModifyIndex))
    }
    demand(call.rights.management)
    if (call.method === 'DELETE') return { status: 200, headers: atIndex(this.#acl.deletePolicy(name)), body: '' }
    writes(call)
    const wish = bodyOf<{ Name?: string; Description?: string; Rules?: string; JobACL?: Partial<JobAcl> | null }>(call)
    if (wish.Name !== name) throw new Refusal(400, 'ACL policy name does not match request path')
    const to = wish.JobACL
    const JobACL = to ? { Namespace: '', JobID: '', Group: '', Task: '', ...to } : null
    try {
      const index = this.#acl.putPolicy({ Name: name, Description: wish.Description ?? '', Rules: wish.Rules ?? '', JobACL })
      return { status: 200, headers: atIndex(index), body: '' }
    } catch (error) {
      const why = `failed to parse rules: ${(error as Error).message}`
      throw new Refusal(400, `policy 0 invalid: ${listed([why])}`)
    }
  }

  tokens(call: Call): Answer {
    this.#on()
    demand(call.rights.management)
    writes(call)
    const wish = bodyOf<{ Name?: string; Type?: string; Policies?: string[] | null }>(call)
    const wrong: string[] = []
    if (wish.Type !== 'client' && wish.Type !== 'management') wrong.push('token type must be client or management')
    if (wish.Type === 'client' && !wish.Policies?.length) wrong.push('client token missing policies or roles')
    if (wish.Type === 'management' && wish.Policies?.length) {
      wrong.push('management token cannot be associated with policies or roles')
    }
    if (wrong.length > 0) throw new Refusal(400, `token 0 invalid: ${listed(wrong)}`)
    const Type = wish.Type as Token['Type']
    const token = this.#acl.putToken({ Name: wish.Name ?? '', Type, Policies: wish.Policies ?? null })
    return json(tokenView(token), atIndex(token.CreateIndex))
  }

  token(call: Call, accessor: string): Answer {
    this.#on()
    if (accessor === 'self') return this.#self(call)
    const found = this.#acl.tokenOf(accessor)
    const sender = this.#acl.sender(call.token)
    demand(call.rights.management || (call.method === 'GET' && sender.kind === 'token' && sender.token === found))
    if (found === undefined) throw new Refusal(404, 'ACL token not found', meta(this.#raft.tableIndex('acl')))
    if (call.method === 'DELETE') return { status: 200, headers: atIndex(this.#acl.deleteToken(found)), body: '' }
    return json(tokenView(found), meta(found.ModifyIndex))
  }

  /** No token needed. */
  keys(): Answer {
    return json({ keys: this.#keyring.published }, meta(this.#raft.tableIndex('keyring')))
  }

  rotate(call: Call): Answer {
    writes(call)
    demand(call.rights.management)
    this.#keyring.rotate()
    return json({ Key: null }, atIndex(this.#raft.commit('keyring')))
  }

  // A workload identity is no token of the table: 404 (facts §7).
  #self(call: Call): Answer {
    const sender = this.#acl.sender(call.token)
    switch (sender.kind) {
      case 'token':
        return json(tokenView(sender.token), meta(sender.token.ModifyIndex))
      case 'workload':
        return text(404, 'ACL token not found', meta(0))
      case 'nobody':
        return json(tokenView(ANONYMOUS), meta(0))
      case 'stranger':
        if (!UUID.test(call.token)) throw new Refusal(500, NO_TOKEN)
        throw new Refusal(403, 'Permission denied')
    }
  }

  #on(): void {
    if (!this.#acl.enabled) throw new Refusal(400, 'ACL support disabled')
  }
}

// Only this call takes what is no UUID for a broken identity, with a 500 (measured).
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const NO_TOKEN = 'failed to parse signed token: go-jose/go-jose: compact JWS format must have three parts'

const ANONYMOUS: Token = {
  AccessorID: 'anonymous',
  SecretID: '',
  Name: 'Anonymous Token',
  Type: 'client',
  Policies: ['anonymous'],
  CreateTime: '0001-01-01T00:00:00Z',
  CreateIndex: 0,
  ModifyIndex: 0,
}

function tokenView(token: Token): object {
  return { ExpirationTTL: '', ...token, Roles: null, Global: token.Type === 'management', Hash: null, ExpirationTime: null }
}

function policyView({ Name, Description, Rules, JobACL, CreateIndex, ModifyIndex }: Policy): object {
  return { Name, Description, Rules, JobACL, CreateIndex, ModifyIndex, Hash: null }
}

function writes(call: Call): void {
  if (call.method !== 'PUT' && call.method !== 'POST') throw new Refusal(405, 'Invalid method')
}
