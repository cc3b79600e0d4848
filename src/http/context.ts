import type { AuthenticatedKey, KeyStore } from '../accounts/keys.ts';
import type { AccountStore } from '../accounts/store.ts';
import type { ConfigFile } from '../config/schema.ts';
import type { Identity } from '../identity/identity.ts';
import type { Log } from '../log.ts';
import type { Inference } from '../inference/complete.ts';
import type { Router } from '../routing/router.ts';
import type { WriteQueue } from '../event-stream.ts';
import type { Activity } from './activity.ts';
import type { Load } from './load.ts';
import type { Principal } from './principal.ts';

/** What is told of this installation, for operators. */
interface Installation {
  /** The name of this copy of the service. */
  copy: string;
  /** Unix milliseconds. */
  startedAt: number;
  /** The home folder. */
  home: string;
  /** Whether it can write to people. */
  mail: boolean;
  /** What the providers that people may sign in with are called. */
  providers: readonly string[];
}

/** All that the routes use; the composition root makes it once. */
export interface HttpContext {
  router: Router;
  inference: Inference;
  keys: KeyStore;
  accounts: AccountStore;
  identity: Identity;
  activity: Activity;
  load: Load;
  installation: Installation;
  limits: ConfigFile['limits'];
  stream: ConfigFile['stream'];
  writes: WriteQueue;
  requireKeyForModels: boolean;
  /** Whether the console's pages are served. */
  consoleEnabled: boolean;
  trustedProxies: readonly string[];
  /** The address callers use; asked late, since the port may be any free one. */
  publicUrl(): string;
  version: string;
  log: Log;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Who sent the request; null before it is authenticated, and on endpoints open to all. */
    caller: AuthenticatedKey | null;
    /** Who calls the management interface; null: nobody that is known. */
    principal: Principal | null;
  }
}
