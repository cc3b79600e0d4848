import type { ConfigFile } from '../config/schema.ts';
import type { ReplicaReport } from '../replicas/replica-report.ts';
import { ServiceError } from '../core/errors.ts';
import type { Dialect, GenerationRequest, ImageLimits, ModelCard } from '../core/generation.ts';
import type { Log } from '../support/log.ts';
import { type BreakerClock, WindowCount } from './breaker.ts';
import { Dispatcher } from './dispatcher.ts';
import type { Permit } from './permit.ts';
import type { RoutedRequest } from './placement.ts';
import type { PrefillProgress } from './prefill.ts';
import { countPromptTokens, type PromptTokenCount } from './prompt-count.ts';
import { Backlog, type BacklogEntry } from './backlog.ts';
import { RoutedReplica, type ReplicaEntry, type ReplicaSummary } from './replica.ts';

/** A configured model. Its card is null until its context is known. */
export interface ConfiguredModel {
  readonly id: string;
  readonly required: boolean;
  /** Pico-dollars per token. The price of cached prompt tokens is at most that of others; null: the same. */
  readonly price: {
    readonly prompt: number;
    readonly completion: number;
    readonly inputCacheRead: number | null;
  };
  card(): ModelCard | null;
  /** Returns the bounds of images. Null or absent: the model takes only text. */
  images?(): ImageLimits | null;
}

export interface ModelOverview {
  id: string;
  required: boolean;
  /** Requests that wait until a replica has room. */
  waiting: number;
  replicas: ReplicaSummary[];
}

/** An account with running or waiting requests. */
export interface QueuedAccount {
  model: string;
  accountId: string;
  running: number;
  waiting: number;
  weight: number;
}

export interface ReplicaOverview extends ReplicaReport, ReplicaSummary {
  model: string;
  /** URL of the server; null: an engine process of this service. */
  address: string | null;
}

/** Settings shared by all models of a router. */
export interface RoutingOptions extends Pick<ConfigFile, 'routing' | 'queue' | 'retry'> {
  /** IDs of models by their other names. */
  aliases?: Readonly<Record<string, string>>;
  log: Log;
  clock: BreakerClock;
}

/** A configured model with its queue and replicas. It starts nothing and owns no engine. */
export class ServedModel implements ConfiguredModel {
  readonly id: string;
  readonly required: boolean;
  dialects: readonly Dialect[] = [];
  readonly #backlog: Backlog;
  readonly #retries: RetryBudget;
  #model: ConfiguredModel;
  readonly #replicas: RoutedReplica[];
  readonly #log: Log;
  readonly #dispatcher: Dispatcher;
  readonly #clock: BreakerClock;
  #lastUsedMs: number;

  /** `replicas` must not be empty. */
  constructor(
    model: ConfiguredModel,
    replicas: readonly ReplicaEntry[],
    { routing, queue, retry, log, clock }: RoutingOptions,
  ) {
    this.id = model.id;
    this.required = model.required;
    this.#backlog = new Backlog(queue);
    this.#retries = new RetryBudget(retry);
    this.#model = model;
    this.#clock = clock;
    this.#lastUsedMs = clock.now();
    this.#log = log;
    this.#replicas = replicas.map((entry) => new RoutedReplica(entry, log, clock));
    this.#dispatcher = new Dispatcher(this.#replicas, { ...routing, maxWaitMs: queue.maxWaitMs, clock });
    this.#updateDialects();
  }

  get price(): ConfiguredModel['price'] {
    return this.#model.price;
  }

  /** Replaces what requests depend on. Running requests keep the price at which they were admitted. */
  update(model: Pick<ConfiguredModel, 'price' | 'card' | 'images'>): void {
    this.#model = { ...this.#model, ...model };
  }

