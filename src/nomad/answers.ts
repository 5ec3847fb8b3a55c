import { NomadFault } from '../core/nomad-fault.ts'

/** What an answer means before anybody looks at its body. Nomad's status codes say little: almost everything unexpected is a
 *  500 with a sentence (facts §3). `busy`: the connection limit answered, Nomad saw nothing. `ailing`: try again, elsewhere.
 *  `cut_off`: the client agent that has to answer is away, from all servers alike. */
export type Verdict = 'fine' | 'denied' | 'busy' | 'ailing' | 'cut_off' | 'rejected'

/** Sentences of a cluster without a usable leader, and of a server that lost its way to another. Through a
 *  follower most texts come with `rpc error: ` before them, so they are searched for, never compared (source: helper/pool). */
const AILING = new RegExp(
  [
    'No cluster leader',
    'Not ready to serve consistent reads',
    'leadership (lost|transfer)',
    'not the leader',
    'raft apply failed',
    'raft is already shutdown',
    'timed out enqueuing',
    'EOF$',
    'failed to get conn',
    "lead thread didn't get connection",
    'rpc error: shutdown',
    'connection (refused|reset)',
    'broken pipe',
    'stream (closed|reset)',
    'session (open|shutdown)',
    'i/o (timeout|deadline)',
    'closed network connection',
    'no servers$',
    'failed querying server',
    'No path to region',
  ].join('|'),
)

export function judge(status: number, text: string): Verdict {
  if (status >= 200 && status < 300) return 'fine'
  if (status === 403) return 'denied'
  if (status === 429) return 'busy'
  if (status === 502 || status === 503 || status === 504) return 'ailing'
  // A 404 (measured; source: command/agent/alloc_endpoint.go), but never "does not exist".
  if (text.includes('No path to node')) return 'cut_off'
  if (status >= 500 && AILING.test(text.trim())) return 'ailing'
  return 'rejected'
}

/** Nomad's own words, on one line and cut, without the codes that it nests (`RPC Error:: 400,`) and without what must not
 *  be seen. */
export function sentence(text: string, secrets: readonly string[] = []): string {
  let line = text
    .replace(/rpc error: |RPC Error:: \d+,/g, '')
    .replace(/\s+/g, ' ')
    .trim()
  for (const secret of secrets) if (secret !== '') line = line.replaceAll(secret, '…')
  return line.length > 300 ? `${line.slice(0, 299)}…` : line
}

/** An answer that is Nomad's, and fine, or one that the caller said it understands. */
export interface Answer {
  readonly what: string
  readonly status: number
  /** X-Nomad-Index; null when there is none. */
  readonly index: number | null
  readonly nextToken: string | null
  readonly text: string
}

/** The body as JSON; throws NomadFault `rejected` when it is none. Go by status, not by content type: a 409 calls its JSON
 *  text/plain (facts §1). */
export function bodyOf(answer: Answer): unknown {
  try {
    return JSON.parse(answer.text)
  } catch {
    throw new NomadFault('rejected', `${answer.what}: expected JSON in Nomad's answer`)
  }
}
