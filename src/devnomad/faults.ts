import type { Request } from './http/exchange.ts'

/** What goes wrong with a request. `drop`: the connection breaks before anything is done; `drop-answer`: after it was done
 *  (the write happened, nobody is told); `delay`: it is done so much later; `answer`: this instead of doing it, or, with
 *  `done`, after it was done: a write may have happened behind a 500 (facts §2). */
export type Fault =
  | { readonly kind: 'drop' }
  | { readonly kind: 'drop-answer' }
  | { readonly kind: 'delay'; readonly ms: number }
  | { readonly kind: 'answer'; readonly status: number; readonly body: string; readonly done?: boolean }

/** Faults that wait for their requests. */
export class Faults {
  #waiting: { matches: (request: Request) => boolean; fault: Fault; left: number }[] = []

  /** The next `times` requests that match meet the fault. */
  next(matches: (request: Request) => boolean, fault: Fault, times = 1): void {
    this.#waiting.push({ matches, fault, left: times })
  }

  /** Takes the fault that this request meets, if any; one that was asked for earlier comes first. */
  take(request: Request): Fault | undefined {
    const found = this.#waiting.find((one) => one.matches(request))
    if (found === undefined) return undefined
    found.left -= 1
    if (found.left <= 0) this.#waiting = this.#waiting.filter((one) => one !== found)
    return found.fault
  }

  clear(): void {
    this.#waiting = []
  }
}
