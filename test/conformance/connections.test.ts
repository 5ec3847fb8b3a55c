import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect, it } from 'vitest'
import { nomadUnderTest } from './nomad-under-test.ts'

const MOST = 100

it('the hundred and first connection of one address is refused with a bare 429 and a close', async () => {
  const nomad = await nomadUnderTest()
  const { hostname, port } = new URL(nomad.address)
  const sockets: Socket[] = []
  try {
    for (let i = 0; i < MOST; i++) {
      const socket = connect(Number(port), hostname)
      sockets.push(socket)
      await once(socket, 'connect')
    }
    const chunks: Buffer[] = []
    const last = connect(Number(port), hostname)
    sockets.push(last)
    for await (const chunk of last) chunks.push(chunk as Buffer)
    const answer = Buffer.concat(chunks).toString()
    expect(answer).toMatch(/^HTTP\/1\.1 429 Too Many Requests\r\n/)
    expect(answer).toContain('Your IP is issuing too many concurrent connections, please rate limit your calls\n')
  } finally {
    for (const socket of sockets) socket.destroy()
    await nomad.close()
  }
})
