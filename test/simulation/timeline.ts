/** Something that shall happen. `order` breaks ties: what was asked for first happens first. */
interface Event {
  readonly at: number
  readonly order: number
  readonly run: () => void
  cancelled: boolean
}

/** True time, in milliseconds from the beginning: events in their order, and after each of them everything that follows from it. */
export class Timeline {
  #now = 0
  #order = 0
  #pending = 0
  readonly #heap: Event[] = []

  now(): number {
    return this.#now
  }

  /** How many events are still to come. */
  get pending(): number {
    return this.#pending
  }

  /** Runs `run` after `ms`, unless the returned function is called before. */
  after(ms: number, run: () => void): () => void {
    // Less than this is lost in the sum, and who waits for it would wait for ever at the same moment.
    const pause = ms > 0 ? Math.max(0.001, ms) : 0
    const event: Event = { at: this.#now + pause, order: this.#order++, run, cancelled: false }
    this.#push(event)
    this.#pending++
    return () => {
      if (event.cancelled) return
      event.cancelled = true
      this.#pending--
    }
  }

  /** Moves on to the next event and lets all promise chains run that follow from it. False: nothing is to come. */
  async step(): Promise<boolean> {
    const event = this.#pop()
    if (event === undefined) return false
    event.cancelled = true
    this.#pending--
    this.#now = event.at
    event.run()
    await settled()
    return true
  }

  #pop(): Event | undefined {
    for (;;) {
      const top = this.#take()
      if (top === undefined || !top.cancelled) return top
    }
  }

  #push(event: Event): void {
    const heap = this.#heap
    let at = heap.push(event) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!isBefore(event, heap[parent] as Event)) break
      heap[at] = heap[parent] as Event
      at = parent
    }
    heap[at] = event
  }

  #take(): Event | undefined {
    const heap = this.#heap
    const top = heap[0]
    const last = heap.pop()
    if (top === undefined || last === undefined || heap.length === 0) return top
    let at = 0
    for (;;) {
      const left = 2 * at + 1
      const right = left + 1
      if (left >= heap.length) break
      const child = right < heap.length && isBefore(heap[right] as Event, heap[left] as Event) ? right : left
      if (!isBefore(heap[child] as Event, last)) break
      heap[at] = heap[child] as Event
      at = child
    }
    heap[at] = last
    return top
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}

/** All promise chains that do not wait for an event have run: Node does them before the next round of its loop. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
