// Makes dist/lockkeeper.cjs: the whole program in one file, for Node and nothing else beside it. What a verb does not need is in it as
// text that is compiled when it is asked for: to parse the service as well would double the time in which a shim starts.
import { chmod, writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { rolldown } from 'rolldown'

const { values } = parseArgs({ options: { to: { type: 'string', default: 'dist/lockkeeper.cjs' } } })
const bundle = await rolldown({ input: { lockkeeper: 'src/bin.ts' }, platform: 'node' })
const { output } = await bundle.generate({
  format: 'cjs',
  minify: true,
  dynamicImportInCjs: false,
  chunkFileNames: '[name].cjs',
  entryFileNames: '[name].cjs',
})
await bundle.close()

const texts = Object.fromEntries(output.map(({ fileName, code }) => [`./${fileName}`, code.replace(/^#!.*\n/, '')]))
const load = `
const { compileFunction } = require('node:vm')
const loaded = new Map()
function load(name) {
  if (!Object.hasOwn(texts, name)) return require(name)
  if (loaded.has(name)) return loaded.get(name).exports
  const module = { exports: {} }
  loaded.set(name, module)
  compileFunction(texts[name], ['require', 'module', 'exports'], { filename: name })(load, module, module.exports)
  return module.exports
}
load('./lockkeeper.cjs')
`
// In ASCII: with one other letter in it, Node keeps the whole file with two bytes a letter.
const ascii = JSON.stringify(texts).replace(/[^\0-\x7f]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`)
await writeFile(values.to, `#!/usr/bin/env node\n'use strict'\nconst texts = ${ascii}\n${load.trimStart()}`)
await chmod(values.to, 0o755)
