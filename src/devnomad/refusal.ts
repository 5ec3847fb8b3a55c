/** What Nomad refuses, with the status and the text of its answer (facts §3); the router makes an answer of it. */
export class Refusal extends Error {
  readonly status: number
  readonly headers: Record<string, string>

  constructor(status: number, body: string, headers: Record<string, string> = {}) {
    super(body)
    this.name = 'Refusal'
    this.status = status
    this.headers = headers
  }
}

/** Several errors as Go's multierror prints them. */
export function listed(errors: readonly string[]): string {
  const head = errors.length === 1 ? '1 error occurred' : `${errors.length} errors occurred`
  return `${head}:\n${errors.map((error) => `\t* ${error}\n`).join('')}\n`
}
