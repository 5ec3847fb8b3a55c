// Durations as Nomad writes and reads them: Go style strings outside, milliseconds inside.

const UNITS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
}
/** Go's own limit, and Nomad's: 2^63 - 1 nanoseconds. Nothing longer is a duration, so no deadline is endless. */
const MAX_MS = 9_223_372_036_854
const PART = /(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/gy

/** Milliseconds of a Go style duration (`90s`, `1m30s`, `1.5h`, `0`); null when it is none. Never negative. */
export function parseDuration(text: string): number | null {
  if (text === '0') return 0
  PART.lastIndex = 0
  let total = 0
  while (PART.lastIndex < text.length) {
    const part = PART.exec(text)
    if (part === null) return null
    total += Number(part[1]) * (UNITS[part[2] as string] as number)
  }
  return text === '' || total > MAX_MS ? null : total
}

/** A Go style duration as Nomad prints it (`15s`, `1m0s`, `24h0m0s`, `1ms`); fractions of a millisecond are cut. */
export function formatDuration(ms: number): string {
  const whole = Math.trunc(ms)
  if (whole === 0) return '0s'
  if (whole < 1_000) return `${whole}ms`
  const hours = Math.floor(whole / 3_600_000)
  const minutes = Math.floor((whole % 3_600_000) / 60_000)
  const seconds = `${(whole % 60_000) / 1_000}s`
  if (hours > 0) return `${hours}h${minutes}m${seconds}`
  return minutes > 0 ? `${minutes}m${seconds}` : seconds
}
