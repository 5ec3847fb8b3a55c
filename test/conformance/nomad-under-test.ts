import { DevNomad } from '../../src/devnomad/devnomad.ts'
import { ask } from './exchange.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { sequentialIds } from '../support/sequential-ids.ts'

/** The suite's subject, over HTTP: the double in virtual time, or the real one at LOCKKEEPER_TEST_NOMAD_ADDR. */
export interface NomadUnderTest {
  readonly address: string
  readonly real: boolean
  /** The management's token; empty without ACLs. */
  readonly token: string
  /** A workload identity of a running task of the job `chk`, which copies its own to `alloc/data` where it is a real one. */
  identity(alloc: string, task: string, name: string): Promise<string>
  /** Waits for an answer, and lets time pass until it is there. */
  during<T>(work: Promise<T>): Promise<T>
  /** Asks again, letting time pass, until the answer satisfies; gives up after `limitMs`. */
  until<T>(ask: () => Promise<T>, satisfies: (answer: T) => boolean, limitMs?: number): Promise<T>
  /** Lets time pass: in the double's clock, or truly. */
  pass(ms: number): Promise<void>
  close(): Promise<void>
}

const STEP_MS = 50
const TOKEN = process.env['LOCKKEEPER_TEST_NOMAD_TOKEN'] ?? ''

/** Whether there is one with ACLs: the double always, the real one when its management token is given. */
export const hasAcl = process.env['LOCKKEEPER_TEST_NOMAD_ADDR'] === undefined || TOKEN !== ''

export async function nomadUnderTest(options: { readonly acl?: boolean } = {}): Promise<NomadUnderTest> {
  const address = process.env['LOCKKEEPER_TEST_NOMAD_ADDR']
  if (address !== undefined) return realNomad(address)
  const clock = new ManualClock()
  const nomad = new DevNomad({ clock, newId: sequentialIds(), nodes: [], ...options })
  // As much as a machine has.
  for (const name of ['node-1', 'node-2', 'node-3']) nomad.addNode(name, { memoryMb: 64_000 })
  const token = options.acl === true ? secretOf(nomad.acl.bootstrap()) : ''
  const server = await nomad.listen()
  const during = async <T>(work: Promise<T>): Promise<T> => {
    let over = false
    const done = (): void => {
      over = true
    }
    work.then(done, done)
    while (!over) await clock.advance(STEP_MS)
    return work
  }
  return {
    address: server.address,
    real: false,
    token,
    identity: async (alloc, task, name) => nomad.identity(alloc, task, name),
    during,
    pass: (ms) => clock.advance(ms),
    until: async (ask, satisfies, limitMs = 60_000) => {
      for (let passed = 0; passed < limitMs; passed += STEP_MS) {
        const answer = await ask()
        if (satisfies(answer)) return answer
        await clock.advance(STEP_MS)
      }
      throw new Error(`not within ${limitMs} ms`)
    },
    close: async () => {
      nomad.close()
      await server.close()
      await clock.advance(0)
      if (clock.pending > 0) throw new Error(`${clock.pending} timers are left`)
    },
  }
}

const secretOf = (token: object): string => (token as { SecretID: string }).SecretID

function realNomad(address: string): NomadUnderTest {
  return {
    address,
    real: true,
    token: TOKEN,
    identity: async (alloc, _task, name) => {
      const answer = await ask(address, {
        method: 'GET',
        path: `/v1/client/fs/cat/${alloc}?path=/alloc/data/${name}.jwt`,
        body: null,
      })
      return String(answer.body)
    },
    during: (work) => work,
    pass: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    until: async (ask, satisfies, limitMs = 60_000) => {
      const end = Date.now() + limitMs
      for (;;) {
        const answer = await ask()
        if (satisfies(answer)) return answer
        if (Date.now() > end) throw new Error(`not within ${limitMs} ms`)
        await new Promise((resolve) => setTimeout(resolve, STEP_MS))
      }
    },
    close: async () => {},
  }
}
