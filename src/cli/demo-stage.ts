import type { Level } from '../core/scope.ts'
import type { DevNomad, WorkloadEvent } from '../devnomad/devnomad.ts'
import { inFlight, lock, readSemaphores, unlock } from '../keeper/operate.ts'
import { writeJson, type Io } from './io.ts'
import { operate, type Operator } from './operator.ts'
import { Problem } from '../core/errors.ts'

const DEADLINE_MS = 55_000
const LOOK_MS = 100
const SHOWN: Readonly<Partial<Record<WorkloadEvent['event'], string>>> = {
  stopping: 'is stopped by its restart',
  running: 'runs again',
  healthy: 'is healthy',
}

export interface StageOptions {
  readonly json: boolean
  readonly colours: boolean
}

/** Where the demo happens: shows what the workloads truly do, keeps count of it, and checks what is claimed. */
export class Stage {
  /** Tokens in the order in which they were handed out. */
  readonly grants: number[] = []
  /** Indexes of the allocations that were stopped, in order. */
  readonly stops: number[] = []
  readonly down = new Set<number>()
  mostDown = 0
  failed = false
  readonly #nomad: DevNomad
  readonly #address: string
  readonly #io: Io
  readonly #options: StageOptions
  readonly #startedAt: number
  readonly #late = new AbortController()
  #allocations: readonly string[] = []
  #unobserve: () => void = () => undefined

  constructor(nomad: DevNomad, address: string, io: Io, options: StageOptions) {
    this.#nomad = nomad
    this.#address = address
    this.#io = io
    this.#options = options
    this.#startedAt = io.clock.now()
  }

  /** Aborts when the demo has taken too long. */
  get signal(): AbortSignal {
    return this.#late.signal
  }

  allocation(index: number): string {
    return this.#allocations[index] as string
  }

  /** Waits until the job runs; from then on its allocations are watched. */
  async open(): Promise<void> {
    const { clock } = this.#io
    const late = new Problem('internal', `the demo did not end within ${DEADLINE_MS / 1_000} s`)
    clock.sleep(DEADLINE_MS, this.#late.signal).then(
      () => this.#late.abort(late),
      () => undefined,
    )
    await this.until('the job runs', async () => await this.#isDeployed())
    const { body } = await this.#nomad.handle({ method: 'GET', path: '/v1/job/web/allocations' })
    const all = JSON.parse(body) as { ID: string; Name: string }[]
    this.#allocations = all.toSorted((a, b) => a.Name.localeCompare(b.Name)).map(({ ID }) => ID)
    this.#unobserve = this.#nomad.observe((event) => this.#see(event))
  }

  end(): void {
    this.#unobserve()
    this.#late.abort(new Problem('internal', 'the demo is over'))
    const text = this.failed ? 'Not everything was as it should be.' : 'Everything was as it should be.'
    this.#write('end', text, this.failed ? 31 : 32)
  }

  act(text: string): void {
    if (!this.#options.json) this.#io.stdout.write('\n')
    this.#write('act', text, 1)
  }
  say(text: string): void {
    this.#write('say', text)
  }
  check(claim: string, holds: boolean): void {
    this.failed ||= !holds
    this.#write(holds ? 'checked' : 'broken', `${holds ? '✓' : '✗'} ${claim}`, holds ? 32 : 31)
  }

  granted(index: number, token: number): void {
    this.grants.push(token)
    this.#write('granted', `[${index}] is granted, token ${token}`, 36)
  }

  async restart(allocation: string): Promise<void> {
    const path = `/v1/client/allocation/${allocation}/restart`
    const { status, body } = await this.#nomad.handle({ method: 'PUT', path, body: '{}' })
    if (status !== 200) throw new Problem('internal', `the simulated restart failed: ${body}`)
  }

  spoil(index: number): void {
    this.#nomad.setTask(this.allocation(index), { healthy: false })
  }
  mend(index: number): void {
    this.#nomad.setTask(this.allocation(index), { healthy: true })
  }

  /** As `lockkeeper lock` does. Answers with the places that were granted before. */
  async lock(level: Level, reason: string): Promise<string[]> {
    return await this.#operate(async ({ variables, paths, signal }) => {
      const before = await lock(variables, paths, { level, reason, by: 'an operator', until: null }, signal)
      return before.map(({ hold }) => hold.place)
    })
  }

  async unlock(level: Level): Promise<void> {
    await this.#operate(({ variables, paths, signal }) => unlock(variables, paths, level, signal))
  }

  async isUnderWay(level: Level): Promise<boolean> {
    return await this.#operate(
      async ({ variables, paths, signal }) => (await inFlight(variables, paths, level, 0, signal)).length > 0,
    )
  }

  /** Why the semaphore is halted; null: it is not. */
  async halted(): Promise<string | null> {
    return await this.#operate(async ({ variables, paths, signal }) => {
      const [stored] = await readSemaphores(variables, paths, {}, 0, signal)
      return stored === undefined || 'unreadable' in stored.state ? null : (stored.state.halted?.reason ?? null)
    })
  }

  async until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await holds())) {
      await this.#io.clock.sleep(LOOK_MS, this.signal).catch(() => {
        throw new Problem('internal', `in vain waited until ${what}`)
      })
    }
  }

  async #operate<T>(work: (operator: Operator) => Promise<T>): Promise<T> {
    return await operate({ NOMAD_ADDR: this.#address }, undefined, this.#io, work)
  }

  async #isDeployed(): Promise<boolean> {
    const { body } = await this.#nomad.handle({ method: 'GET', path: '/v1/job/web/deployment' })
    return (JSON.parse(body) as { Status: string } | null)?.Status === 'successful'
  }

  #see({ alloc, event }: WorkloadEvent): void {
    const index = this.#allocations.indexOf(alloc)
    const text = SHOWN[event]
    if (index < 0 || text === undefined) return
    if (event === 'stopping') {
      this.stops.push(index)
      this.down.add(index)
      this.mostDown = Math.max(this.mostDown, this.down.size)
    }
    if (event === 'healthy') this.down.delete(index)
    this.#write(event, `[${index}] ${text}`)
  }

  #write(event: string, text: string, colour = 0): void {
    const { stdout, clock } = this.#io
    const seconds = (clock.now() - this.#startedAt) / 1_000
    if (this.#options.json) return writeJson(stdout, { at: Number(seconds.toFixed(1)), event, text, down: [...this.down] })
    const up = this.#allocations.map((_, index) => (this.down.has(index) ? '○' : '●')).join(' ')
    const line = `${seconds.toFixed(1).padStart(5)} s  ${up}  ${text}`
    stdout.write(this.#options.colours && colour > 0 ? `\u001b[${colour}m${line}\u001b[0m\n` : `${line}\n`)
  }
}
