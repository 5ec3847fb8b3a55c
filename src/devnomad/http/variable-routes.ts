import type { Raft } from '../raft.ts'
import { checkAcquire, checkRelease, checkSet, complete } from '../variables/rules.ts'
import type { Outcome, Variable, VariablesView } from '../variables/table.ts'
import type { Variables } from '../variables/variables.ts'
import { listed, Refusal } from '../refusal.ts'
import { blocking, page } from './blocking.ts'
import { readBody } from './variable-body.ts'
import { content, metadata } from './variable-view.ts'
import { atIndex, demand, json, meta, namespaceOf, text, TEXT_TYPE, type Answer, type Call } from './exchange.ts'

/** `/v1/vars` and `/v1/var/…`. Which answers carry which X-Nomad-Index is as recorded, odd as it is: a conflict of a set
 *  has the ModifyIndex of what is there, one of a lock operation has none. */
export class VariableRoutes {
  readonly #variables: Variables
  readonly #raft: Raft
  readonly #newId: () => string

  constructor(variables: Variables, raft: Raft, newId: () => string) {
    this.#variables = variables
    this.#raft = raft
    this.#newId = newId
  }

  async list(call: Call): Promise<Answer> {
    if (call.method !== 'GET') throw new Refusal(405, 'Invalid method')
    const filter = call.query.get('filter')
    const query = blocking(call, ['variables'])
    if (filter !== null) throw new Refusal(400, badFilter)
    const { rights } = call
    const found = await this.#raft.block(
      query,
      () => ({
        index: this.#view(call).index,
        // Who may not list a path does not see it: 200 all the same, never 403 (facts §1).
        rows: this.#view(call)
          .list(namespaceOf(call), call.query.get('prefix') ?? '')
          .filter(({ namespace, path }) => rights.variable(namespace, path, 'list', true)),
      }),
      call.signal,
    )
    const { items, next } = page(call, found.rows, (row) => `${row.namespace}.${row.path}`)
    return json(
      items.map((row) => metadata(rights.management ? row : unlocked(row))),
      { ...meta(found.index), ...next },
    )
  }

  async one(call: Call, path: string): Promise<Answer> {
    if (path === '') throw new Refusal(400, 'missing variable path')
    switch (call.method) {
      case 'GET':
        return this.#get(call, path)
      case 'PUT':
      case 'POST':
        return this.#write(call, path)
      case 'DELETE':
        return this.#delete(call, path)
      default:
        throw new Refusal(400, 'Invalid method')
    }
  }

  async #get(call: Call, path: string): Promise<Answer> {
    const query = blocking(call, ['variables'])
    const { rights } = call
    demand(rights.variable(namespaceOf(call), path, 'read', true))
    const read = (): { index: number; variable: Variable | undefined } => {
      const view = this.#view(call)
      const variable = view.get(namespaceOf(call), path)
      return { index: variable?.modifyIndex ?? view.index, variable }
    }
    const { index, variable } = await this.#raft.block(query, read, call.signal)
    if (variable === undefined) return text(404, 'variable not found', meta(index))
    // Only the management sees locks (facts §2).
    return json(content(rights.management ? variable : unlocked(variable)), meta(index))
  }

  #write(call: Call, path: string): Answer {
    const operations = ['lock-renew', 'lock-acquire', 'lock-release'].filter((name) => call.query.has(name))
    if (operations.length > 1) throw new Refusal(400, 'multiple lock operations')
    if (operations.length > 0 && call.query.get('cas')) throw new Refusal(400, "CAS can't be used with lock operations")
    switch (operations[0]) {
      case 'lock-renew':
        return this.#renew(call, path)
      case 'lock-acquire':
        return this.#acquire(call, path)
      case 'lock-release':
        return this.#release(call, path)
      case undefined:
      default:
        return this.#set(call, path)
    }
  }

  #set(call: Call, path: string): Answer {
    const body = readBody(call)
    if (Object.keys(body.items ?? {}).length === 0) throw new Refusal(400, 'variable missing required Items object')
    const cas = casOf(call)
    const namespace = body.namespace || namespaceOf(call)
    mayWrite(call, namespace, path, atIndex(0))
    checkSet(path, body)
    const lock = body.lock === null ? null : complete(body.lock, this.#newId)
    return this.#answerSet(call, this.#variables.table.set({ namespace, path, items: body.items, lock, cas }))
  }

  #delete(call: Call, path: string): Answer {
    const write = { namespace: namespaceOf(call), path, items: null, lock: null, cas: casOf(call) }
    mayWrite(call, write.namespace, path, atIndex(0), 'destroy')
    return this.#answerSet(call, this.#variables.table.delete(write))
  }

  #acquire(call: Call, path: string): Answer {
    const body = readBody(call)
    const lock = complete(body.lock ?? { id: '', ttlMs: 0, delayMs: 0 }, this.#newId)
    const namespace = body.namespace || namespaceOf(call)
    mayWrite(call, namespace, path)
    checkAcquire(path, body, lock)
    return answerLock(this.#variables.acquire({ namespace, path, items: body.items, lock, cas: undefined }))
  }

  #release(call: Call, path: string): Answer {
    const body = readBody(call)
    const namespace = body.namespace || namespaceOf(call)
    mayWrite(call, namespace, path)
    checkRelease(path, body)
    const outcome = this.#variables.release(namespace, path, body.lock?.id ?? '')
    return answerLock(outcome.kind === 'done' ? { ...outcome, variable: withoutItems(outcome.variable) } : outcome)
  }

  // Renew reads the namespace of the query alone, unlike all others (facts §1).
  #renew(call: Call, path: string): Answer {
    const lockId = readBody(call).lock?.id ?? ''
    mayWrite(call, namespaceOf(call), path)
    if (lockId === '') throw new Refusal(500, listed(['missing lock ID']))
    const renewed = this.#variables.renew(namespaceOf(call), path, lockId)
    switch (renewed.kind) {
      case 'renewed':
        return json(metadata(renewed.variable))
      case 'missing':
        throw new Refusal(404, "variable doesn't exist")
      case 'unlocked':
        throw new Refusal(409, "variable doesn't hold a lock")
      case 'lost':
        throw new Refusal(409, 'attempting to modify locked variable')
    }
  }

  // A token that may write but not read learns from a conflict that there is one, not what is there.
  #answerSet(call: Call, outcome: Outcome): Answer {
    switch (outcome.kind) {
      case 'done':
        if (outcome.variable === null) return { status: 204, headers: atIndex(outcome.index), body: '' }
        return json(content(outcome.variable), atIndex(outcome.index))
      case 'conflict': {
        const { namespace, path, modifyIndex } = outcome.current
        const mayRead = call.rights.variable(namespace, path, 'read')
        return conflict(mayRead ? outcome.current : { ...outcome.current, items: null }, atIndex(modifyIndex))
      }
      case 'error':
        return text(500, outcome.text, atIndex(0))
    }
  }

  #view(call: Call): VariablesView {
    return this.#variables.view(call.past)
  }
}

