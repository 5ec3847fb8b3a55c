/** The clock of one allocation, to the microsecond. In virtual time much happens within one millisecond, and still what
 *  happens later is dated later: a process is never older than the files that it was started with (facts §8). */
export function moments(wall: () => number): () => string {
  let last = Number.NaN
  let count = 0
  return () => {
    const now = wall()
    count = now === last ? Math.min(count + 1, 999) : 0
    last = now
    return new Date(now).toISOString().replace('Z', `${String(count).padStart(3, '0')}Z`)
  }
}
