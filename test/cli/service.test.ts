import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { DevNomad, type Listening } from '../../src/devnomad/devnomad.ts'
import { systemClock } from '../../src/keeper/clock.ts'
import { sequentialIds } from '../support/sequential-ids.ts'
import { Binary } from './binary.ts'

/** The program against a simulated Nomad, all over real sockets. */
const binary = new Binary()
beforeAll(() => void binary.build())
afterAll(() => binary.remove())
afterEach(() => binary.endAll())

describe('serve', () => {
  let nomad: DevNomad
  let listening: Listening
  beforeEach(async () => {
    nomad = new DevNomad({ clock: systemClock, newId: sequentialIds() })
    listening = await nomad.listen()
  })
  afterEach(async () => {
    nomad.close()
    await listening.close()
  })
  const serve = () => binary.start(['serve', '--listen', '127.0.0.1:0'], { NOMAD_ADDR: listening.address })

  it('drains on SIGTERM and ends with 0', async () => {
    const running = serve()
    await running.until('stdout', 'listening on')
    await until(() => leases(nomad).then((count) => count === 1))
    running.kill('SIGTERM')
    const ended = await running.ended
    expect(ended).toMatchObject({ code: 0, signal: null })
    expect(ended.stderr).toBe('lockkeeper serve: SIGTERM, closing; a second signal ends at once\n')
    expect(await leases(nomad)).toBe(0)
  })

  it('an address that is taken is one clear line', async () => {
    const env = { NOMAD_ADDR: listening.address, LOCKKEEPER_LISTEN: listening.address.replace('http://', '') }
    const ended = await binary.run(['serve'], env)
    expect(ended.code).toBe(2)
    expect(ended.stderr).toMatch(/^lockkeeper serve: listen EADDRINUSE[^\n]*\n$/)
  })
})

describe('dev, run, lock and status together', () => {
  interface Dev {
    readonly nomad: string
    readonly lockkeeper: string
    readonly allocations: readonly string[]
  }
  const restart =
    "fetch(process.env.NOMAD + '/v1/client/allocation/' + process.env.NOMAD_ALLOC_ID + '/restart', {method: 'PUT', body: '{}'})"
  const COMMAND = [process.execPath, '-e', `${restart}.then((answer) => process.exit(answer.ok ? 0 : 1))`]

  it('one allocation is restarted, the next one waits, an operator shuts the gate, and everybody is told', async () => {
    const running = binary.start(['dev', '--json', '--nomad-port', '0', '--listen', '127.0.0.1:0', '--healthy-after', '1s'])
    await running.until('stdout', '\n')
    const dev = JSON.parse(running.stdout) as Dev
    expect(dev.allocations).toHaveLength(5)
    const env = { NOMAD: dev.nomad, NOMAD_ADDR: dev.nomad, LOCKKEEPER_ADDR: dev.lockkeeper }
    const run = (at: number, ...words: string[]) =>
      binary.run(['run', ...words], { ...env, NOMAD_ALLOC_ID: dev.allocations[at] as string })
    const status = async () => {
      const { stdout, code } = await binary.run(['status', '--json'], env)
      expect(code).toBe(0)
      return (
        JSON.parse(stdout) as {
          semaphores: { holds: { unit: string; phase: string; outcome: string }[]; locked: string | null }[]
        }
      ).semaphores
    }

    // As long as the job comes up, its allocations are down, and those go first: until all are up there is nothing to see.
    await until(async () => (await healthy(dev.nomad)) === 5)
    const first = await run(0, '--wait', '1m', '--', ...COMMAND)
    expect(first.code).toBe(0)
    expect((await status())[0]?.holds).toMatchObject([{ unit: dev.allocations[0], phase: 'observing', outcome: 'done' }])

    const second = await run(1, '--wait', '0', '--', ...COMMAND)
    expect(second.code).toBe(3)
    expect(second.stderr).toContain('waiting, full')

    const locked = await binary.run(['lock', '--job', 'web', '--reason', 'lunch', '--by', 'ada'], env)
    expect(locked).toMatchObject({ code: 0, stderr: '' })
    expect(locked.stdout).toContain(`default/web/api  ${dev.allocations[0]}  observing`)
    await until(async () => (await status())[0]?.locked !== null)
    const third = await run(1, '--wait', '0', '--', ...COMMAND)
    expect(third.code).toBe(4)
    expect(third.stderr).toContain('default/web is locked by ada: lunch')

    running.kill('SIGINT')
    expect(await running.ended).toMatchObject({ code: 0 })
  })
})

it('openapi prints the contract', async () => {
  const ended = await binary.run(['openapi'])
  expect(ended).toMatchObject({ code: 0, stderr: '' })
  expect(JSON.parse(ended.stdout)).toMatchObject({ openapi: '3.1.0', info: { title: 'Lockkeeper' } })
})

async function leases(nomad: DevNomad): Promise<number> {
  const { body } = await nomad.handle({ method: 'GET', path: '/v1/vars?prefix=lockkeeper/leases/' })
  return (JSON.parse(body) as unknown[]).length
}

async function healthy(nomad: string): Promise<number> {
  const answer = await fetch(`${nomad}/v1/job/web/allocations`)
  const all = (await answer.json()) as { DeploymentStatus: { Healthy: boolean } | null }[]
  return all.filter(({ DeploymentStatus }) => DeploymentStatus?.Healthy === true).length
}

/** Asks again and again; the test's own bound ends it. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setImmediate(resolve))
}
