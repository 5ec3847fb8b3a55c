import { connect, type Socket } from 'node:net'

export interface WireAnswer {
  readonly status: number
  readonly index: number
  readonly text: string
}

/** HTTP/1.1 over one connection that stays open, one request at a time, as lean as can be: what is measured is the server, not its
 *  client. For servers on our side only. Rejects when the connection breaks. */
export class Wire {
  readonly #host: string
  readonly #port: number
  #socket: Socket | null = null
  #received: Buffer = Buffer.alloc(0)
  #answered: ((answer: WireAnswer) => void) | null = null
  #failed: (error: Error) => void = () => undefined

  constructor(address: string) {
    const { hostname, port } = new URL(address)
    this.#host = hostname
    this.#port = Number(port === '' ? 80 : port)
  }

  call(method: string, path: string, body?: object, headers = ''): Promise<WireAnswer> {
    return new Promise((resolve, reject) => {
      this.#answered = resolve
      this.#failed = reject
      const text = body === undefined ? '' : JSON.stringify(body)
      const type = body === undefined ? '' : 'content-type: application/json\r\n'
      const head = `${method} ${path} HTTP/1.1\r\nhost: ${this.#host}:${this.#port}\r\n${type}${headers}`
      this.#socket ??= this.#connect()
      this.#socket.write(`${head}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`)
    })
  }

  close(): void {
    this.#socket?.destroy()
  }

  #connect(): Socket {
    const socket = connect({ host: this.#host, port: this.#port, noDelay: true })
    const end = (error?: Error) => {
      if (this.#socket !== socket) return
      this.#socket = null
      this.#received = Buffer.alloc(0)
      if (this.#answered !== null) this.#failed(error ?? new Error('the connection broke'))
      this.#answered = null
    }
    socket.on('data', (chunk: Buffer) => {
      this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk])
      const answer = parse(this.#received)
      if (answer === null) return
      this.#received = Buffer.alloc(0)
      const answered = this.#answered
      this.#answered = null
      answered?.(answer)
    })
    socket.on('error', end)
    socket.on('close', () => end())
    return socket
  }
}

/** The answer, once it is whole. */
function parse(bytes: Buffer): WireAnswer | null {
  const end = bytes.indexOf('\r\n\r\n')
  if (end < 0) return null
  const head = bytes.toString('latin1', 0, end)
  const status = Number(head.slice(9, 12))
  const index = Number(/\r\nx-nomad-index: (\d+)/i.exec(head)?.[1] ?? 0)
  const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1]
  const body = bytes.subarray(end + 4)
  if (length !== undefined) return body.length < Number(length) ? null : { status, index, text: body.toString() }
  if (/\r\ntransfer-encoding: chunked/i.test(head)) {
    const text = unchunked(body)
    return text === null ? null : { status, index, text }
  }
  return { status, index, text: '' }
}

function unchunked(bytes: Buffer): string | null {
  const parts: Buffer[] = []
  for (let at = 0; ;) {
    const end = bytes.indexOf('\r\n', at)
    if (end < 0) return null
    const size = Number.parseInt(bytes.toString('latin1', at, end), 16)
    if (bytes.length < end + 2 + size + 2) return null
    if (size === 0) return Buffer.concat(parts).toString()
    parts.push(bytes.subarray(end + 2, end + 2 + size))
    at = end + 2 + size + 2
  }
}
