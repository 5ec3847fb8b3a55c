import type { Clock } from '../keeper/ports.ts'
import { configFault } from './client/dev-config.ts'
import { canonical, jobFaults } from './cluster/job-spec.ts'
import type { DevNomad, JobSpec, Target } from './devnomad.ts'
import { Refusal } from './refusal.ts'
import { duration, flag, number, object, oneOf, text, Wrong, type Fields } from './scenario-fields.ts'

/** One thing that happens, so long after the start. */
export interface Step {
  readonly atMs: number
  /** In the words of the file. */
  readonly says: string
  play(nomad: DevNomad): Promise<void>
}

type Play = (nomad: DevNomad) => void | Promise<void>

/** Reads a scenario: a JSON list of steps like `{"at": "10s", "do": "crash", "job": "web", "group": "api"}`, in any order.
 *  Throws a ScenarioFault that names every step that is wrong, and what is wrong with it. */
export function readScenario(file: string): readonly Step[] {
  const list = parsed(file)
  if (!Array.isArray(list)) throw new ScenarioFault(['it is no list of steps'])
  const wrong: string[] = []
  const steps = list.flatMap((raw: unknown, at): Step[] => {
    try {
      return [stepOf(raw)]
    } catch (error) {
      if (!(error instanceof Wrong)) throw error
      wrong.push(`step ${at + 1}: ${error.message}`)
      return []
    }
  })
  if (wrong.length > 0) throw new ScenarioFault(wrong)
  return steps.toSorted((a, b) => a.atMs - b.atMs)
}

export interface Stage {
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Told of each step when it has been played, with what went wrong if something did: then the next one follows all the same. */
  readonly tell: (step: Step, problem: string | undefined) => void
}

/** Plays the steps, each at its time after now. Resolves after the last one, or when the signal aborts. */
export async function playScenario(steps: readonly Step[], nomad: DevNomad, { clock, signal, tell }: Stage): Promise<void> {
  const start = clock.now()
  for (const step of steps) {
    try {
      await clock.sleep(Math.max(0, start + step.atMs - clock.now()), signal)
    } catch (error) {
      if (signal.aborted) return
      throw error
    }
    try {
      await step.play(nomad)
      tell(step, undefined)
    } catch (error) {
      tell(step, (error as Error).message)
    }
  }
}

/** What is wrong with a scenario, one line each. */
export class ScenarioFault extends Error {
  readonly faults: readonly string[]

  constructor(faults: readonly string[]) {
    super(`the scenario cannot be played: ${faults.join('; ')}`)
    this.name = 'ScenarioFault'
    this.faults = faults
  }
}

interface Action {
  /** For the README. */
  readonly tells: string
  readonly takes: readonly string[]
  readonly read: (fields: Fields) => Play
}

