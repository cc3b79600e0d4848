import type { ReplicaClient, EngineState, ReplicaCapacity } from '../replicas/replica.ts';
import type { ReplicaReport } from '../replicas/replica-report.ts';
import { ServiceError } from '../core/errors.ts';
import type { Dialect } from '../core/generation.ts';
import type { Log, LogFields } from '../support/log.ts';
import { CircuitBreaker, type BreakerClock, type BreakerPause } from './breaker.ts';
import { type Prefill, type PrefillProgress, totalProgress } from './prefill.ts';
import { PrefixIndex } from './prefix-index.ts';

/** The client and the state of a replica. */
export interface ReplicaEntry {
  client: ReplicaClient;
  /** Called for every request, so it must be fast. */
  state(): EngineState;
  /** Null if it is unknown. A new object after each health check that reports it. */
  capacity(): ReplicaCapacity | null;
  /** Additional details for operators. */
  report(): ReplicaReport;
  /** Whether requests can call `wake` and wait until the model is loaded. */
  readonly wakesUp?: boolean;
  /** Whether the model is being loaded for waiting requests. */
  readonly waking?: boolean;
  /** Loads the model of an engine process of this service. */
  wake?(): void;
  /** Restarts the engine process. Missing for other servers. */
  restart?(): void;
  /** URL of the server; undefined: an engine process of this service. */
  readonly address?: string | undefined;
  /** The configured maximum number of choices in flight; undefined: derived from what the server reports. */
  readonly maxInFlight?: number | undefined;
}

/**
 * The state of the engine, or, if it is ready, `drained`, or `paused` while the breaker is open or after a 429.
 */
export type ReplicaState =
  | EngineState
  | { state: 'paused'; reason: string; retryInMs: number }
  | { state: 'drained' };

export interface ReplicaSummary {
  name: string;
  dialect: Dialect;
  /** Requests from this instance. */
  inFlight: number;
  state: ReplicaState;
  /** Whether it gets no new requests, because an operator has drained it. */
  drained: boolean;
  /** Whether requests wait until it is ready, because its model is being loaded for them. */
  waking: boolean;
  /** Times that its circuit breaker has paused it. */
  pauses: number;
  /** Whether its circuit breaker pauses it now. */
  failing: boolean;
  /** Whether it is an engine process of this service. */
  restartable: boolean;
  /** Of the prompts that take longer than a second; null: it computes none, or does not report it. */
  prefill: PrefillProgress | null;
}

/** Maximum time to delete what an engine keeps of an account, in milliseconds. */
const FORGET_MS = 10_000;

/** Interval between warnings of the same kind about one replica, in milliseconds. */
const WARNING_MS = 60_000;

/** Weight of the latest measurement in a replica's average speed. */
const SPEED_SHARE = 0.1;

/** Blocks of prompts that are remembered for a replica: 2 million tokens. */
const MAX_BLOCKS = 31_250;

/** Time until a new or recovered replica gets its full share of the requests, in milliseconds. */
const WARM_UP_MS = 10_000;

/** Share of the requests that a new or recovered replica starts with. */
const FIRST_SHARE = 0.1;

/** A replica with its load and its circuit breaker. */
export class RoutedReplica {
  readonly client: ReplicaClient;
  readonly breaker: CircuitBreaker;
  /** Requests from this instance that are running on the replica or waiting for it. */
  assigned = 0;
  /** Estimated prompt tokens of these requests that are still to be processed. */
  outstandingPrefillTokens = 0;
  /** The progress of prompts that take longer than a second, by request ID. */
  readonly prefills = new Map<string, Prefill>();
  /** Requests from this instance that were sent to the replica. */
  inFlight = 0;
  /** Choices of the requests that were sent. */
  choicesInFlight = 0;
  /** Whether it gets no new requests, because an operator has drained it. */
  drained = false;
  /** Empty while the model has only one replica. */
  readonly prefixes = new PrefixIndex(MAX_BLOCKS);
  /** Bounds the requests after a 429. */
  readonly backoff: Backoff;
  readonly #room: Room;
  /**
   * Average completion tokens per millisecond and choice, from when a request gets its slot to its end; null: unknown.
   */
  tokensPerMs: number | null = null;
  /** As of the last check. */
  #wasReady = false;
  /** When the engine was first seen ready after it had not been. */
  #readyAtMs = -Infinity;
  readonly #entry: ReplicaEntry;
  readonly log: Log;
  readonly #clock: BreakerClock;
  /** When each message was last logged. */
  readonly #warnings = new Map<string, number>();

