import { statfs } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { FastifyInstance } from 'fastify';
import { auditRetention } from './accounts/audit.ts';
import type { Clock } from './accounts/clock.ts';
import { KeyStore, type AuthenticatedKey } from './accounts/keys.ts';
import type { Ledger } from './accounts/ledger/ledger.ts';
import { openLedger } from './accounts/ledger/open-ledger.ts';
import { openLimiter } from './accounts/limits/open-limiter.ts';
import { hasOperator, ownerAddresses } from './accounts/users.ts';
import { Plans, warnAboutMissingPlans, recordPlans } from './accounts/plans.ts';
import { RefusalCounts } from './accounts/refusals.ts';
import { Sealing } from './accounts/sealing.ts';
import { AccountStore } from './accounts/store.ts';
import { Alerts } from './alerts/alerts.ts';
import { Channels } from './alerts/channels.ts';
import type { Config } from './config/schema.ts';
import { replicaSecrets, type Secrets } from './config/load.ts';
import { openDatabase, type Database } from './database/database.ts';
import { FIRST_MIGRATION } from './database/migrations.ts';
import { ScheduledBackups } from './database/scheduled-backups.ts';
import { ServiceLock } from './database/service-lock.ts';
import type { EmbeddedReplica } from './serving/embedded-replica.ts';
import { recommendedModel, type RecommendedModel } from './models/recommended-model.ts';
import { conversationSettings } from './serving/embedded-replica.ts';
import { deleteAbandoned } from './engine/llama/conversations/store-directory.ts';
import { socketDirectory } from './serving/socket-directory.ts';
import { ServiceError } from './core/errors.ts';
import type { HttpContext } from './http/context.ts';
import { modelNotAllowed } from './http/generate.ts';
import { exposeGauges, ServiceMetrics } from './http/service-metrics.ts';
import { openIdempotency } from './http/idempotency/store.ts';
import { RunningGenerations } from './http/running-generations.ts';
import { LoadHistory } from './http/load-history.ts';
import { serveMetrics, type MetricsServer } from './http/metrics-endpoint.ts';
import { buildServer } from './http/server.ts';
import { expiredSignIns } from './identity/expiry.ts';
import { Identity } from './identity/identity.ts';
import type { PasswordHasher } from './identity/password.ts';
import { openSecretKeys } from './identity/stored-secrets.ts';
import { createSetupLink } from './identity/setup.ts';
import { ReplicaDrains } from './inference/replica-drains.ts';
import { openInference } from './inference/complete.ts';
import { PromptHistory } from './inference/prompt-history.ts';
import type { Log } from './support/log.ts';
import { ModelStore } from './models/store.ts';
import { SYSTEM_CLOCK } from './routing/breaker.ts';
import { Router } from './routing/router.ts';
import { ModelRegistry } from './serving/model-registry.ts';
import type { Tracer } from './tracing/tracer.ts';
import { VERSION } from './support/version.ts';
import { WriteQueue } from './support/event-stream.ts';

/** Fields of the configuration that a running service reloads. */
const RELOADED: ReadonlySet<string> = new Set(['plans', 'defaultPlan']);

/** How long streams may take to send their last frame after `drainMs`, in milliseconds. */
const LAST_FRAME_MS = 1000;

export interface ServiceOptions {
  config: Config;
  secrets: Secrets;
  /** Environment variables: `HF_ENDPOINT` and `HF_TOKEN` for downloads, and those of proxies. */
  env: NodeJS.ProcessEnv;
  log: Log;
  /** The clock of keys and of limits in memory; by default, the system clock. */
  clock?: Clock;
  /** By default, scrypt. */
  passwords?: PasswordHasher;
  /** Stops waiting to migrate the database. */
  signal?: AbortSignal;
  /** Whether it checks for alerts, deletes old rows and records changes of plans. Default: true. */
  hasDuties?: boolean;
}

