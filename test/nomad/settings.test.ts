import { describe, expect, it } from 'vitest'
import { nomadSettings } from '../../src/nomad/settings.ts'

describe('settings from the environment', () => {
  it('without any setting it is the local agent, the default namespace and no token', () => {
    expect(nomadSettings({})).toEqual({
      addresses: ['http://127.0.0.1:4646'],
      namespace: 'default',
      token: {},
      tls: { skipVerify: false },
    })
  })

  it('everything that the Nomad CLI reads is read', () => {
    const env = {
      NOMAD_ADDR: 'https://nomad.example:4646/',
      NOMAD_NAMESPACE: 'ops',
      NOMAD_REGION: 'eu',
      NOMAD_TOKEN: ' secret\n',
      NOMAD_CACERT: '/tls/ca.pem',
      NOMAD_CAPATH: '/tls/ca',
      NOMAD_CLIENT_CERT: '/tls/cert.pem',
      NOMAD_CLIENT_KEY: '/tls/key.pem',
      NOMAD_TLS_SERVER_NAME: 'server.eu.nomad',
      NOMAD_SKIP_VERIFY: 'true',
    }
    expect(nomadSettings(env)).toEqual({
      addresses: ['https://nomad.example:4646'],
      namespace: 'ops',
      region: 'eu',
      token: { value: 'secret' },
      tls: {
        caFile: '/tls/ca.pem',
        caDirectory: '/tls/ca',
        clientCertificate: '/tls/cert.pem',
        clientKey: '/tls/key.pem',
        serverName: 'server.eu.nomad',
        skipVerify: true,
      },
    })
  })

  it('an empty setting is as good as none', () => {
    const names = ['NOMAD_ADDR', 'NOMAD_NAMESPACE', 'NOMAD_REGION', 'NOMAD_TOKEN', 'NOMAD_TOKEN_FILE', 'NOMAD_SKIP_VERIFY']
    expect(nomadSettings(Object.fromEntries(names.map((name) => [name, ' '])))).toEqual(nomadSettings({}))
  })

  it('several addresses are a list, each once, and a socket is an address too', () => {
    const { addresses } = nomadSettings({ NOMAD_ADDR: 'http://a:4646, http://b:4646/,http://a:4646,unix:///secrets/api.sock,' })
    expect(addresses).toEqual(['http://a:4646', 'http://b:4646', 'unix:///secrets/api.sock'])
  })

  it('a token file wins over a token, which grows old', () => {
    expect(nomadSettings({ NOMAD_TOKEN: 'old', NOMAD_TOKEN_FILE: '/secrets/nomad_token' }).token).toEqual({
      file: '/secrets/nomad_token',
    })
  })

  it.each([
    [{ NOMAD_NAMESPACE: '*' }, /NOMAD_NAMESPACE/],
    [{ NOMAD_ADDR: 'localhost' }, /NOMAD_ADDR.*not a URL/],
    [{ NOMAD_ADDR: 'localhost:4646' }, /NOMAD_ADDR.*http:\/\//],
    [{ NOMAD_ADDR: 'http://me:hunter2@nomad:4646' }, /NOMAD_ADDR.*password/],
    [{ NOMAD_ADDR: 'http://nomad:4646/v1' }, /NOMAD_ADDR.*path/],
    [{ NOMAD_ADDR: 'http://nomad:4646?x=1' }, /NOMAD_ADDR.*query/],
    [{ NOMAD_ADDR: 'unix://' }, /NOMAD_ADDR/],
    [{ NOMAD_ADDR: ',' }, /NOMAD_ADDR/],
    [{ NOMAD_TOKEN: 'hunter2 hunter2' }, /NOMAD_TOKEN/],
    [{ NOMAD_CLIENT_CERT: '/cert.pem' }, /NOMAD_CLIENT_KEY/],
    [{ NOMAD_SKIP_VERIFY: 'yes' }, /NOMAD_SKIP_VERIFY/],
  ])('what cannot be meant is refused with the name of the setting, and without its secret: %o', (env, text) => {
    let thrown: unknown
    try {
      nomadSettings(env)
    } catch (error) {
      thrown = error
    }
    expect(thrown).toMatchObject({ name: 'Problem', kind: 'invalid_request', message: expect.stringMatching(text) as string })
    expect((thrown as Error).message).not.toMatch(/hunter2/)
  })
})
