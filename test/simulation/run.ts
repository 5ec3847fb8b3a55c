// What `npm run simulate` starts.
import { main } from './simulate.ts'

process.exitCode = await main(
  process.argv.slice(2),
  (line) => void process.stdout.write(`${line}\n`),
  () => performance.now(),
)
