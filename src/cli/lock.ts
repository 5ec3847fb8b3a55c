import { ERRORS, Problem } from '../core/errors.ts'
import { NomadFault } from '../core/nomad-fault.ts'
import { formatDuration, parseDuration } from '../core/duration.ts'
import { contains, describe, type Level } from '../core/scope.ts'
import { formatTime, parseTime } from '../keeper/clock.ts'
import { lock, readSemaphores, type InFlight } from '../keeper/operate.ts'
import { durationOf, invalid, LEVEL_HELP, LEVEL_OPTIONS, levelOf, parse, required } from './arguments.ts'
import { plain, writeJson, type Io, type Verb } from './io.ts'
import { checkPlace, NOMAD_HELP, operate, type Operator } from './operator.ts'
import { operatorName, ownNamespace } from './settings.ts'

const help = `Shuts a level: no new hold is granted below it, by any replica. Says what was granted before and is still under way.

usage: lockkeeper lock (--all | LEVEL) --reason TEXT [flags]

  --all              everything
${LEVEL_HELP}
  --reason TEXT      why; whoever waits is told
  --until WHEN       when it ends by itself: 2h, or a time such as 2026-01-31T18:00:00Z; never, unless given
  --by NAME          who (user and host)
  --wait             wait until the holds that are under way are over
  --timeout DURATION how long to wait for them (15m)
  --anyway           also where no lockkeeper has ever run
  --json             the result as JSON

${NOMAD_HELP}
exit codes: 0 locked, 3 locked, but after --timeout something is still under way
`

const OPTIONS = {
  ...LEVEL_OPTIONS,
  all: { type: 'boolean', default: false },
  reason: { type: 'string' },
  until: { type: 'string' },
  by: { type: 'string' },
  wait: { type: 'boolean', default: false },
  timeout: { type: 'string', default: '15m' },
  anyway: { type: 'boolean', default: false },
  prefix: { type: 'string' },
  json: { type: 'boolean', default: false },
} as const
const LOOK_AGAIN_MS = 1_000

export const verb: Verb = {
  help,
  async run(words, env, io) {
    const { values } = parse(words, OPTIONS)
    const level = levelOf(values, ownNamespace(env))
    const isAll = Object.keys(level).length === 0
    if (isAll !== values.all) throw invalid(isAll ? 'lock what? name a level, or say --all' : '--all does not go with a level')
    const reason = required('--reason', values.reason)
    const by = values.by === undefined ? operatorName(env) : required('--by', values.by)
    const until = values.until === undefined ? null : untilOf(values.until, io.clock.wall())
    const timeoutMs = durationOf('--timeout', values.timeout)

    return await operate(env, values.prefix, io, async (operator) => {
      if (!values.anyway) await checkPlace(operator)
      const { variables, paths, signal } = operator
      let inFlight = await lock(variables, paths, { level, reason, by, until }, signal).catch(unsure)
      if (!values.json) io.stdout.write(sentence(level, reason, until, inFlight))
      const over = !values.wait || (inFlight = await waitFor(operator, level, inFlight, timeoutMs, io)).length === 0
      const ends = until === null ? {} : { until: formatTime(until) }
      if (values.json) writeJson(io.stdout, { locked: { ...level, reason, by, ...ends }, in_flight: inFlight.map(viewOf) })
      else if (values.wait) io.stdout.write(over ? 'nothing is under way any more\n' : late(timeoutMs, inFlight))
      return over ? 0 : ERRORS.full.exit
    })
  },
}

/** Looks until nothing is under way or the time is up; comes back with what still is. */
async function waitFor({ variables, paths, signal }: Operator, level: Level, from: InFlight[], timeoutMs: number, io: Io) {
  const { clock } = io
  const endsAt = clock.now() + timeoutMs
  let inFlight = from
  while (inFlight.length > 0 && clock.now() < endsAt) {
    await clock.sleep(Math.min(LOOK_AGAIN_MS, endsAt - clock.now()))
    const stored = await readSemaphores(variables, paths, level, 0, signal).catch(notAnswered)
    // Nomad does not answer: what was under way still is, as far as anybody knows.
    inFlight =
      stored === null
        ? inFlight
        : stored.flatMap(({ scope, state }) => {
            if ('unreadable' in state) return from.filter((one) => scope === null || contains(scope as Level, one.scope))
            return scope === null ? [] : state.holds.map((hold) => ({ scope, hold }))
          })
  }
  return inFlight
}

/** The lock may have been written although its answer, or that of the list after it, was lost. */
function unsure(error: unknown): never {
  if (error instanceof NomadFault && error.kind === 'unavailable')
    throw new Problem('nomad_unavailable', `${error.message}; it may be locked all the same: say it again`, {}, error)
  throw error
}

function notAnswered(error: unknown): null {
  if (error instanceof NomadFault && error.kind === 'unavailable') return null
  throw error
}

function untilOf(text: string, now: number): number {
  const ms = parseDuration(text)
  const until = ms === null ? parseTime(text) : now + ms
  if (until === null) throw invalid(`--until: "${text}" is neither a duration such as 2h nor a time such as 2026-01-31T18:00:00Z`)
  if (until <= now) throw invalid('--until: that is over already')
  return until
}

function sentence(level: Level, reason: string, until: number | null, inFlight: readonly InFlight[]): string {
  const ends = until === null ? '' : ` until ${formatTime(until)}`
  const under = inFlight.length === 0 ? 'nothing is under way' : `under way, granted before:\n${lines(inFlight)}`
  return `${plain(describe(level))} is locked${ends}: ${plain(reason)}\n${under}\n`
}

function late(timeoutMs: number, inFlight: readonly InFlight[]): string {
  return `still under way after ${formatDuration(timeoutMs)} (the lock stays):\n${lines(inFlight)}\n`
}

function lines(inFlight: readonly InFlight[]): string {
  return inFlight.map(({ scope, hold }) => plain(`  ${describe(scope)}  ${hold.unit}  ${hold.phase}  hold ${hold.id}`)).join('\n')
}

function viewOf({ scope, hold }: InFlight): object {
  const { id, unit, phase, reason, token, slot } = hold
  return { hold: id, scope, unit, phase, reason, token, slot, since: formatTime(hold.grantedAt) }
}
