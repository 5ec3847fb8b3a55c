import { constants } from 'node:os'

/** Its number; a name that is not known is SIGINT, as it is for Nomad's drivers. */
export function signalNumber(name: string): number {
  return (constants.signals as Record<string, number>)[name] ?? constants.signals.SIGINT
}

/** How a shell tells that a signal has ended a process. */
export const exitCodeOf = (signal: number): number => 128 + signal

/** The signal that has ended a process, by its exit code; 0: none has. */
export const signalOf = (exitCode: number): number => Math.max(0, exitCode - 128)