/** Creates every object of the service from the configuration, and disposes of them in reverse order. */
export class Service implements AsyncDisposable {
  readonly router: Router;
  readonly keys: KeyStore;
  /**
   * A model that is better than the default one and fits into the memory that was free at startup; null if there is
   * none.
   */
  readonly recommendedModel: RecommendedModel | null;
  readonly #parts: ServiceParts;
  readonly #owned: AsyncDisposableStack;

  private constructor(parts: ServiceParts, owned: AsyncDisposableStack) {
    this.router = parts.router;
    this.keys = parts.keys;
    this.recommendedModel = parts.recommended;
    this.#parts = parts;
    this.#owned = owned;
  }

  /**
   * Opens the database, listens and starts every model. Models may still be loading when it resolves. Rejects with a
   * `DatabaseError`, for example if another service uses the same SQLite database, or with Node's error if it cannot
   * listen on the address.
   */
  static async open(options: ServiceOptions): Promise<Service> {
    const { config, secrets, log, clock, passwords, hasDuties = true } = options;
    await using owned = new AsyncDisposableStack();
    // The lock is taken before the database is migrated, because a migration would break another running service. There
    // is no lock on PostgreSQL, where instances share the database.
    const lock = config.databaseUrl === null ? owned.use(await ServiceLock.take(config.home)) : null;
    const database = owned.use(await openServiceDatabase(options));
    const secretKeys = await openSecretKeys(config, database, log);
    const backups = owned.use(ScheduledBackups.open(config, database, log));
    if (hasDuties) owned.use(auditRetention(database, config.file.audit.keepDays, log));
    if (hasDuties) void owned.use(expiredSignIns(database, log)).run();
    const generations = new RunningGenerations();
    const router = new Router({ ...config.file, log, clock: SYSTEM_CLOCK });
    const keys = owned.use(
      await KeyStore.open(database, log, {
        maxStaleMs: config.file.keys.maxStaleMs,
        clock,
        afterRefresh: (known) => generations.abort((caller, model) => endedAccess(known, caller, model)),
        onClosed: (cacheScope) => router.forget(cacheScope),
      }),
    );
    const registry = owned.use(await openModels(options, database, router));
    const limiter = owned.use(await openLimiter(config, database, log, clock));
    const plans = new Plans(config.file);
    if (hasDuties) await recordPlans(database, plans, log);
    await warnAboutMissingPlans(database, plans, log);
    const ledger = owned.use(
      await openLedger({
        database,
        exclusive: lock !== null,
        settings: config.file.ledger,
        log,
        onFenced: () => generations.abort(fenced),
        onReaped: () => limiter.invalidate(),
      }),
    );
    const idempotency = owned.use(await openIdempotency({ config, generations, ledger, log }));
    const publicUrl = () => config.file.publicUrl ?? addressOf(app, config.host);
    const identity = owned.use(
      new Identity({ database, config: config.file, secrets, secretKeys, publicUrl, log, passwords }),
    );
    // Computed once, so that the console and the startup message recommend the same model.
    const hasAdded = router.overview().length > config.file.models.length;
    const recommended = hasAdded ? null : recommendedModel(config.file.models);
    const accounting = { plans, limiter, ledger, prompts: new PromptHistory() };
    const startedAt = Date.now();
    const alerts = owned.use(
      openAlerts(options, { database, plans, router, ledger, backups, identity, publicUrl, startedAt }),
    );
    const metrics = owned.use(
      new ServiceMetrics(() => exposeGauges(router, registry.swaps, accounting, alerts)),
    );
    const app = buildServer({
      router,
      registry,
      drains: owned.use(await ReplicaDrains.open(database, router)),
      inference: openInference(accounting, config.file, log),
      keys,
      accounts: new AccountStore(database),
      sealing: await Sealing.open(secretKeys),
      identity,
      generations,
      idempotency,
      load: new LoadHistory(),
      refusals: owned.use(new RefusalCounts(database, log)),
      alerts,
      metrics,
      installation: installationOf(config, { startedAt, recommended, backups }),
      tracer: owned.use(await openTracer(options)),
      settings: config.file,
      writes: new WriteQueue(),
      publicUrl,
      version: VERSION,
      log,
    });
    owned.defer(() => app.close());
    await app.listen({ host: config.host, port: config.port });
    const metricsServer = owned.use(await serveMetrics(config.file, metrics, log));
    if (database.location.kind === 'sqlite') lock?.listening(publicUrl(), database.location.files);
    registry.start();
    void backups?.runIfDue();
    if (hasDuties) alerts.start();
    const parts = { config, database, plans, log, router, keys, generations, app, metricsServer };
    return new Service({ ...parts, registry, recommended }, owned.move());
  }

