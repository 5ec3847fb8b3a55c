// What Nomad fills into a job where nothing was said (measured). Constraints that it adds by itself are not among them.
import type { Migrate } from './shapes.ts'

const SECOND = 1e9
const MINUTE = 60 * SECOND

export const JOB = {
  Affinities: null,
  AllAtOnce: false,
  Constraints: null,
  ConsulNamespace: '',
  DispatchIdempotencyToken: '',
  Dispatched: false,
  Multiregion: null,
  NomadTokenID: '',
  ParameterizedJob: null,
  ParentID: '',
  Payload: null,
  Periodic: null,
  Region: 'global',
  Spreads: null,
  StatusDescription: '',
  UI: null,
  VaultNamespace: '',
  VersionTag: null,
}

export const GROUP = {
  Affinities: null,
  Constraints: null,
  Consul: null,
  Count: 1,
  EphemeralDisk: { Migrate: false, SizeMB: 300, Sticky: false },
  MaxClientDisconnect: null,
  MaxRunDuration: null,
  Networks: null,
  PreventRescheduleOnLost: false,
  Scaling: null,
  ShutdownDelay: null,
  Spreads: null,
  StopAfterClientDisconnect: null,
  Volumes: null,
}

export const TASK = {
  Actions: null,
  Affinities: null,
  Artifacts: null,
  CSIPluginConfig: null,
  Constraints: null,
  Consul: null,
  DispatchPayload: null,
  Env: null,
  KillSignal: '',
  KillTimeout: 5 * SECOND,
  Kind: '',
  Leader: false,
  LogConfig: { Disabled: false, MaxFileSizeMB: 10, MaxFiles: 10 },
  ScalingPolicies: null,
  Schedule: null,
  Secrets: null,
  ShutdownDelay: 0,
  User: '',
  Vault: null,
  VolumeMounts: null,
}

export const TEMPLATE = {
  EmbeddedTmpl: '',
  SourcePath: '',
  DestPath: '',
  ChangeMode: 'restart',
  ChangeSignal: '',
  ChangeScript: null,
  Envvars: false,
  ErrMissingKey: false,
  LeftDelim: '{{',
  RightDelim: '}}',
  Perms: '0644',
  Uid: null,
  Gid: null,
  Splay: 5 * SECOND,
  Once: false,
  VaultGrace: 0,
  Wait: null,
}

export const CHANGE_SCRIPT = { Timeout: 5 * SECOND, FailOnError: false }

export const VAULT = { ChangeMode: 'restart', ChangeSignal: 'SIGHUP', DisableFile: false }

export const IDENTITY = {
  Name: 'default',
  Audience: [],
  ChangeMode: '',
  ChangeSignal: '',
  Env: false,
  ExtraClaims: null,
  File: false,
  Filepath: '',
  ServiceName: '',
  TTL: 0,
}

export const SERVICE = {
  Address: '',
  AddressMode: 'auto',
  CanaryMeta: null,
  CanaryTags: null,
  Cluster: 'default',
  Connect: null,
  EnableTagOverride: false,
  Identity: null,
  Kind: '',
  Meta: null,
  PortLabel: '',
  TaggedAddresses: null,
  Tags: null,
  TaskName: '',
  Weights: null,
}

export const CHECK = {
  AddressMode: '',
  Args: null,
  Body: '',
  CheckRestart: null,
  Command: '',
  Expose: false,
  FailuresBeforeCritical: 0,
  FailuresBeforeWarning: 0,
  GRPCService: '',
  GRPCUseTLS: false,
  Header: null,
  InitialStatus: '',
  Interval: 10 * SECOND,
  Method: '',
  Notes: '',
  PortLabel: '',
  Protocol: '',
  SuccessBeforePassing: 0,
  TLSServerName: '',
  TLSSkipVerify: false,
  TaskName: '',
}

export const RESOURCES = {
  CPU: 100,
  Cores: 0,
  Devices: null,
  DiskMB: 0,
  IOPS: 0,
  MemoryMB: 300,
  MemoryMaxMB: 0,
  NUMA: null,
  Networks: null,
  SecretsMB: 0,
}

export const MIGRATE: Migrate = {
  MaxParallel: 1,
  HealthCheck: 'checks',
  MinHealthyTime: 10 * SECOND,
  HealthyDeadline: 5 * MINUTE,
}

export const UPDATE = {
  AutoPromote: false,
  AutoRevert: false,
  Canary: 0,
  HealthCheck: 'checks',
  HealthyDeadline: 5 * MINUTE,
  MaxParallel: 1,
  MinHealthyTime: 10 * SECOND,
  ProgressDeadline: 10 * MINUTE,
  Stagger: 30 * SECOND,
}
