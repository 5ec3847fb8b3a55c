import { describe } from '../core/scope.ts'
import { isOpen } from '../core/request.ts'
import { createServiceClient } from '../shim/client.ts'
import { signalCode } from '../shim/command.ts'
import { askWave, waveNamed, withdrawWave, type Wave } from './ask-wave.ts'
import { durationOf, invalid, parse, required } from './arguments.ts'
import { exitOf, follow } from './follow.ts'
import { plain, writeJson, type Env, type Io, type Verb } from './io.ts'
import { withNomad } from './operator.ts'
import { createRequests, type Requests, type RequestView } from './requests.ts'
import { allowsColours, operatorContact, operatorName, operatorSettings, ownNamespace } from './settings.ts'
import { countText, targetOf, targetText, type Target } from './target.ts'
import { rowOf, rowsOf } from './wave.ts'
import { jsonShow, lineShow, liveShow, type Hints, type Show } from './wave-view.ts'

const help = `Restarts the running allocations of a job one after another, the next one when the last one is healthy. The service does it: this
asks for each allocation and shows what becomes of it. What is asked for goes on without it.

usage: lockkeeper restart (ALLOCATION | JOB [GROUP]) [flags]
       lockkeeper restart --wave WAVE [--cancel] [flags]

ALLOCATION is an ID, or the beginning of one that is unique. The requests have a label in common, a wave. While one is under way for the
same thing, the same command goes on with it: nothing is restarted twice. What failed or was withdrawn is asked for again.

  --namespace NAME     where the job is (NOMAD_NAMESPACE, default)
  --task NAME          the one task that is acted on (all that run)
  --action ACTION      restart, replace (stop it, so that Nomad places another) or signal (restart)
  --signal NAME        with --action signal (SIGHUP)
  --reason TEXT        why, for people (who restarts)
  --detach             ask, and do not watch
  --wait DURATION      how long to watch (to the end); what was asked for stays
  --wave WAVE          watch what was asked for before
  --cancel             withdraw of this wave what still waits; what is acted on already goes on to its end
  --addr URL[,URL...]  the service (LOCKKEEPER_ADDR, http://127.0.0.1:4650); @FILE: what is in that file
  --json               one event a line

The job's allocations are read in Nomad (NOMAD_ADDR, NOMAD_TOKEN and so on, as the Nomad CLI); the same token is shown to the service.
Ctrl-C ends the watching only, and tells how to go on with it, or to withdraw what waits.

exit codes: 0 all done, 2 wrong words or no such thing, 3 not done within --wait, 4 something failed or was withdrawn, or is not
            done within --wait because of an operator lock or a halt, 6 nobody answers, 128+n signal n ended the watching
`

const OPTIONS = {
  namespace: { type: 'string' },
  task: { type: 'string' },
  action: { type: 'string' },
  signal: { type: 'string' },
  reason: { type: 'string' },
  detach: { type: 'boolean', default: false },
  wait: { type: 'string' },
  wave: { type: 'string' },
  cancel: { type: 'boolean', default: false },
  addr: { type: 'string' },
  json: { type: 'boolean', default: false },
} as const
const ACTIONS = ['restart', 'replace', 'signal']
const ONLY_TO_ASK = ['namespace', 'task', 'action', 'signal', 'reason'] as const

interface Session {
  readonly requests: Requests
  readonly io: Io
  readonly show: Show
  /** Command lines of a wave. */
  readonly hints: (wave: string) => Hints
  /** How long to watch; null: to the end. */
  readonly waitMs: number | null
  /** Aborts when somebody wants us to go. */
  readonly signal: AbortSignal
}

export const verb: Verb = {
  help,
  async run(words, env, io) {
    const { values, positionals } = parse(words, OPTIONS, ['ALLOCATION or JOB', 'GROUP'], 0)
    const { wave, cancel, detach, json } = values
    const [word, group] = positionals
    if (wave === undefined) {
      if (word === undefined) throw invalid('restart what? name an allocation or a job, or a wave with --wave')
      if (cancel) throw invalid('--cancel goes with --wave')
    } else {
      const wrong = ONLY_TO_ASK.find((name) => values[name] !== undefined) ?? (detach ? 'detach' : undefined)
      if (word !== undefined || wrong !== undefined) throw invalid(`--wave does not go with ${word ?? `--${wrong}`}`)
      required('--wave', wave)
    }
    const waitMs = values.wait === undefined ? null : durationOf('--wait', values.wait)
    if (waitMs !== null && (detach || cancel)) throw invalid(`--wait does not go with --${detach ? 'detach' : 'cancel'}`)
    const wish = wishOf(values)
    const reason = values.reason === undefined ? `restart by ${operatorName(env)}` : required('--reason', values.reason)

    const client = createServiceClient(operatorContact(env, values.addr, io.clock), io.clock)
    const show = showFor(env, io, json)
    const session = { requests: createRequests(client, io.clock), io, show, hints: hintsFor(values.addr), waitMs }
    try {
      return await untilInterrupted(session, async (own, known) => {
        const { requests, signal } = own
        if (wave !== undefined && cancel) return told(wave, await withdrawWave(requests, wave, signal), io, json)
        if (wave !== undefined) return await watchAgain(own, known, wave)
        const target = await targetIn(env, values.namespace, word as string, group, own)
        if (target.allocations.length === 0) return nothing(target, io, json)
        const by = operatorName(env)
        await askWave({ requests, clock: io.clock, newId: io.newId, by, signal }, target, { ...wish, reason }, known, (other) =>
          show.begun({ wave: known.name, about: targetText(target), joined: other === null ? null : joinedText(other) }),
        )
        known.warnings.forEach((warning) => show.warning(warning))
        if (!detach) return await watch(own, known)
        show.rows(known.rows)
        show.left(known.name, 'asked for; the service goes on with it', own.hints(known.name))
        return 0
      })
    } finally {
      await client.close()
    }
  },
}

