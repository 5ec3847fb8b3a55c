// What a job wants watched (design §6): the words `lockkeeper_watch`, `_action` and `_signal` of its meta, read into paths per task.
import type { GroupSpec, Job, TaskSpec, TemplateSpec } from './cluster.ts'
import { isSignal } from './signals.ts'

/** One path of the list. Either one file, or all that match in one folder. */
export interface WatchedPath {
  /** As it was written: `secrets/app.env`, `local/*.conf`, `alloc/data/x`. */
  readonly path: string
  /** In the allocation's directory: `/app/local`. */
  readonly folder: string
  /** `app.env`, or a pattern with `*`. */
  readonly name: string
}

/** What one task is watched for, and what is asked for when a file is newer than the running process. */
export interface TaskWatch {
  readonly task: string
  readonly paths: readonly WatchedPath[]
  readonly action: 'restart' | 'signal'
  /** Of the action `signal`: which one; null: another action. */
  readonly signal: string | null
}

/** `faults`: words that could not be read; what they were about is not watched. `warnings`: what will not work as it looks. */
export interface GroupWatch {
  readonly tasks: readonly TaskWatch[]
  readonly faults: readonly string[]
  readonly warnings: readonly string[]
}

const WATCH = 'lockkeeper_watch'
const ACTION = 'lockkeeper_action'
const SIGNAL = 'lockkeeper_signal'
const DEFAULT_SIGNAL = 'SIGHUP'
/** Each costs a call to Nomad at every look. */
const MAX_PATHS = 16

/** Written by Nomad itself into `secrets/` (facts §9): only who names one exactly wants it. Identities and tokens are rewritten all the
 *  time, and nothing is gained by a restart. */
const NOMADS_OWN = /^(\.nomad.*|nomad_.*|api\.sock|vault_token|consul_token|si_token)$/

/** Whether a file that lies in the folder is meant by the path. */
export function matches({ folder, name }: WatchedPath, file: string): boolean {
  if (!name.includes('*')) return file === name
  if (folder.endsWith('/secrets') && NOMADS_OWN.test(file)) return false
  const [first = '', ...rest] = name.split('*')
  const last = rest.pop() ?? ''
  if (file.length < first.length + last.length || !file.startsWith(first) || !file.endsWith(last)) return false
  let at = first.length
  for (const part of rest) {
    const found = file.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return at <= file.length - last.length
}

export function isPattern({ name }: WatchedPath): boolean {
  return name.includes('*')
}

/** What is watched in a group of the job. The word nearest to the task wins, as in Nomad's own meta: task, group, job. At job level
 *  `true` says only that something further in is watched; `false` there or further in says that nothing is. */
export function groupWatch(job: Job, group: GroupSpec): GroupWatch {
  const faults: string[] = []
  const warnings: string[] = []
  // A task that finishes by design has no running process that a file could be newer than (case C3.13).
  const lasting = group.tasks.filter(({ role }) => role !== 'once')
  const tasks = lasting.flatMap((task) => {
    const found = taskWatch(job, group, task, faults)
    if (found !== null) warnings.push(...warningsOf(found, task))
    return found === null ? [] : [found]
  })
  return { tasks, faults: [...new Set(faults)], warnings }
}

function taskWatch(job: Job, group: GroupSpec, task: TaskSpec, faults: string[]): TaskWatch | null {
  const layers = [
    { from: `task ${task.name}`, meta: task.meta },
    { from: `group ${group.name}`, meta: group.meta },
    { from: 'job', meta: job.meta },
  ]
  const said = (word: string, isSaid: (text: string) => boolean = () => true) => {
    const layer = layers.find(({ meta }) => meta[word] !== undefined && isSaid(meta[word]))
    return layer === undefined ? null : { from: `${word} in ${layer.from} meta`, text: (layer.meta[word] as string).trim() }
  }
  const list = said(WATCH, (text) => text.trim() !== 'true')
  if (list === null || list.text === 'false') return null
  const written = list.text.split(',').map((path) => path.trim())
  const wrong = written.flatMap((path) => pathFault(path) ?? [])
  if (written.length > MAX_PATHS) wrong.push(`more than ${MAX_PATHS} paths`)
  const action = said(ACTION)
  const signal = said(SIGNAL)
  const before = faults.length
  faults.push(...wrong.map((fault) => `${list.from}: ${fault}`))
  if (action !== null && action.text !== 'restart' && action.text !== 'signal')
    faults.push(`${action.from}: "${action.text}" is not restart or signal`)
  if (signal !== null && !isSignal(signal.text))
    faults.push(`${signal.from}: "${signal.text}" is no signal that Nomad knows, such as SIGHUP`)
  if (signal !== null && action?.text !== 'signal') faults.push(`${signal.from} needs ${ACTION} = "signal"`)
  if (faults.length > before) return null
  const paths = [...new Set(written)].map((path) => watchedPath(task.name, path))
  if (action?.text === 'signal') return { task: task.name, paths, action: 'signal', signal: signal?.text ?? DEFAULT_SIGNAL }
  return { task: task.name, paths, action: 'restart', signal: null }
}

function pathFault(path: string): string | null {
  if (path === '') return 'a path is empty'
  if (path.startsWith('/')) return `"${path}" is absolute; write it relative to the task's directory, or as alloc/…`
  const segments = path.split('/')
  if (segments.some((segment) => segment === '' || segment === '.' || segment === '..'))
    return `"${path}" has an empty segment, "." or ".."`
  if (segments.length === 1) return `"${path}" names no folder; write local/…, secrets/… or alloc/…`
  if (segments.slice(0, -1).some((segment) => segment.includes('*'))) return `"${path}" has a * before its last segment`
  return null
}

function watchedPath(task: string, path: string): WatchedPath {
  const whole = path.startsWith('alloc/') ? `/${path}` : `/${task}/${path}`
  const end = whole.lastIndexOf('/')
  return { path, folder: whole.slice(0, end), name: whole.slice(end + 1) }
}

function warningsOf(watch: TaskWatch, { name, templates }: TaskSpec): string[] {
  const warnings: string[] = []
  const watched = templates.filter((template) => watch.paths.some((path) => isAt(template, path, name)))
  for (const { path } of watched.filter(({ env }) => env && watch.action === 'signal'))
    warnings.push(
      `template ${path} of task ${name} has env = true: its values reach the process only by a restart, not by a signal`,
    )
  for (const { path, changeMode } of watched.filter((template) => template.changeMode !== 'noop'))
    warnings.push(
      `template ${path} of task ${name} has change_mode ${changeMode}: Nomad acts on it too, without asking; use noop`,
    )
  for (const path of watch.paths)
    if (path.folder === `/${name}/secrets` && NOMADS_OWN.test(path.name))
      warnings.push(`${path.path} of task ${name} is rewritten by Nomad itself, again and again: each time is a ${watch.action}`)
  return warnings
}

function isAt({ path }: TemplateSpec, watched: WatchedPath, task: string): boolean {
  const { folder, name } = watchedPath(task, path)
  return folder === watched.folder && matches(watched, name)
}