  get embeddedReplicas(): readonly EmbeddedReplica[] {
    return this.#parts.registry.embeddedReplicas;
  }

  /** The URL for callers, without `/v1`: `publicUrl`, or the listening address. */
  get url(): string {
    return this.#parts.config.file.publicUrl ?? this.localUrl;
  }

  /** The URL of the listening address. */
  get localUrl(): string {
    return addressOf(this.#parts.app, this.#parts.config.host);
  }

  /** The URL that serves the metrics to callers without a key; null: `metrics.port` is not set. */
  get metricsUrl(): string | null {
    return this.#parts.metricsServer?.url ?? null;
  }

  get hasConsole(): boolean {
    return this.#parts.config.file.console.enabled;
  }

  async hasOperator(): Promise<boolean> {
    return await hasOperator(this.#parts.database);
  }

  /**
   * Creates the setup link for the first operator, which is valid for an hour. Resolves to null if there is an
   * operator.
   */
  async createSetupLink(): Promise<string | null> {
    return await createSetupLink(this.#parts.database, this.url);
  }

  /**
   * Applies the plans of a changed configuration. Logs other changed fields, which apply after a restart. Running
   * requests keep the limits that they were admitted with.
   */
  async reload(config: Config): Promise<void> {
    const { plans, database, log } = this.#parts;
    const previous = this.#parts.config.file;
    const { file } = config;
    plans.replace(file);
    const fields = Object.keys({ ...previous, ...file }).filter((field) => {
      const key = field as keyof typeof file;
      return !RELOADED.has(key) && !isDeepStrictEqual(previous[key], file[key]);
    });
    log.info('configuration reloaded', { plans: Object.keys(file.plans) });
    if (fields.length > 0) log.warn('restart the service to apply these fields', { fields });
    await recordPlans(database, plans, log);
    await warnAboutMissingPlans(database, plans, log);
  }

  /** Refuses new requests, waits up to `drainMs` for the running ones, then ends the rest with `shutting_down`. */
  async drain(): Promise<void> {
    const { generations, config, log } = this.#parts;
    const { drainMs } = config.file;
    generations.drain();
    log.info('stopping', { running: generations.running, drainMs });
    if (await resolvesWithin(generations.idle(), drainMs)) return;
    log.warn('ending the remaining requests', { running: generations.running });
    generations.abort(
      () => new ServiceError('shutting_down', 'The service stopped before the response was complete.'),
    );
    await resolvesWithin(generations.idle(), LAST_FRAME_MS);
  }

  /** Kills the engines. Called when the process exits without disposing of the service. */
  killEngines(): void {
    this.#parts.registry.kill();
  }

  /** Stops everything immediately. Call `drain()` first to let requests finish. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync();
  }
}

/** Returns what operators see of this installation. */
function installationOf(
  { file, home }: Config,
  { startedAt, recommended, backups }: InstallationParts,
): HttpContext['installation'] {
  return {
    instance: INSTANCE,
    startedAt,
    home,
    mail: file.smtp !== undefined,
    providers: file.signIn.providers.map(({ name }) => name),
    recommendedModel: recommended,
    backups,
  };
}

interface InstallationParts {
  startedAt: number;
  recommended: RecommendedModel | null;
  backups: ScheduledBackups | null;
}

interface AlertSources {
  database: Database;
  plans: Plans;
  router: Router;
  ledger: Ledger;
  backups: ScheduledBackups | null;
  identity: Identity;
  publicUrl: () => string;
  startedAt: number;
}

/** Creates the alerts, which are not checked yet. */
function openAlerts(
  { config: { file, home }, secrets, env, log }: ServiceOptions,
  { database, plans, router, ledger, backups, identity, publicUrl, startedAt }: AlertSources,
): Alerts {
  const settings = file.alerts;
  return new Alerts({
    database,
    settings,
    channels: new Channels({
      settings,
      secrets,
      mailer: identity.mailer,
      ownerAddresses: (accountId) => ownerAddresses(database, accountId),
      publicUrl,
      env,
    }),
    plans,
    observe: async () => ({
      startedAt,
      home,
      freeBytes: await freeBytes(home),
      replicas: router.reports(),
      ledger: ledger.health,
      backup: backups?.status ?? null,
    }),
    log,
    home,
  });
}

/** Returns the free bytes on the disk of a directory; null: unknown. */
async function freeBytes(directory: string): Promise<number | null> {
  const disk = await statfs(directory).catch(() => null);
  return disk && disk.bavail * disk.bsize;
}

/** Identifies this process to operators. */
const INSTANCE = `${hostname()}:${process.pid}`;

/** Loads the tracer only if traces are sent. */
async function openTracer({ config: { tracing }, env, log }: ServiceOptions): Promise<Tracer | null> {
  if (tracing === null) return null;
  const { Tracer } = await import('./tracing/tracer.ts');
  return new Tracer(tracing, { instance: INSTANCE, env, log });
}

/** Opens the database, and logs the migrations of an existing one, which can take minutes. */
async function openServiceDatabase({ config, log, signal }: ServiceOptions): Promise<Database> {
  let isNew = false;
  return await openDatabase({
    home: config.home,
    url: config.databaseUrl,
    threads: true,
    onMigration: (migration) => {
      isNew ||= migration === FIRST_MIGRATION;
      if (!isNew) log.info('migrating the database', { migration });
    },
    onMigrationWait: (client) => log.warn('waiting to migrate the database', { lockedBy: client }),
    signal,
  });
}

/** Creates the models, which are not started yet. */
async function openModels(
  { config, secrets, env, log }: ServiceOptions,
  database: Database,
  router: Router,
): Promise<ModelRegistry> {
  const sockets = await socketDirectory(config.home);
  // On a RAM disk, they need the memory of the models.
  await deleteAbandoned(conversationSettings(config.file.engine, sockets));
  return await ModelRegistry.open(database, {
    config,
    secrets: new Map([...replicaSecrets(env), ...secrets]),
    store: new ModelStore({ home: config.home, log, env }),
    env,
    sockets,
    log,
    router,
  });
}

interface ServiceParts {
  config: Config;
  database: Database;
  plans: Plans;
  log: Log;
  router: Router;
  keys: KeyStore;
  registry: ModelRegistry;
  recommended: RecommendedModel | null;
  generations: RunningGenerations;
  app: FastifyInstance;
  metricsServer: MetricsServer | null;
}

/** Returns why a running generation must end; null: its key may still be used for its model. */
function endedAccess(keys: KeyStore, caller: AuthenticatedKey, model: string | null): ServiceError | null {
  const current = keys.current(caller);
  if (current === null) return keyInvalidated();
  return model === null || current.models?.has(model) !== false ? null : modelNotAllowed(model);
}

/** The error of a running generation whose key was revoked or has expired, or whose account was suspended. */
function keyInvalidated(): ServiceError {
  return new ServiceError('invalid_api_key', 'The key of this request is no longer valid.');
}

/** The error of a running generation that another instance settled as interrupted, because this one lost its lease. */
function fenced(): ServiceError {
  return new ServiceError('storage_unavailable', 'The usage of this request could not be saved.');
}

function addressOf(app: FastifyInstance, host: string): string {
  const address = app.server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

async function resolvesWithin(promise: Promise<void>, ms: number): Promise<boolean> {
  return await Promise.race([promise.then(() => true), setTimeout(ms, false, { ref: false })]);
}