/** Ctrl-C, or a fault, ends the work and nothing that was asked for: then it is told how to go on. */
async function untilInterrupted(
  session: Omit<Session, 'signal'>,
  work: (session: Session, known: Wave) => Promise<number>,
): Promise<number> {
  const { io, show, hints } = session
  const control = new AbortController()
  const known: Wave = { name: '', rows: [], warnings: new Set() }
  let by: NodeJS.Signals | null = null
  const unlisten = io.listen(['SIGINT', 'SIGTERM'], (signal) => {
    by ??= signal
    control.abort(new Error('interrupted'))
  })
  try {
    return await work({ ...session, signal: control.signal }, known)
  } catch (error) {
    const isAsked = known.rows.some(({ id }) => id !== null)
    if (by !== null) {
      if (isAsked) show.left(known.name, `${by as string}: what was asked for goes on`, hints(known.name))
      return signalCode(by)
    }
    if (isAsked) show.left(known.name, 'what was asked for goes on', hints(known.name))
    throw error
  } finally {
    unlisten()
  }
}

async function targetIn(env: Env, flag: string | undefined, word: string, group: string | undefined, { io, signal }: Session) {
  const namespace = flag ?? ownNamespace(env) ?? 'default'
  if (namespace === '*') throw invalid('say with --namespace in which namespace the job is')
  const { nomad } = operatorSettings(env, undefined)
  return await withNomad(nomad, io, (client) => targetOf(client, namespace, word, group, signal))
}

function nothing({ level, down }: Target, { stdout }: Io, json: boolean): number {
  const why = down === 0 ? 'there is nothing to restart' : `${down} that are to run start anew by themselves`
  const detail = `nothing runs in ${describe(level)}: ${why}`
  if (json) writeJson(stdout, { event: 'nothing', detail })
  else stdout.write(`${plain(detail)}\n`)
  return 0
}

async function watchAgain(session: Session, known: Wave, wave: string): Promise<number> {
  const { requests, show, signal } = session
  const seen = await waveNamed(requests, wave, signal)
  known.name = wave
  known.rows = rowsOf(seen)
  show.begun({ wave, about: `${countText(known.rows.length)}, ${seen[0]?.reason}`, joined: null })
  return await watch(session, known)
}

async function watch({ requests, io, show, hints, waitMs, signal }: Session, known: Wave): Promise<number> {
  const ended = await follow({ wave: known.name, rows: known.rows, waitMs }, requests, io.clock, show, signal)
  const exit = exitOf(ended)
  show.over(known.name, ended.rows, exit)
  if (ended.how === 'late') show.left(known.name, 'the time of --wait is up; what was asked for goes on', hints(known.name))
  if (ended.how === 'stuck')
    show.left(known.name, 'the rest waits until what failed is mended, or lockkeeper resume', hints(known.name))
  return exit
}

/** What was withdrawn, and what was not any more. */
function told(wave: string, seen: readonly RequestView[], { stdout }: Io, json: boolean): number {
  const withdrawn = seen.filter(({ state }) => state === 'cancelled')
  const goesOn = seen.filter(isOpen)
  if (json) {
    writeJson(stdout, { event: 'withdrawn', wave, withdrawn: withdrawn.map(rowOf), goes_on: goesOn.map(rowOf) })
    return 0
  }
  stdout.write(plain(`${wave}: ${withdrawn.length} withdrawn, ${goesOn.length} under way`) + '\n')
  for (const { place, allocation, state } of goesOn)
    stdout.write(plain(`${place}  ${allocation}  ${state}: goes on to its end`) + '\n')
  return 0
}

function wishOf({
  action = 'restart',
  task,
  signal,
}: {
  action?: string | undefined
  task?: string | undefined
  signal?: string | undefined
}) {
  if (!ACTIONS.includes(action)) throw invalid(`--action: one of ${ACTIONS.join(', ')}`)
  if (signal !== undefined && action !== 'signal') throw invalid('--signal goes with --action signal')
  return { action, ...(task === undefined ? {} : { task }), ...(signal === undefined ? {} : { signal }) }
}

function joinedText({ reason, at }: RequestView): string {
  return at === undefined ? reason : `${reason}, since ${at}`
}

function hintsFor(addr: string | undefined): (wave: string) => Hints {
  const more = addr === undefined ? '' : ` --addr ${quoted(addr)}`
  return (wave) => {
    const watch = `lockkeeper restart --wave ${quoted(wave)}${more}`
    return { watch, cancel: `${watch} --cancel` }
  }
}

/** As one word of a shell. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

function showFor(env: Env, { stdout, clock }: Io, json: boolean): Show {
  if (json) return jsonShow(stdout)
  return stdout.isTTY ? liveShow(stdout, clock, allowsColours(env)) : lineShow(stdout, clock)
}
