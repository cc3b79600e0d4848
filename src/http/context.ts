import type { AuthenticatedKey, KeyStore } from '../accounts/keys.ts';
import type { Alerts } from '../alerts/alerts.ts';
import type { RefusalCounts } from '../accounts/refusals.ts';
import type { Sealing } from '../accounts/sealing.ts';
import type { AccountStore } from '../accounts/store.ts';
import type { ConfigFile } from '../config/schema.ts';
import type { Identity } from '../identity/identity.ts';
import type { Log } from '../support/log.ts';
import type { ReplicaDrains } from '../inference/replica-drains.ts';
import type { Inference } from '../inference/complete.ts';
import type { Router } from '../routing/router.ts';
import type { ModelRegistry } from '../serving/model-registry.ts';
import type { WriteQueue } from '../support/event-stream.ts';
import type { IdempotencyStore } from './idempotency/store.ts';
import type { RunningGenerations } from './running-generations.ts';
import type { LoadHistory } from './load-history.ts';
import type { ServiceMetrics } from './service-metrics.ts';
import type { Tracer } from '../tracing/tracer.ts';
import type { Principal } from './principal.ts';

/** Details of this installation, for operators. */
interface Installation {
  /** ID of this instance. */
  instance: string;
  /** Unix milliseconds. */
  startedAt: number;
  /** The data directory. */
  home: string;
  /** Whether an SMTP server is configured. */
  mail: boolean;
  /** Names of the configured sign-in providers. */
  providers: readonly string[];
  /** A better model than the default one; null: none fits this machine, or other models are configured. */
  recommendedModel: { id: string; sizeBytes: number; memoryBytes: number } | null;
  /** Scheduled backups; null: off. */
  backups: { readonly status: BackupStatus } | null;
}

/** Times are Unix milliseconds. */
interface BackupStatus {
  everyHours: number;
  keep: number;
  lastAt: number | null;
  failedAt: number | null;
  reason: string | null;
}

/** The dependencies of the routes, created once by the composition root. */
export interface HttpContext {
  router: Router;
  registry: ModelRegistry;
  drains: ReplicaDrains;
  inference: Inference;
  keys: KeyStore;
  accounts: AccountStore;
  sealing: Sealing;
  identity: Identity;
  generations: RunningGenerations;
  idempotency: IdempotencyStore;
  load: LoadHistory;
  refusals: RefusalCounts;
  alerts: Alerts;
  metrics: ServiceMetrics;
  /** Null if no traces are sent. */
  tracer: Tracer | null;
  installation: Installation;
  /** As of the start. `Plans` has those that may change. */
  settings: Omit<ConfigFile, 'plans' | 'defaultPlan'>;
  writes: WriteQueue;
  /** Returns the URL that callers use. A function, because the port may be assigned when the server listens. */
  publicUrl(): string;
  version: string;
  log: Log;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The key of the request; null before authentication, and on endpoints that need no key. */
    caller: AuthenticatedKey | null;
    /** The caller of the management API; null: unknown. */
    principal: Principal | null;
  }
}
