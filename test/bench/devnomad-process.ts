// The simulated Nomad in a process of its own. A write takes `WRITE_MS` longer, as the log of three real servers does.
import { randomUUID } from 'node:crypto'
import { DevNomad, type Request } from '../../src/devnomad/devnomad.ts'
import { systemClock } from '../../src/keeper/clock.ts'

const nomad = new DevNomad({ clock: systemClock, newId: randomUUID, random: Math.random })
const ms = Number(process.env['WRITE_MS'] ?? 0)
const isWrite = ({ method, path }: Request) => method !== 'GET' && path.startsWith('/v1/var/') && !path.includes('lock-renew')
if (ms > 0) nomad.faults.next(isWrite, { kind: 'delay', ms }, Infinity)
const { address } = await nomad.listen()
process.send?.({ address })
process.on('disconnect', () => process.exit(0))
