import { expect, it } from 'vitest'
import { exitCodeOf, startCommand, type Command } from '../../src/shim/command.ts'

const NODE = process.execPath

async function started(words: [string, ...string[]], onTerminal: boolean) {
  const kills: [number, string][] = []
  const kill = (pid: number, signal: NodeJS.Signals) => {
    kills.push([pid, signal])
    process.kill(pid, signal)
  }
  const command = await startCommand({ words, env: process.env, onTerminal, kill })
  return { command: command as Command, kills }
}

it('away from a terminal a signal goes to the command and to what it started', async () => {
  const { command, kills } = await started([NODE, '-e', 'setInterval(() => {}, 1000)'], false)
  command.send('SIGTERM')
  expect(await command.ended).toEqual({ code: null, signal: 'SIGTERM' })
  expect(kills).toEqual([[-command.pid, 'SIGTERM']])
})

it('on a terminal a signal goes to the command alone, which keeps the terminal', async () => {
  const { command, kills } = await started([NODE, '-e', 'setInterval(() => {}, 1000)'], true)
  command.send('SIGTERM')
  expect(exitCodeOf(await command.ended)).toBe(143)
  expect(kills).toEqual([[command.pid, 'SIGTERM']])
})

it('a command that is over is sent nothing: its number may be another one by now', async () => {
  const { command, kills } = await started([NODE, '-e', '0'], false)
  await command.ended
  command.send('SIGTERM')
  expect(kills).toEqual([])
})

it('what cannot be executed is told apart from what is not there, as a shell does', async () => {
  const options = { env: process.env, onTerminal: false, kill: () => undefined }
  expect(await startCommand({ ...options, words: ['/no/such/command'] })).toMatchObject({ code: 127 })
  expect(await startCommand({ ...options, words: [import.meta.filename] })).toMatchObject({ code: 126 })
  expect(await startCommand({ ...options, words: [NODE, 'a\0b'] })).toMatchObject({ code: 126 })
})
