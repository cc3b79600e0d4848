import type { ConfigFile, ModelConfig, ReplicaConfig } from '../config/schema.ts';
import { Deadline } from '../deadline.ts';
import type { Log } from '../log.ts';
import type { Secret } from '../secret.ts';
import type { Engine, EngineDescription, EngineState, ReplicaCapacity } from './engine.ts';
import { DIALECT_TRAITS, type HealthCheck } from './dialects.ts';
import { ReplicaClient } from './replica-client.ts';
import { HealthHistory, EMPTY_REPORT, type ReplicaReport } from './replica-report.ts';

interface RemoteReplicaContext {
  /** Secrets by the name of their environment variable. */
  secrets: ReadonlyMap<string, Secret>;
  timeouts: ConfigFile['engine'];
  log: Log;
}

/** Creates a configured replica of a model, without starting it. `index` is its position among the model's replicas. */
export function createRemoteReplica(
  model: ModelConfig,
  replica: ReplicaConfig,
  index: number,
  { secrets, timeouts, log }: RemoteReplicaContext,
): RemoteReplica {
  const { dialect, url, apiKeyEnv, sharedPrefixCache, exactCounts, reasoningField } = replica;
  const { firstByteMs, silenceMs } = timeouts;
  const headers = new Map<string, string | Secret>(Object.entries(replica.headers ?? {}));
  for (const [header, variable] of Object.entries(replica.headersEnv ?? {})) {
    const value = secrets.get(variable);
    if (value !== undefined) headers.set(header, value);
  }
  const engine = new ReplicaClient({
    name: `${model.id}#${index}`,
    dialect,
    url,
    apiKey: apiKeyEnv === undefined ? undefined : secrets.get(apiKeyEnv),
    headers,
    model: replica.model ?? model.id,
    contextTokens: model.contextTokens,
    reasoningField,
    sharedPrefixCache,
    exactCounts,
    firstByteMs,
    silenceMs,
    log,
  });
  return new RemoteReplica(engine, replica.maxInFlight, log);
}

/** A replica on another server. Checks its health periodically, so that failures are detected before a request is sent. */
class RemoteReplica implements AsyncDisposable {
  readonly engine: Engine;
  readonly maxInFlight: number | undefined;
  readonly #log: Log;
  readonly #healthCheck: HealthCheck;
  #state: EngineState = { state: 'loading', fraction: 0 };
  #description: EngineDescription | null = null;
  readonly #health = new HealthHistory();
  #nextCheck: NodeJS.Timeout | undefined;
  readonly #stop = new AbortController();

  constructor(engine: Engine, maxInFlight: number | undefined, log: Log) {
    this.engine = engine;
    this.maxInFlight = maxInFlight;
    this.#log = log.with({ replica: engine.name });
    this.#healthCheck = DIALECT_TRAITS[engine.dialect].healthCheck;
  }

  state(): EngineState {
    return this.#state;
  }

  capacity(): ReplicaCapacity | null {
    return this.#health.last;
  }

  report(): ReplicaReport {
    return { ...EMPTY_REPORT, health: this.#health.last, tokensPerSecond: this.#health.tokensPerSecond };
  }

  /** The replica's model; null until the replica is healthy for the first time. */
  get description(): EngineDescription | null {
    return this.#description;
  }

  /** Starts the health checks. Resolves after the first one. */
  async start(): Promise<void> {
    await this.#check();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    clearTimeout(this.#nextCheck);
    await this.engine[Symbol.asyncDispose]();
  }

  async #check(): Promise<void> {
    const { timeoutMs, intervalMs, retryMs } = this.#healthCheck;
    const timeout = new AbortController();
    using _ = new Deadline(timeoutMs, () => timeout.abort(new Error(`no response within ${timeoutMs} ms`)));
    const signal = AbortSignal.any([this.#stop.signal, timeout.signal]);
    try {
      this.#health.add(await this.engine.health(signal));
      this.#description ??= await this.engine.describe(signal);
      if (this.#state.state !== 'ready') this.#log.info('replica is healthy');
      this.#state = { state: 'ready' };
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      this.#health.clear();
      if (this.#state.state !== 'down') {
        this.#log.warn('replica is unhealthy', { error: error instanceof Error ? error : String(error) });
      }
      this.#state = {
        state: 'down',
        reason: `its health check failed: ${messageOf(error)}`,
        retryInMs: retryMs,
      };
    }
    this.#nextCheck = setTimeout(
      () => void this.#check(),
      this.#state.state === 'ready' ? intervalMs : retryMs,
    ).unref();
  }
}

/** Returns the message of the innermost cause, or its code, because some of Node's errors have no message. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.cause instanceof Error) return messageOf(error.cause);
  return error.message || ('code' in error ? String(error.code) : error.name);
}