/** What a step can do. */
export const ACTIONS: Readonly<Record<string, Action>> = {
  registerJob: {
    tells: "a job in Nomad's JSON, or a new version of it",
    takes: ['job'],
    read: (fields) => {
      const job = object(fields, 'job') as unknown as JobSpec
      if (typeof job.ID !== 'string' || job.ID === '') throw new Wrong("job: it needs an ID, as in Nomad's JSON")
      const wrong = faultsOf(job)
      if (wrong.length > 0) throw new Wrong(`job: ${wrong.join(', ')}`)
      return (nomad) => nomad.registerJob(job)
    },
  },
  stopJob: {
    tells: 'as `nomad job stop`',
    takes: ['job', 'namespace'],
    read: (fields) => {
      const path = `/v1/job/${text(fields, 'job')}?namespace=${text(fields, 'namespace', 'default')}`
      return (nomad) => done(nomad, 'DELETE', path)
    },
  },
  setTask: {
    tells: 'how the tasks of an allocation or a group behave from their next start on; with `now` at once',
    takes: ['allocation', 'job', 'group', 'namespace', 'config', 'now'],
    read: (fields) => {
      const target = targetOf(fields)
      const config = object(fields, 'config')
      const wrong = configFault(config)
      if (wrong !== undefined) throw new Wrong(`config: ${wrong}`)
      const now = flag(fields, 'now')
      return (nomad) => nomad.setTask(target, config, { now })
    },
  },
  crash: {
    tells: 'a process ends by itself: in the allocation, or in the one of the group with this `index` (0)',
    takes: ['allocation', 'job', 'group', 'namespace', 'index', 'task', 'exitCode'],
    read: (fields) => {
      const target = targetOf(fields)
      const index = number(fields, 'index', 0)
      const task = fields['task'] === undefined ? undefined : text(fields, 'task')
      const exitCode = number(fields, 'exitCode', 137)
      return async (nomad) => nomad.crash(await allocationOf(nomad, target, index), task, exitCode)
    },
  },
  node: {
    tells:
      '`is`: `down`, `up`; its agent `silent`, `hanging`, `speaking`, `restarting` (`for`); `away` (given up, though all on it goes on), `back`',
    takes: ['name', 'is', 'for'],
    read: (fields) => {
      const name = text(fields, 'name')
      const is = oneOf(fields, 'is', ['down', 'up', 'silent', 'hanging', 'speaking', 'restarting', 'away', 'back'])
      const ms = is === 'restarting' ? duration(fields, 'for') : 0
      return (nomad) => {
        const node = nomad.node(name)
        const plays = {
          down: () => node.down(),
          up: () => node.up(),
          silent: () => node.silence('refuses'),
          hanging: () => node.silence('hangs'),
          speaking: () => node.speak(),
          restarting: () => node.restartAgent(ms),
          away: () => node.away(),
          back: () => node.back(),
        }
        plays[is]()
      }
    },
  },
  addNode: {
    tells: 'one more, with as much memory as anybody likes unless said otherwise',
    takes: ['name', 'memoryMb'],
    read: (fields) => {
      const name = text(fields, 'name')
      const memory = fields['memoryMb'] === undefined ? {} : { memoryMb: number(fields, 'memoryMb') }
      return (nomad) => nomad.addNode(name, memory)
    },
  },
  leader: {
    tells: '`does`: `fail`, `stall` (all is done late), `stallAndFail`, `depose` (it answers reads from the past)',
    takes: ['does', 'for'],
    read: (fields) => {
      const does = oneOf(fields, 'does', ['fail', 'stall', 'stallAndFail', 'depose'])
      const ms = duration(fields, 'for')
      return ({ leader }) => {
        if (does === 'fail') leader.fail(ms)
        else if (does === 'depose') leader.depose(ms)
        else leader.stall(ms, does === 'stall' ? 'late' : 'fails')
      }
    },
  },
  servers: {
    tells: 'what autopilot says of them: `healthy` or not',
    takes: ['healthy'],
    read: (fields) => {
      const healthy = flag(fields, 'healthy')
      return (nomad) => nomad.setServersHealthy(healthy)
    },
  },
  write: {
    tells: 'a variable',
    takes: ['path', 'items', 'namespace'],
    read: (fields) => {
      const path = `/v1/var/${text(fields, 'path')}?namespace=${text(fields, 'namespace', 'default')}`
      const Items = object(fields, 'items')
      if (Object.values(Items).some((value) => typeof value !== 'string')) throw new Wrong('items: its values must be texts')
      return (nomad) => done(nomad, 'PUT', path, { Items })
    },
  },
  fault: {
    tells:
      'the next `times` requests (1) that fit meet it. `kind`: `drop`, `drop-answer`, `delay` (`for`), `answer` (`status`, `body`; with `done` after it was done)',
    takes: ['kind', 'method', 'path', 'times', 'for', 'status', 'body', 'done'],
    read: (fields) => {
      const kind = oneOf(fields, 'kind', ['drop', 'drop-answer', 'delay', 'answer'])
      const method = text(fields, 'method', '')
      const path = text(fields, 'path', '')
      const times = number(fields, 'times', 1)
      const fault =
        kind === 'delay'
          ? { kind, ms: duration(fields, 'for') }
          : kind === 'answer'
            ? { kind, status: number(fields, 'status', 500), body: text(fields, 'body', ''), done: flag(fields, 'done') }
            : { kind }
      return ({ faults }) =>
        faults.next((request) => (method === '' || request.method === method) && request.path.startsWith(path), fault, times)
    },
  },
  endEventStreams: {
    tells: 'all of them; with `forget` nothing of what they missed is remembered',
    takes: ['forget'],
    read: (fields) => {
      const forget = flag(fields, 'forget')
      return (nomad) => nomad.endEventStreams({ forget })
    },
  },
}

function stepOf(raw: unknown): Step {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) throw new Wrong('it is no object')
  const fields = raw as Fields
  const atMs = duration(fields, 'at')
  const name = text(fields, 'do')
  const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name] : undefined
  if (action === undefined) throw new Wrong(`do: there is no "${name}", but ${Object.keys(ACTIONS).join(', ')}`)
  const unknown = Object.keys(fields).filter((key) => !['at', 'do', ...action.takes].includes(key))
  if (unknown.length > 0) {
    throw new Wrong(`${unknown.join(', ')}: not of "${name}", which takes ${action.takes.join(', ')}`)
  }
  const play = action.read(fields)
  return { atMs, says: JSON.stringify(raw), play: async (nomad) => play(nomad) }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new ScenarioFault([`it is no JSON: ${(error as Error).message}`])
  }
}

function faultsOf(job: JobSpec): string[] {
  try {
    return jobFaults(canonical(job))
  } catch (error) {
    return [error instanceof Refusal ? error.message : "it is no job in Nomad's JSON"]
  }
}

function targetOf(fields: Fields): Target {
  if (fields['allocation'] !== undefined) return text(fields, 'allocation')
  return { job: text(fields, 'job'), group: text(fields, 'group'), namespace: text(fields, 'namespace', 'default') }
}

// Those of a group in the order of their names; of one allocation itself.
async function allocationOf(nomad: DevNomad, target: Target, index: number): Promise<string> {
  if (typeof target === 'string') return target
  const path = `/v1/job/${target.job}/allocations?namespace=${target.namespace ?? 'default'}`
  const { body } = await nomad.handle({ method: 'GET', path })
  const all = JSON.parse(body) as { ID: string; Name: string; TaskGroup: string; DesiredStatus: string }[]
  const found = all.find(
    ({ Name, TaskGroup, DesiredStatus }) => TaskGroup === target.group && DesiredStatus === 'run' && Name.endsWith(`[${index}]`),
  )
  if (found === undefined) throw new Error(`${target.job} has no allocation ${target.group}[${index}]`)
  return found.ID
}

async function done(nomad: DevNomad, method: string, path: string, body?: object): Promise<void> {
  const answer = await nomad.handle({ method, path, ...(body && { body: JSON.stringify(body) }) })
  if (answer.status >= 400) throw new Error(`${answer.status} ${answer.body}`)
}