const badFilter =
  'failed to create result paginator: failed to read filter expression: 1:2 (1): rule "string": Unterminated string literal'

function casOf(call: Call): number | undefined {
  const cas = call.query.get('cas')
  if (cas === null || cas === '') return undefined
  if (!/^\d+$/.test(cas)) {
    throw new Refusal(400, `can not parse cas: strconv.ParseUint: parsing ${JSON.stringify(cas)}: invalid syntax`)
  }
  return Number(cas)
}

function answerLock(outcome: Outcome): Answer {
  switch (outcome.kind) {
    case 'done':
      return json(outcome.variable === null ? null : content(outcome.variable), atIndex(outcome.index))
    case 'conflict':
      return conflict(outcome.current, {})
    case 'error':
      return text(500, outcome.text, atIndex(0))
  }
}

// JSON, but Nomad calls it text: the status was sent before the type was set.
function conflict(current: Variable, headers: Record<string, string>): Answer {
  return { status: 409, headers: { 'Content-Type': TEXT_TYPE, ...headers }, body: JSON.stringify(content(current)) }
}

function mayWrite(
  call: Call,
  namespace: string,
  path: string,
  headers: Record<string, string> = {},
  capability: 'write' | 'destroy' = 'write',
): void {
  demand(call.rights.variable(namespace, path, capability), headers)
}

const unlocked = (variable: Variable): Variable => ({ ...variable, lock: null })
const withoutItems = (variable: Variable | null): Variable | null => variable && { ...variable, items: null }
