// The resource that a shared semaphore protects: it refuses a token that is lower than one it has seen.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { append, type FencedLine } from './journal.ts'

export const FENCED = 'fenced.jsonl'

export interface FencedLog {
  readonly address: string
  close(): void
}

export async function startFencedLog(folder: string): Promise<FencedLog> {
  const highest = new Map<string, number>()
  const server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (part: string) => (text += part))
    request.on('end', () => {
      const asked = JSON.parse(text) as Omit<FencedLine, 'at' | 'accepted'>
      const accepted = asked.token >= (highest.get(asked.name) ?? 0)
      if (accepted) highest.set(asked.name, asked.token)
      append<FencedLine>(folder, FENCED, { ...asked, accepted })
      response.writeHead(accepted ? 200 : 409).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
