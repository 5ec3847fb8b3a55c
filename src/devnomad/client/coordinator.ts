import type { Task as TaskSpec, TaskState } from '../cluster/shapes.ts'

/** When in the life of its allocation a task runs. */
export type Stage = 'prestart' | 'prestart-sidecar' | 'main' | 'poststart' | 'poststart-sidecar' | 'poststop'

interface Staged {
  readonly stage: Stage
  readonly state: TaskState
}

/** Which stages may start in which state of the allocation, in the order of the states. */
const ALLOWED = {
  init: [],
  prestart: ['prestart', 'prestart-sidecar'],
  main: ['prestart-sidecar', 'main'],
  poststart: ['prestart-sidecar', 'main', 'poststart', 'poststart-sidecar'],
  wait: ['prestart-sidecar', 'main', 'poststart-sidecar'],
  poststop: ['poststop'],
} as const satisfies Record<string, readonly Stage[]>

type State = keyof typeof ALLOWED
const ORDER = Object.keys(ALLOWED) as State[]

/** Says which tasks of an allocation may start. It goes forward only, until all tasks are restarted: then from the beginning
 *  (Nomad's client/allocrunner/tasklifecycle/coordinator.go). */
export class Coordinator {
  readonly #tasks: readonly Staged[]
  #state: State = 'init'

  constructor(tasks: readonly Staged[]) {
    this.#tasks = tasks
  }

  restart(): void {
    this.#state = 'init'
  }

  /** To be called before `allows`, whenever a task has changed. */
  look(): void {
    if (this.#tasks.every(({ stage, state }) => stage === 'poststop' || state.State === 'dead')) this.#state = 'poststop'
    while (this.#isDone()) this.#state = ORDER[ORDER.indexOf(this.#state) + 1] as State
  }

  allows(stage: Stage): boolean {
    return (ALLOWED[this.#state] as readonly Stage[]).includes(stage)
  }

  #isDone(): boolean {
    switch (this.#state) {
      case 'init':
        return this.#tasks.every(({ state }) => state.State === 'pending')
      case 'prestart':
        return (
          this.#every('prestart', ({ State, Failed }) => State === 'dead' && !Failed) &&
          this.#every('prestart-sidecar', ({ State }) => State === 'running')
        )
      case 'main':
        return this.#every('main', ({ State }) => State !== 'pending')
      case 'poststart':
        return this.#every('poststart', ({ State }) => State === 'dead')
      case 'wait':
      case 'poststop':
        return false
    }
  }

  #every(stage: Stage, is: (state: TaskState) => boolean): boolean {
    return this.#tasks.every((task) => task.stage !== stage || is(task.state))
  }
}

export function stageOf({ Lifecycle }: TaskSpec): Stage {
  const hook = Lifecycle?.Hook
  if (hook === 'prestart' || hook === 'poststart') return Lifecycle?.Sidecar === true ? `${hook}-sidecar` : hook
  return hook === 'poststop' ? 'poststop' : 'main'
}

export const isSidecar = (stage: Stage): boolean => stage === 'prestart-sidecar' || stage === 'poststart-sidecar'
