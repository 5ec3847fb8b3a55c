import { Problem } from '../core/errors.ts'
import type { Verb } from './io.ts'

export const verb: Verb = {
  help: 'Shows on a simulated cluster what lockkeeper does.\n\nusage: lockkeeper demo\n',
  run: () => Promise.reject(new Problem('invalid_request', 'the demo is not here yet; see lockkeeper dev')),
}
