// One process of clients: told what to do, asked for its counts, and ended.
import { begin, type Counts, type Load } from './loads.ts'

let counts: Counts | null = null
process.on('message', (message: Load | 'counts') => {
  if (message !== 'counts') counts = begin(message)
  else process.send?.({ ...counts, at: performance.now() })
})
process.on('disconnect', () => process.exit(0))
