// Room api: HTTP only. Parse, authorise, call keeper, render. It knows neither Nomad's URLs nor how anything is decided.
// This file: what the app needs of the rest of the process; the composition root wires it.
import type { FastifyInstance, FastifyBaseLogger, RawReplyDefaultExpression, RawRequestDefaultExpression } from 'fastify'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { Server } from 'node:http'
import type { OnUnavailable } from '../core/unavailable.ts'
import type { Keeper } from '../keeper/keeper.ts'
import type { Clock, Identities, Log, Variables } from '../keeper/ports.ts'
import type { Watcher } from '../keeper/watching/watcher.ts'
import type { Calls } from './calls.ts'

/** Figures about requests, and the page that shows all figures. */
interface HttpMeter {
  /** `route` is a pattern, never a URL; `unknown` for what has none. */
  observeRequest(route: string, method: string, status: number, ms: number): void
  countUnavailable(did: OnUnavailable, times: number): void
  page(): Promise<{ readonly contentType: string; readonly text: string }>
}

export interface ApiPorts {
  readonly keeper: Keeper
  readonly watcher: Watcher
  /** Under the service's own token: for what anybody may look at. */
  readonly variables: Variables
  /** Under the operator's token, so that Nomad's policies decide what an operator may do; null: under the service's own. */
  readonly operatorVariables: (token: string | null) => Variables
  /** Who workloads are; null: nobody is asked who they are. */
  readonly identities: Identities | null
  readonly clock: Clock
  readonly log: Log
  readonly meter: HttpMeter
  readonly calls: Calls
}

export type HttpApp = FastifyInstance<
  Server,
  RawRequestDefaultExpression<Server>,
  RawReplyDefaultExpression<Server>,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>
