// Room simulation: whole clusters in simulated time. Real keepers and shims, a simulated Nomad and network, one virtual clock, and
// all chance from one seed: the same seed is the same run. What is promised is checked at every committed write.
// This file: chance.

/** Numbers that are the same for the same seed (sfc32). */
export class Chance {
  #a: number
  #b = 0x9e3779b9
  #c = 0x243f6a88
  #d = 1

  constructor(seed: number) {
    this.#a = seed | 0
    for (let n = 0; n < 15; n++) this.next()
  }

  /** 0 ≤ x < 1 */
  next(): number {
    const t = (((this.#a + this.#b) | 0) + this.#d) | 0
    this.#d = (this.#d + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (this.#c << 21) | (this.#c >>> 11)
    this.#c = (this.#c + t) | 0
    return (t >>> 0) / 4_294_967_296
  }

  happens(probability: number): boolean {
    return this.next() < probability
  }

  between(least: number, most: number): number {
    return least + this.next() * (most - least)
  }

  /** Both ends included. */
  whole(least: number, most: number): number {
    return Math.floor(this.between(least, most + 1))
  }

  /** Mostly near `least`, sometimes near `most`: the same chance for every order of magnitude. */
  skewed(least: number, most: number): number {
    return least * (most / least) ** this.next()
  }

  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.next() * items.length)] as T
  }

  /** One of the words, by weight. */
  weighted<T extends string>(weights: Readonly<Record<T, number>>): T {
    const entries = Object.entries(weights) as [T, number][]
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
    for (const [word, weight] of entries) {
      left -= weight
      if (left < 0) return word
    }
    return (entries.at(-1) as [T, number])[0]
  }

  /** Chance of its own, so that one part of a run does not depend on how often another part asked. */
  fork(): Chance {
    return new Chance(Math.floor(this.next() * 4_294_967_296))
  }
}
