import { buildApp } from './app.ts'
import { Calls } from './calls.ts'
import { contractText } from './contract.ts'
import type { ApiPorts } from './ports.ts'

/** The contract as openapi/openapi.json holds it; the same at every call. */
export async function openapiDocument(): Promise<string> {
  // No handler runs, so nothing of the process is needed.
  const none = { keeper: {}, identities: null, calls: new Calls() } as unknown as ApiPorts
  const app = await buildApp(none)
  await app.ready()
  try {
    return contractText(app)
  } finally {
    await app.close()
  }
}
