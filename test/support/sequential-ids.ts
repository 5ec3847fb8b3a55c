/** UUIDs that are the same in every run. */
export function sequentialIds(): () => string {
  let last = 0
  return () => {
    last += 1
    const hex = last.toString(16)
    return `${hex.padStart(8, '0')}-0000-4000-8000-${hex.padStart(12, '0')}`
  }
}
