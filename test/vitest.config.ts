import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 60_000,
    // Many tests wait for processes and real time: one more than there are cores of a small machine.
    maxWorkers: 3,
    reporters: ['default', './test/support/closing-line.ts'],
    coverage: { include: ['src/**/*.ts'] },
  },
})
