import { describe, expect, it } from 'vitest'
import { kindOf } from '../src/core/errors.ts'
import { authOf, isLoopback, listenAddress, type Auth } from '../src/listen.ts'

describe('who calls', () => {
  it.each<[string, Auth[], Auth | 'refused']>([
    ['127.0.0.1:4650', [], 'none'],
    ['127.0.0.1:4650', ['none'], 'none'],
    ['127.0.0.1:4650', ['identity'], 'identity'],
    ['[::1]:4650', [], 'none'],
    [':4650', [], 'identity'],
    ['0.0.0.0:4650', [], 'identity'],
    ['10.0.0.7:4650', [], 'identity'],
    ['10.0.0.7:4650', ['identity', 'identity'], 'identity'],
    ['10.0.0.7:4650', ['none'], 'refused'],
    ['10.0.0.7:4650', ['none', 'none'], 'none'],
    ['10.0.0.7:4650', ['none', 'identity'], 'refused'],
    ['127.0.0.1:4650', ['identity', 'none'], 'refused'],
  ])('on %s, when %j was said: %s', (listen, said, expected) => {
    let auth: string
    try {
      auth = authOf(said, listenAddress(listen))
    } catch (error) {
      auth = kindOf(error) === 'invalid_request' ? 'refused' : String(error)
    }
    expect(auth).toBe(expected)
  })
})

it.each([
  ['localhost', true],
  ['127.0.0.1', true],
  ['127.1.2.3', true],
  ['::1', true],
  ['127.0.0.1.example.org', false],
  ['::', false],
  ['0.0.0.0', false],
  ['192.168.0.1', false],
])('%s is loopback: %s', (host, expected) => {
  expect(isLoopback(host)).toBe(expected)
})
