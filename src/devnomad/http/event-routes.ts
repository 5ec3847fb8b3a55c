import type { Acl } from '../acl/acl.ts'
import type { Rights } from '../acl/rights.ts'
import type { Event } from '../events/event-buffer.ts'
import type { EventStreams } from '../events/event-stream.ts'
import { Refusal } from '../refusal.ts'
import { namespaceOf, type Answer, type Call } from './exchange.ts'

type Topics = ReadonlyMap<string, ReadonlySet<string>>

const HEADERS = { 'Content-Type': 'application/json', 'Cache-Control': 'no-cache', Connection: 'close' }

/** `GET /v1/event/stream?topic=Variable:*&index=&namespace=` */
export class EventRoutes {
  readonly #streams: EventStreams
  readonly #acl: Acl
  readonly #namespaces: () => readonly string[]

  constructor(streams: EventStreams, acl: Acl, namespaces: () => readonly string[]) {
    this.#streams = streams
    this.#acl = acl
    this.#namespaces = namespaces
  }

  stream(call: Call): Answer {
    if (call.method !== 'GET') throw new Refusal(405, 'Invalid method')
    const text = call.query.get('index') || '0'
    if (!/^\d+$/.test(text)) {
      throw new Refusal(400, `Unable to parse index: strconv.Atoi: parsing ${JSON.stringify(text)}: invalid syntax`)
    }
    const topics = topicsOf(call.query.getAll('topic'))
    const namespace = namespaceOf(call)
    const asked = namespace === '*' ? this.#namespaces() : [namespace]
    const rights = this.#acl.rightsOf(call.token)
    const may = rights !== undefined && asked.every((one) => [...topics.keys()].every((topic) => mayHear(rights, one, topic)))
    const shows = (event: Event): boolean | undefined => {
      const now = this.#acl.rightsOf(call.token)
      if (now === undefined) return undefined
      if (event.Namespace !== '' && !asked.includes(event.Namespace)) return false
      if (!wants(topics, event)) return false
      // Whoever may list the path sees all of it, the ID of its lock too (facts §2).
      return event.Topic !== 'Variable' || now.variable(event.Namespace, event.Key, 'list')
    }
    const { signal } = call
    const stream = may ? this.#streams.open({ index: Number(text), shows, signal }) : this.#streams.silence(signal)
    return { status: 200, headers: HEADERS, body: '', stream }
  }
}

function topicsOf(texts: readonly string[]): Topics {
  const topics = new Map<string, Set<string>>()
  for (const text of texts.length === 0 ? ['*'] : texts) {
    const [topic, key = '*'] = text.split(/:(.*)/s) as [string, string?]
    topics.set(topic, (topics.get(topic) ?? new Set()).add(key || '*'))
  }
  return topics
}

function wants(topics: Topics, event: Event): boolean {
  const keys = [...(topics.get(event.Topic) ?? []), ...(topics.get('*') ?? [])]
  return keys.some((key) => key === '*' || key === event.Key || event.FilterKeys?.includes(key) === true)
}

function mayHear(rights: Rights, namespace: string, topic: string): boolean {
  switch (topic) {
    case 'Allocation':
    case 'Deployment':
    case 'Evaluation':
    case 'Job':
      return rights.namespace(namespace, 'read-job')
    case 'Node':
      return rights.level('node', 'read')
    case 'Variable':
      return rights.anyVariable(namespace)
    default:
      return rights.management
  }
}