  constructor(entry: ReplicaEntry, log: Log, clock: BreakerClock) {
    this.client = entry.client;
    this.#entry = entry;
    this.log = log.with({ replica: entry.client.name });
    this.#clock = clock;
    this.breaker = new CircuitBreaker(this.log, clock);
    this.#room = new Room(entry.maxInFlight);
    this.backoff = new Backoff(clock);
  }

  /** How many more choices it can take now; 0 or less: none. Infinity if its capacity is unknown. */
  get free(): number {
    const room = this.#room.limit(this.#entry.capacity(), this.choicesInFlight) - this.choicesInFlight;
    return Math.min(room, this.backoff.free);
  }

  /** When the replica can be tried again after a pause of its breaker or a 429, on the clock. */
  get resumesAtMs(): number {
    return Math.max(this.breaker.pausedUntilMs, this.backoff.untilMs);
  }

  /** Called when a request gets its first token. */
  responseStarted(): void {
    this.#room.responseStarted(this.choicesInFlight);
  }

  /** URL of the server; null: an engine process of this service. */
  get address(): string | null {
    return this.#entry.address ?? null;
  }

  /**
   * Identifies the server, even if its replica is renamed: its URL, or the name of an engine process of this service.
   */
  get server(): string {
    return this.#entry.address ?? this.client.name;
  }

  /** Adds the speed of a completed request to the moving average. */
  recordSpeed(tokensPerMs: number): void {
    this.tokensPerMs =
      this.tokensPerMs === null
        ? tokensPerMs
        : this.tokensPerMs + (tokensPerMs - this.tokensPerMs) * SPEED_SHARE;
  }

