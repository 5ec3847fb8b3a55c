/** Which methods each path takes: fastify knows routes by method first, and calls everything else not found. */
export class Methods {
  readonly #routes: { readonly pattern: RegExp; readonly methods: Set<string> }[] = []

  /** `url` as a route is declared: `/v1/holds/:hold`. */
  add(url: string, methods: string | readonly string[]): void {
    const source = `^${url.replace(/:[^/]+/g, '[^/]+')}$`
    const known = this.#routes.find(({ pattern }) => pattern.source === new RegExp(source).source)
    const route = known ?? { pattern: new RegExp(source), methods: new Set<string>() }
    if (known === undefined) this.#routes.push(route)
    for (const method of [methods].flat()) route.methods.add(method)
  }

  /** In alphabetical order; empty: there is no such path. */
  at(path: string): string[] {
    return this.#routes.flatMap(({ pattern, methods }) => (pattern.test(path) ? [...methods] : [])).toSorted()
  }
}
