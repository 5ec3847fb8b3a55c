import { DevNomad } from '../../src/devnomad/devnomad.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { sequentialIds } from '../support/sequential-ids.ts'

/** The suite's subject, over HTTP: the double in virtual time, or the real one at LOCKKEEPER_TEST_NOMAD_ADDR. */
export interface NomadUnderTest {
  readonly address: string
  readonly real: boolean
  /** Waits for an answer, and lets time pass until it is there. */
  during<T>(work: Promise<T>): Promise<T>
  /** Asks again, letting time pass, until the answer satisfies; gives up after `limitMs`. */
  until<T>(ask: () => Promise<T>, satisfies: (answer: T) => boolean, limitMs?: number): Promise<T>
  close(): Promise<void>
}

const STEP_MS = 50

export async function nomadUnderTest(): Promise<NomadUnderTest> {
  const address = process.env['LOCKKEEPER_TEST_NOMAD_ADDR']
  if (address !== undefined) return realNomad(address)
  const clock = new ManualClock()
  const nomad = new DevNomad({ clock, newId: sequentialIds() })
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
    during,
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

function realNomad(address: string): NomadUnderTest {
  return {
    address,
    real: true,
    during: (work) => work,
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