  /**
   * Deletes what an engine keeps for later requests with this `cacheScope`, also while it is drained. Logs a failure. One
   * that is not running has nothing in memory.
   */
  async forget(cacheScope: string): Promise<void> {
    if (this.#entry.state().state !== 'ready') return;
    try {
      await this.client.forget(cacheScope, AbortSignal.timeout(FORGET_MS));
    } catch (error) {
      this.warn('the engine may still keep prompts of a closed account; restart it', {
        error: error instanceof Error ? error : String(error),
      });
    }
  }

  /** Logs a warning, at most once a minute for each message. */
  warn(message: string, fields: LogFields): void {
    const nowMs = this.#clock.now();
    if (nowMs - (this.#warnings.get(message) ?? -Infinity) < WARNING_MS) return;
    this.#warnings.set(message, nowMs);
    this.log.warn(message, fields);
  }

  /** Whether it can take a request, paused or not. */
  get ready(): boolean {
    const ready = !this.drained && this.#entry.state().state === 'ready';
    if (ready !== this.#wasReady) this.#readyChanged(ready);
    return ready;
  }

  /** Whether requests wait until it is ready, because its model is being loaded for them. */
  get waking(): boolean {
    return !this.drained && this.#entry.waking === true;
  }

  /** Loads its model for the next requests if it is idle. Returns whether requests can wait for it. */
  wake(): boolean {
    if (this.drained || this.#entry.wakesUp !== true) return false;
    this.log.info('loading an idle model for a request');
    this.#entry.wake?.();
    return true;
  }

  #readyChanged(ready: boolean): void {
    this.#wasReady = ready;
    if (!ready) return;
    this.#readyAtMs = this.#clock.now();
    this.prefixes.clear();
  }

  /**
   * Above 0, up to 1: its share of the requests relative to other replicas. A server that has just started, or was
   * paused by its breaker, may still load or compile, so it gets few requests at first.
   */
  get warmth(): number {
    const sinceMs = Math.max(this.#readyAtMs, this.breaker.closedAtMs);
    return Math.min(1, Math.max(FIRST_SHARE, (this.#clock.now() - sinceMs) / WARM_UP_MS));
  }

  get state(): ReplicaState {
    const state = this.#entry.state();
    if (state.state === 'ready' && this.drained) return { state: 'drained' };
    const pause = state.state === 'ready' ? this.#pause : null;
    return pause === null ? state : { state: 'paused', ...pause };
  }

  get #pause(): BreakerPause | null {
    const retryInMs = Math.ceil(this.backoff.waitMs);
    return retryInMs > 0
      ? { reason: 'the server limits the rate of requests', retryInMs }
      : this.breaker.pause;
  }

  summary(): ReplicaSummary {
    const { name, dialect } = this.client;
    const restartable = this.#entry.restart !== undefined;
    const { inFlight, state, drained, waking, breaker } = this;
    const { pauses, paused: failing } = breaker;
    const prefill = totalProgress(this.prefills.values());
    return { name, dialect, inFlight, state, drained, waking, pauses, failing, restartable, prefill };
  }

  report(): ReplicaReport {
    return this.#entry.report();
  }

  /**
   * Throws 409 `conflict` if it is not an engine process of this service, or if its model is unloaded, idle or being
   * downloaded.
   */
  assertRestartable(): void {
    if (this.#entry.restart === undefined) {
      throw new ServiceError('conflict', 'Only engine processes of this service can be restarted.');
    }
    const { state } = this.#entry.state();
    if (state === 'unloaded' || state === 'idle')
      throw new ServiceError('conflict', 'The model is not loaded.');
    if (state === 'downloading') {
      throw new ServiceError(
        'conflict',
        'The model is being downloaded. The engine starts when the download is complete.',
      );
    }
  }

  /** Restarts the engine process; running requests have a few seconds to finish. */
  restart(): void {
    this.#entry.restart?.();
  }
}

/**
 * Servers with at least two slots, but fewer than this, get one choice more than they have slots. With more slots, a
 * slot that is idle for a round trip costs less than a request that waits on the server, where the order is not fair.
 */
const MANY_SLOTS = 8;

/**
 * Requests of an engine in which they take turns. A short one then does not wait for the end of long ones, and with more of
 * them, the fair queue decides.
 */
const TAKING_TURNS = 32;

/** The initial limit of a server that reports its waiting requests, but not its slots. */
const FIRST_LIMIT = 32;

/** Choices that may wait in such a server, so that it never idles between two requests. */
const HEADROOM = 2;

/**
 * How many choices a replica can take at a time: the configured maximum, or about the number of its slots. If a server
 * reports only its running and waiting requests, the limit is learned: it grows with each response while no request
 * waits on the server, and drops to the number of running requests when requests keep waiting. A server that reports
 * neither slots nor requests has no limit. An overloaded server may stop reporting for a while: the last limit then
 * applies, but at least 32.
 */
export class Room {
  readonly #configured: number | undefined;
  /** The latest report that was considered. */
  #capacity: ReplicaCapacity | null = null;
  #limit = Infinity;
  /** Whether the limit is learned, and no request waited at the latest report. */
  #grows = false;
  /** Whether too many requests waited at the latest report. The limit drops only after two such reports in a row. */
  #isFull = false;

  constructor(configured: number | undefined) {
    this.#configured = configured;
  }

  /** `inFlight`: choices of this instance that are on the replica now. */
  limit(capacity: ReplicaCapacity | null, inFlight: number): number {
    if (this.#configured !== undefined) return this.#configured;
    if (capacity !== this.#capacity) {
      this.#capacity = capacity;
      this.#consider(capacity, inFlight);
    }
    return this.#limit;
  }

  /** Called when a request gets its first token. */
  responseStarted(inFlight: number): void {
    if (this.#grows && inFlight >= this.#limit) this.#limit++;
  }

  #consider(capacity: ReplicaCapacity | null, inFlight: number): void {
    const { slots = null, slotsInUse: running = null, queued = null, takesTurns = false } = capacity ?? {};
    this.#grows = false;
    if (slots !== null && takesTurns) this.#limit = Math.max(slots, TAKING_TURNS);
    else if (slots !== null) this.#limit = slots > 1 && slots < MANY_SLOTS ? slots + 1 : Math.max(1, slots);
    else if (queued === null) this.#limit = Math.max(this.#limit, FIRST_LIMIT);
    else {
      const wasFull = this.#isFull;
      this.#isFull = queued > HEADROOM;
      this.#grows = queued === 0;
      if (this.#limit === Infinity) this.#limit = FIRST_LIMIT;
      // The server also reports the requests of other instances.
      const share = Math.min(1, inFlight / (queued + (running ?? 0)));
      const served = running === null ? inFlight - queued : running * share;
      if (wasFull && this.#isFull) this.#limit = Math.max(1, Math.round(served) + HEADROOM);
    }
  }
}

/** By how much each accepted request raises the maximum above the threshold. */
const GROWTH = 1 / 8;

/** A server that has not responded to a request within this time, in milliseconds, has accepted it. */
const ACCEPTED_MS = 1000;

/**
 * Bounds the requests to a server that has responded with 429, as TCP does after a loss: none until its `retry-after`
 * has passed; then one that is not accepted yet, and one more with each that is (slow start), up to half of the number at
 * the 429. From then on, each accepted request raises the maximum by an eighth. Time alone does not raise it: a server
 * that still limits its rate would refuse many of those that wait.
 */
export class Backoff {
  readonly #clock: BreakerClock;
  #untilMs = -Infinity;
  /** Maximum requests that are not accepted yet. Infinity: no 429 so far. */
  #most = Infinity;
  #threshold = Infinity;
  /** The requests that were sent since the 429 and are not accepted yet, with the time. */
  readonly #sent = new Map<object, number>();

  constructor(clock: BreakerClock) {
    this.#clock = clock;
  }

  /** When the server accepts requests again, on the clock. */
  get untilMs(): number {
    return this.#untilMs;
  }

  /** How long the server accepts no requests, in milliseconds; 0: it accepts them. */
  get waitMs(): number {
    return Math.max(0, this.#untilMs - this.#clock.now());
  }

  /** How many more requests it may get now; 0 or less: none. */
  get free(): number {
    if (this.#most === Infinity) return Infinity;
    this.#acceptOld();
    return this.waitMs > 0 ? 0 : Math.floor(this.#most) - this.#sent.size;
  }

  sent(request: object): void {
    this.#sent.set(request, this.#clock.now());
  }

  /** Called when the server starts to respond. Idempotent. */
  accepted(request: object): void {
    if (this.#sent.delete(request)) this.#most += this.#most < this.#threshold ? 1 : GROWTH;
  }

  /** Called after a 429, before `ended`. Further ones of requests that were sent before only extend the time. */
  refused(retryAfterMs: number): void {
    if (this.waitMs === 0) {
      this.#acceptOld();
      this.#threshold = this.#sent.size / 2;
      this.#most = 1;
      this.#sent.clear();
    }
    this.#untilMs = Math.max(this.#untilMs, this.#clock.now() + retryAfterMs);
  }

  /** Called when a request has ended. Idempotent. */
  ended(request: object): void {
    this.#sent.delete(request);
  }

  #acceptOld(): void {
    const untilMs = this.#clock.now() - ACCEPTED_MS;
    for (const [request, sentMs] of this.#sent) {
      if (sentMs > untilMs) return;
      this.accepted(request);
    }
  }
}
