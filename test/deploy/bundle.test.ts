import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { VERSION } from '../../src/version.ts'
import { Binary } from '../cli/binary.ts'
import { StubService } from '../shim/stub-service.ts'

const bundle = new Binary()
beforeAll(() => void bundle.bundle())
afterAll(() => bundle.remove())
afterEach(() => bundle.endAll())

it('the one file tells its version, and what each verb is for', async () => {
  expect(await bundle.run(['--version'])).toMatchObject({ code: 0, stdout: `lockkeeper ${VERSION}\n` })
  expect((await bundle.run(['serve', '--help'])).stdout).toContain('usage: lockkeeper serve')
})

it('C3.15 the one file runs a command inside a hold, and a user’s mistake is one line', async () => {
  const stub = await new StubService().listen()
  const env = { LOCKKEEPER_ADDR: stub.address, NOMAD_ALLOC_ID: 'a-1' }
  const ended = await bundle.run(['run', '--', 'printf', '%s', 'x && y'], env)
  const refused = await bundle.run(['run', '--wait', 'soon', '--', 'true'], env)
  await stub.close()
  expect(ended).toEqual({ code: 0, signal: null, stdout: 'x && y', stderr: '' })
  expect(refused.code).toBe(2)
  expect(refused.stderr).toMatch(/^lockkeeper run: [^\n]*\n$/)
})

it('the one file is a replica, before Nomad over HTTP, and shows and locks what is there', async () => {
  const dev = bundle.start(['dev', '--nomad-only', '--json', '--nomad-port', '0'])
  await dev.until('stdout', '\n')
  const { nomad } = JSON.parse(dev.stdout) as { nomad: string }
  const replica = bundle.start(['serve', '--listen', '127.0.0.1:0'], { NOMAD_ADDR: nomad })
  await replica.until('stdout', 'listening on')
  const env = { NOMAD_ADDR: nomad, LOCKKEEPER_ADDR: /http:\/\/127\.0\.0\.1:\d+/.exec(replica.stdout)?.[0] ?? '' }
  expect(await bundle.run(['lock', '--job', 'web', '--reason', 'lunch'], env)).toMatchObject({ code: 0, stderr: '' })
  const status = await bundle.run(['status', '--json'], env)
  expect(JSON.parse(status.stdout)).toMatchObject({ locks: [{ reason: 'lunch' }] })
  replica.kill('SIGTERM')
  expect(await replica.ended).toMatchObject({ code: 0 })
})
