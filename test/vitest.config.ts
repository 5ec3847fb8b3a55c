import { defineConfig } from 'vitest/config'

/** Minutes long, and not yet sure to end within their bound on a busy machine: with LOCKKEEPER_TEST_SIMULATION=1, or by
 *  `npm run simulate`. */
const LONG = ['test/simulation/simulation.test.ts', 'test/simulation/bites.test.ts']
const wantsLong = process.env['LOCKKEEPER_TEST_SIMULATION'] === '1'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: wantsLong ? [] : LONG,
    testTimeout: 60_000,
    reporters: ['default', './test/support/closing-line.ts'],
    coverage: { include: ['src/**/*.ts'] },
  },
})
