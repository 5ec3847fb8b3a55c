import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { TaskWatch } from '../../src/core/watch.ts'
import { judge, type Remembered, type Verdict } from '../../src/core/watch-decision.ts'
import { MINUTE, NOW, SECOND } from '../support/builders.ts'

const RESTART: TaskWatch = { task: 'app', paths: [], action: 'restart', signal: null }
const SIGNAL: TaskWatch = { task: 'app', paths: [], action: 'signal', signal: 'SIGHUP' }
const PATH = 'secrets/app.env'

/** One task with one file, and whoever does what is decided, at once. */
class Story {
  startedAt = NOW
  mtime = NOW - MINUTE
  wall = NOW
  known: Remembered | null = null
  acts = 0
  readonly watch: TaskWatch
  constructor(watch: TaskWatch) {
    this.watch = watch
  }

  after(ms: number): this {
    this.wall += ms
    return this
  }
  written(at = this.wall): this {
    this.mtime = at
    return this
  }
  /** Looks so often, half a minute apart. After each act the task writes the file. */
  rewrites(looks = 6): this {
    for (let look = 0; look < looks; look++) {
      const acts = this.acts
      this.look()
      if (this.acts > acts) this.after(3 * SECOND).written()
      this.after(30 * SECOND)
    }
    return this
  }
  look(): Verdict {
    const { verdict, remember } = judge({ path: PATH, mtime: this.mtime }, this.watch, this.startedAt, this.known, this.wall)
    this.known = remember
    if (verdict === 'changed') {
      this.acts++
      if (this.watch.action === 'restart') this.startedAt = this.wall
    }
    return verdict
  }
}

describe('a file that makes its task restart', () => {
  it('is acted on when it is newer than the process, once, and nothing is remembered of it', () => {
    const story = new Story(RESTART)
    expect(story.look()).toBe('current')
    expect(
      story
        .after(10 * MINUTE)
        .written()
        .after(SECOND)
        .look(),
    ).toBe('changed')
    expect(story.known).toBeNull()
    expect(story.after(30 * SECOND).look()).toBe('current')
    expect(story.acts).toBe(1)
  })

  it('that the task writes at each start is found out at the second time', () => {
    const story = new Story(RESTART)
    for (let start = 0; start < 5; start++)
      story
        .after(3 * SECOND)
        .written()
        .after(30 * SECOND)
        .look()
    expect(story.look()).toBe('found_out')
    expect(story.acts).toBe(1)
    expect(story.known).toMatchObject({ task: 'app', path: PATH, times: 2 })
  })

  it('that the task writes at each start, and that really changed before: no third restart', () => {
    const story = new Story(RESTART)
    story
      .after(10 * MINUTE)
      .written()
      .after(SECOND)
      .look()
    for (let start = 0; start < 5; start++)
      story
        .after(3 * SECOND)
        .written()
        .after(30 * SECOND)
        .look()
    expect(story.acts).toBe(2)
    expect(story.look()).toBe('found_out')
  })

  it('that was found out is acted on again when it changes later and stays so, once', () => {
    const story = new Story(RESTART)
      .after(3 * SECOND)
      .written()
      .after(30 * SECOND)
      .rewrites()
    expect(
      story
        .after(10 * MINUTE)
        .written()
        .after(MINUTE)
        .look(),
    ).toBe('found_out')
    story.after(5 * MINUTE).rewrites()
    expect(story.acts).toBe(2)
    expect(story.look()).toBe('found_out')
  })

  it('that the task writes all the time is found out, and stays so, also when a restart has to wait for minutes', () => {
    const story = new Story(RESTART)
    let acts = 0
    for (let look = 0; look < 200; look++) {
      story
        .after(30 * SECOND)
        .written()
        .after(SECOND)
      const { verdict, remember } = judge({ path: PATH, mtime: story.mtime }, RESTART, story.startedAt, story.known, story.wall)
      story.known = remember
      if (verdict === 'changed' && story.wall - story.startedAt > 5 * MINUTE) {
        acts++
        story.startedAt = story.wall
      }
    }
    expect(acts).toBe(1)
    expect(story.look()).toBe('found_out')
  })

  it('that is dated in the future is found out at the second time', () => {
    const story = new Story(RESTART).after(10 * MINUTE)
    story.mtime = NOW + 365 * 24 * 60 * MINUTE
    expect(story.look()).toBe('changed')
    for (let times = 0; times < 50; times++) expect(story.after(5 * MINUTE).look()).toBe('found_out')
    expect(story.acts).toBe(1)
    // Somebody puts it right.
    expect(
      story
        .written()
        .after(5 * MINUTE)
        .look(),
    ).toBe('changed')
    expect(story.after(SECOND).look()).toBe('current')
  })

  it('that changes soon after one start by chance is not held against it', () => {
    const story = new Story(RESTART)
    expect(
      story
        .after(20 * SECOND)
        .written()
        .after(5 * SECOND)
        .look(),
    ).toBe('changed')
    expect(story.known).toMatchObject({ times: 1 })
    expect(story.after(11 * MINUTE).look()).toBe('current')
    expect(story.known).toBeNull()
    story.startedAt = story.wall
    expect(
      story
        .after(20 * SECOND)
        .written()
        .after(5 * SECOND)
        .look(),
    ).toBe('changed')
  })

  it('C3.9 that changes every 15 minutes, also right after a start, is never taken for one that the task writes', () => {
    const story = new Story(RESTART)
    let acts = 0
    for (let hour = 0; hour < 24; hour++) {
      for (let quarter = 0; quarter < 4; quarter++) {
        story.written(story.wall + 5 * SECOND).after(10 * SECOND)
        const { verdict, remember } = judge({ path: PATH, mtime: story.mtime }, RESTART, story.startedAt, story.known, story.wall)
        expect(verdict).toBe('changed')
        story.known = remember
        story.after(15 * MINUTE - 10 * SECOND)
      }
      story.startedAt = story.wall
      acts++
    }
    expect(acts).toBe(24)
  })

  it('who is asked again before anything was done about it says the same again', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100 * MINUTE }), fc.integer({ min: 0, max: 200 * MINUTE }), (late, after) => {
        const file = { path: PATH, mtime: NOW + late }
        const wall = NOW + late + after
        const first = judge(file, RESTART, NOW, null, wall)
        const second = judge(file, RESTART, NOW, first.remember, wall + SECOND)
        expect(first.verdict).toBe('changed')
        expect(second).toEqual(first)
      }),
    )
  })

  it('whatever it is dated and whenever it changes, at most two restarts follow one change', () => {
    const step = fc.record({
      offset: fc.integer({ min: -MINUTE, max: 10_000 * MINUTE }),
      pause: fc.integer({ min: 0, max: 90 * SECOND }),
    })
    fc.assert(
      fc.property(step, fc.boolean(), ({ offset, pause }, rewrites) => {
        const story = new Story(RESTART).after(10 * MINUTE)
        story.written(story.wall + offset)
        for (let look = 0; look < 100; look++) {
          const acts = story.acts
          story.after(30 * SECOND).look()
          if (story.acts > acts && rewrites) story.written(story.wall + Math.min(pause, 60 * SECOND))
        }
        expect(story.acts).toBeLessThanOrEqual(2)
      }),
    )
  })
})

