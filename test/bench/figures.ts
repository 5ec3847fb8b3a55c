/** One measured figure, beside its limit from the same run. */
export interface Figure {
  readonly name: string
  readonly value: number | null
  readonly unit: string
  /** What it is held against. */
  readonly limit?: { readonly name: string; readonly value: number; readonly unit: string }
  readonly goal: string
  /** Null: there is no goal, or nothing was measured. */
  readonly met: boolean | null
  readonly note?: string
}

export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}

export function table(figures: readonly Figure[]): string {
  const rows = [['figure', 'measured', 'limit in this run', 'ratio', 'goal', ''], ...figures.map(rowOf)]
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

function rowOf({ name, value, unit, limit, goal, met, note }: Figure): string[] {
  const ratio = limit === undefined || value === null ? '' : `${shown(value / limit.value)} ×`
  const verdict = met === null ? '' : met ? 'met' : 'MISSED'
  return [
    name,
    value === null ? 'n/a' : `${shown(value)} ${unit}`,
    limit === undefined ? '' : `${shown(limit.value)} ${limit.unit} (${limit.name})`,
    ratio,
    goal,
    [verdict, note ?? ''].filter((text) => text !== '').join(': '),
  ]
}

function shown(value: number): string {
  return value >= 100 ? String(Math.round(value)) : value >= 10 ? value.toFixed(1) : value.toFixed(2)
}
