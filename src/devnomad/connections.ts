import type { Server, Socket } from 'node:net'

const MESSAGE = 'Your IP is issuing too many concurrent connections, please rate limit your calls\n'
const REFUSAL = `HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: ${MESSAGE.length}\r\nConnection: close\r\n\r\n${MESSAGE}`

/** Refuses connections beyond `most` from one address with a bare 429 and a close, as Nomad's
 *  `limits.http_max_conns_per_client` does (facts §3). 0: no limit. */
export function limitConnections(server: Server, most: number): void {
  const open = new Map<string, number>()
  server.prependListener('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? ''
    const count = (open.get(address) ?? 0) + 1
    if (most > 0 && count > most) {
      socket.end(REFUSAL)
      socket.destroySoon()
      return
    }
    open.set(address, count)
    socket.once('close', () => open.set(address, (open.get(address) ?? 1) - 1))
  })
}