describe('a file that its task is signalled about', () => {
  it('is acted on once for each date that it gets', () => {
    const story = new Story(SIGNAL).after(10 * MINUTE)
    expect(story.written().after(SECOND).look()).toBe('changed')
    for (let look = 0; look < 5; look++) expect(story.after(30 * SECOND).look()).toBe('current')
    expect(
      story
        .after(10 * MINUTE)
        .written()
        .after(SECOND)
        .look(),
    ).toBe('changed')
    expect(story.acts).toBe(2)
  })

  it('is current when the task was started since', () => {
    const story = new Story(SIGNAL)
      .after(10 * MINUTE)
      .written()
      .after(SECOND)
    story.startedAt = story.wall
    expect(story.look()).toBe('current')
  })

  it('that the task writes at each signal is found out, and acted on again when it changes later', () => {
    const story = new Story(SIGNAL)
      .after(10 * MINUTE)
      .written()
      .after(SECOND)
    for (let look = 0; look < 10; look++) {
      const acts = story.acts
      story.look()
      if (story.acts > acts) story.after(SECOND).written()
      story.after(30 * SECOND)
    }
    expect(story.acts).toBe(2)
    expect(story.look()).toBe('found_out')
    expect(
      story
        .after(10 * MINUTE)
        .written()
        .after(SECOND)
        .look(),
    ).toBe('changed')
  })

  it('that is dated in the future is acted on once', () => {
    const story = new Story(SIGNAL).after(10 * MINUTE)
    story.mtime = NOW + 365 * 24 * 60 * MINUTE
    for (let look = 0; look < 10; look++) story.after(30 * SECOND).look()
    expect(story.acts).toBe(1)
  })
})
