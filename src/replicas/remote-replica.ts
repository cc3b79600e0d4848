import type { ConfigFile, ModelConfig } from '../config/schema.ts';
import type { NamedReplica, ReplicaConfig } from '../config/model.ts';
import type { Log } from '../support/log.ts';
import { proxyOf } from '../support/proxy-agent.ts';
import type { Secret } from '../support/secret.ts';
import { ownCapacity, type EngineState, type ReplicaCapacity } from './replica.ts';
import type { ModelDescription } from '../engine/engine.ts';
import { DIALECT_TRAITS, type HealthCheck } from './dialects.ts';
import { type Gauges, HealthHistory, EMPTY_REPORT, type ReplicaReport } from './replica-report.ts';
import { HttpReplicaClient } from './replica-client.ts';

interface RemoteReplicaContext {
  /** Secrets by the name of their environment variable. */
  secrets: ReadonlyMap<string, Secret>;
  timeouts: ConfigFile['engine'];
  /** The variables of proxies. */
  env: NodeJS.ProcessEnv;
  log: Log;
}

/** Creates a configured replica of a model, without starting it. Throws a `ProxyVariableError`. */
export function createRemoteReplica(
  model: ModelConfig,
  replica: NamedReplica,
  { secrets, timeouts, env, log }: RemoteReplicaContext,
): RemoteReplica {
  const { dialect, url, apiKeyEnv, sharedPrefixCache, exactCounts, reasoningField } = replica;
  const headers = new Map<string, string | Secret>(Object.entries(replica.headers ?? {}));
  for (const [header, variable] of Object.entries(replica.headersEnv ?? {})) {
    const value = secrets.get(variable);
    if (value !== undefined) headers.set(header, value);
  }
  const client = new HttpReplicaClient({
    ...timeouts,
    name: replica.name,
    dialect,
    url,
    apiKey: apiKeyEnv === undefined ? undefined : secrets.get(apiKeyEnv),
    headers,
    model: replica.model ?? model.id,
    contextTokens: model.contextTokens,
    reasoningField,
    sharedPrefixCache,
    exactCounts,
    proxy: proxyOf(new URL(url), env),
    log,
  });
  return new RemoteReplica(client, replica, log);
}

/** Interval at which the load of a replica is read, and the interval after a failure, in milliseconds. */
const GAUGES_MS = 1000;
export const GAUGES_RETRY_MS = 30_000;

/** A replica on another server. Checks its health periodically, so that failures are detected before a request is sent. */
export class RemoteReplica implements AsyncDisposable {
  readonly client: HttpReplicaClient;
  readonly maxInFlight: number | undefined;
  readonly address: string;
  readonly #log: Log;
  readonly #healthCheck: HealthCheck;
  #state: EngineState = { state: 'loading', fraction: 0 };
  #description: ModelDescription | null = null;
  readonly #health = new HealthHistory();
  /** Null: not reported. */
  #gauges: Gauges | null = null;
  #capacity: ReplicaCapacity | null = null;
  #reportsLoad = true;
  #nextCheck: NodeJS.Timeout | undefined;
  #nextGauges: NodeJS.Timeout | undefined;
  readonly #stop = new AbortController();

  constructor(client: HttpReplicaClient, { url, maxInFlight }: ReplicaConfig, log: Log) {
    this.client = client;
    this.address = url;
    this.maxInFlight = maxInFlight;
    this.#log = log.with({ replica: client.name });
    this.#healthCheck = DIALECT_TRAITS[client.dialect].healthCheck;
  }

  state(): EngineState {
    return this.#state;
  }

  capacity(): ReplicaCapacity | null {
    return this.#capacity;
  }

  report(): ReplicaReport {
    return { ...EMPTY_REPORT, health: this.#health.last, tokensPerSecond: this.#health.tokensPerSecond };
  }

  /** The replica's model; null until the replica is healthy for the first time. */
  get description(): ModelDescription | null {
    return this.#description;
  }

  /** Starts the health checks. Resolves after the first one. */
  async start(): Promise<void> {
    await this.#check();
    void this.#readGauges();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    clearTimeout(this.#nextCheck);
    clearTimeout(this.#nextGauges);
    await this.client[Symbol.asyncDispose]();
  }

  async #check(): Promise<void> {
    const { intervalMs, retryMs } = this.#healthCheck;
    try {
      await this.client.withTimeout(async (signal) => {
        const health = await this.client.health(signal);
        const wasReady = this.#state.state === 'ready';
        if (!wasReady) {
          // A server that was down may have been started with other settings.
          this.#description = await this.client.describe(signal);
          // Read the load before requests are sent: without it, their number would not be limited.
          this.#gauges = await this.client.gauges(signal).catch(() => null);
        }
        this.#health.add({ ...health, ...this.#gauges });
        if (!wasReady || this.#gauges === null) this.#updateCapacity();
      }, this.#stop.signal);
      if (this.#state.state !== 'ready') this.#log.info('replica is healthy');
      this.#state = { state: 'ready' };
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      this.#health.clear();
      this.#gauges = null;
      this.#capacity = null;
      if (this.#state.state !== 'down') {
        this.#log.warn('replica is unhealthy', { error: error instanceof Error ? error : String(error) });
      }
      this.#state = {
        state: 'down',
        reason: `its health check failed: ${rootMessage(error)}`,
        retryInMs: retryMs,
      };
    }
    this.#nextCheck = setTimeout(
      () => void this.#check(),
      this.#state.state === 'ready' ? intervalMs : retryMs,
    ).unref();
  }

  /** Reads the load of the server now, and from then on periodically. */
  async #readGauges(): Promise<void> {
    let delayMs = GAUGES_MS;
    if (this.#state.state === 'ready') {
      try {
        const gauges = await this.client.withTimeout(
          (signal) => this.client.gauges(signal),
          this.#stop.signal,
        );
        if (gauges === null) return;
        this.#addGauges(gauges);
        this.#reportsLoad = true;
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        if (this.#reportsLoad)
          this.#log.info('replica does not report its load', { cause: rootMessage(error) });
        this.#reportsLoad = false;
        this.#gauges = null;
        this.#updateCapacity();
        delayMs = GAUGES_RETRY_MS;
      }
    }
    this.#nextGauges = setTimeout(() => void this.#readGauges(), delayMs).unref();
  }

  #addGauges(gauges: Gauges): void {
    const { last } = this.#health;
    // The server went down in the meantime.
    if (last === null) return;
    this.#gauges = gauges;
    this.#health.add({ ...last, ...gauges });
    this.#updateCapacity();
  }

  #updateCapacity(): void {
    const { slots = null, slotsInUse = null, queued = null } = this.#health.last ?? {};
    const capacity = { slots: slots ?? this.#description?.slots ?? null, slotsInUse, queued };
    this.#capacity = this.client.dialect === 'sluice' ? ownCapacity(capacity, this.#description) : capacity;
  }
}

/** Returns the message of the innermost cause, or its code, because some of Node's errors have no message. */
function rootMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.cause instanceof Error) return rootMessage(error.cause);
  return error.message || ('code' in error ? String(error.code) : error.name);
}
