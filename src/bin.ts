#!/usr/bin/env node
// The process: the real streams, signals, time and chance, and its end. Nothing else ends it.
import { randomUUID } from 'node:crypto'
import process from 'node:process'
import { main } from './cli/main.ts'
import { systemClock } from './keeper/clock.ts'

// A reader that has gone (`lockkeeper status | head -1`) is no fault, and no reason to leave a command alone.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)

// No await at the top: the bundle is CommonJS.
void main(process.argv.slice(2), process.env, {
  stdout: {
    write: (text) => void process.stdout.write(text),
    isTTY: process.stdout.isTTY,
    size: () => ({ columns: process.stdout.columns || 120, rows: process.stdout.rows || 50 }),
  },
  stderr: { write: (text) => void process.stderr.write(text), isTTY: process.stderr.isTTY },
  onTerminal: process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY,
  listen(names, listener) {
    for (const name of names) process.on(name, listener)
    return () => {
      for (const name of names) process.off(name, listener)
    }
  },
  kill: (pid, signal) => void process.kill(pid, signal),
  clock: systemClock,
  newId: randomUUID,
  random: Math.random,
}).then((code) => {
  // What is written to a pipe may be on its way still.
  process.stdout.write('', () => process.exit(code))
})
