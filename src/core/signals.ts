/** What Nomad's drivers know by name. Any other name they take for SIGINT, and say so in the agent's log alone (measured). */
export const SIGNALS = [
  'SIGABRT',
  'SIGALRM',
  'SIGBUS',
  'SIGCONT',
  'SIGFPE',
  'SIGHUP',
  'SIGILL',
  'SIGINT',
  'SIGIO',
  'SIGIOT',
  'SIGKILL',
  'SIGPIPE',
  'SIGPROF',
  'SIGQUIT',
  'SIGSEGV',
  'SIGSTOP',
  'SIGSYS',
  'SIGTERM',
  'SIGTRAP',
  'SIGTSTP',
  'SIGTTIN',
  'SIGTTOU',
  'SIGUSR1',
  'SIGUSR2',
  'SIGWINCH',
  'SIGXCPU',
  'SIGXFSZ',
] as const

export function isSignal(name: string): boolean {
  return SIGNALS.some((known) => known === name)
}