  addReplica(entry: ReplicaEntry): void {
    const replica = new RoutedReplica(entry, this.#log, this.#clock);
    this.#replicas.push(replica);
    this.#dispatcher.add(replica);
    this.#updateDialects();
  }

  /**
   * Removes a replica, and returns it. Requests that are running on it continue; requests waiting for it are sent
   * to other replicas, or refused.
   */
  removeReplica(name: string): RoutedReplica {
    const replica = this.replica(name);
    this.#replicas.splice(this.#replicas.indexOf(replica), 1);
    this.#dispatcher.remove(replica);
    this.#updateDialects();
    return replica;
  }

  /** Removes all replicas, and returns them. Refuses the waiting requests. */
  close(): RoutedReplica[] {
    const replicas = this.#replicas.splice(0);
    this.#dispatcher.close(new ServiceError('model_not_found', 'The model was removed.', { param: 'model' }));
    return replicas;
  }

  #updateDialects(): void {
    this.dialects = [...new Set(this.#replicas.map(({ client }) => client.dialect))];
  }

  card(): ModelCard | null {
    return this.#model.card();
  }

  /** Returns the bounds of images. Null: the model takes only text. */
  images(): ImageLimits | null {
    return this.#model.images?.() ?? null;
  }

  /** How long a request may wait for a slot, in milliseconds. */
  get maxWaitMs(): number {
    return this.#backlog.limits.maxWaitMs;
  }

  /** Enters the backlog, before anything is reserved for a request; see `Backlog.enter`. Throws 503 `queue_full`. */
  enter(accountId: string, stop: AbortController): BacklogEntry {
    return this.#backlog.enter(() => this.#dispatcher.free(new Map()), accountId, stop);
  }

  /** Enters the backlog again after a failure of a replica; see `BacklogEntry.waitAgain`. */
  enterAgain(entry: BacklogEntry, failures: RoutedRequest['failures']): void {
    entry.waitAgain(this.#dispatcher.free(failures));
  }

  /** Sends a request to a replica, when one has room; see `Dispatcher.acquire`. */
  acquire(routed: RoutedRequest): Permit | Promise<Permit> {
    this.#lastUsedMs = this.#clock.now();
    if (!routed.isRetry) this.#retries.addRequest(this.#lastUsedMs);
    return this.#dispatcher.acquire(routed);
  }

  /** Waits until a replica is ready, and loads the model for it if it is idle. Rejects as `acquire` does. */
  async whenReady(routed: Pick<RoutedRequest, 'request' | 'accountId' | 'weight' | 'signal'>): Promise<void> {
    if (this.#replicas.some(({ state }) => state.state === 'ready')) return;
    const permit = await this.acquire({
      ...routed,
      isRetry: false,
      failures: new Map(),
      charged: 0,
      waitedMs: 0,
    });
    permit.release('inconclusive');
  }

  /** Counts the prompt tokens of a request without generating; see `countPromptTokens`. Does not count as use. */
  countPromptTokens(request: GenerationRequest, signal: AbortSignal): Promise<PromptTokenCount> {
    return countPromptTokens(this.#replicas, request, signal);
  }

  /** Deletes what engines keep for later requests with this `cacheScope`. */
  forget(cacheScope: string): void {
    for (const replica of this.#replicas) void replica.forget(cacheScope);
  }

  /** Whether a failed request may be sent again. Counts it if so. */
  takeRetry(): boolean {
    return this.#retries.take(this.#clock.now());
  }

  /** Whether a request waits for a replica or runs on one. */
  get busy(): boolean {
    return this.#backlog.size > 0 || this.#replicas.some(({ assigned }) => assigned > 0);
  }

  /**
   * Returns how long the model has been ready without a request, in milliseconds. Accurate to the interval
   * between calls, because the ends of requests are not recorded.
   */
  idleMs(): number {
    const nowMs = this.#clock.now();
    if (this.busy || this.#replicas.some(({ ready }) => !ready)) this.#lastUsedMs = nowMs;
    return nowMs - this.#lastUsedMs;
  }

  overview(): ModelOverview {
    return {
      id: this.id,
      required: this.required,
      waiting: this.#dispatcher.waiting,
      replicas: this.#replicas.map((replica) => replica.summary()),
    };
  }

  /** Returns the accounts with running or waiting requests. */
  accounts(): QueuedAccount[] {
    return this.#dispatcher.shares.active().map(({ accountId, running, waiting, weight }) => ({
      model: this.id,
      accountId,
      running,
      waiting,
      weight,
    }));
  }

  /** Returns the progress of a prompt that takes longer than a second; null: unknown. */
  prefillOf(requestId: string): PrefillProgress | null {
    for (const { prefills } of this.#replicas) {
      const prefill = prefills.get(requestId);
      if (prefill) return prefill;
    }
    return null;
  }

  /** Returns every replica with its metrics, for operators. */
  reports(): ReplicaOverview[] {
    return this.#replicas.map((replica) => this.report(replica));
  }

  /** Returns one of its replicas with its metrics, for operators. */
  report(replica: RoutedReplica): ReplicaOverview {
    const { address } = replica;
    return { model: this.id, address, ...replica.summary(), ...replica.report() };
  }

  /** Sets which replicas get no new requests. */
  setDrained(isDrained: (server: string) => boolean): void {
    for (const replica of this.#replicas) replica.drained = isDrained(replica.server);
  }

  /** Returns a replica by its name. Throws 404 `not_found`. */
  replica(name: string): RoutedReplica {
    const found = this.#replicas.find(({ client }) => client.name === name);
    if (found) return found;
    throw new ServiceError('not_found', 'The model has no replica with this name.', { param: 'name' });
  }
}

const WINDOW_MS = 60_000;

/** Bounds the retries of one model, so that failing replicas do not receive a multiple of the load. */
export class RetryBudget {
  readonly #limits: ConfigFile['retry'];
  readonly #requests = new WindowCount(WINDOW_MS);
  readonly #retries = new WindowCount(WINDOW_MS);

  constructor(limits: ConfigFile['retry']) {
    this.#limits = limits;
  }

  addRequest(nowMs: number): void {
    this.#requests.add(nowMs);
  }

  /** Counts a retry if it is within the budget. Returns whether it is. */
  take(nowMs: number): boolean {
    const { share, minPerMinute } = this.#limits;
    const allowed = Math.max(minPerMinute, share * this.#requests.total(nowMs));
    if (this.#retries.total(nowMs) >= allowed) return false;
    this.#retries.add(nowMs);
    return true;
  }
}
