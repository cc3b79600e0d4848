import { AccessDenied, type Engine, type EngineState } from '../engine/engine.ts';
import type { ReplicaReport } from '../engine/replica-report.ts';
import { ServiceError } from '../errors.ts';
import type { Dialect, Usage } from '../generation.ts';
import type { Log } from '../log.ts';
import { CircuitBreaker, type BreakerClock, type RequestResult } from './breaker.ts';

/** The client and the state of one server of a model. */
export interface ReplicaEntry {
  engine: Engine;
  /** Called for every request, so it must be fast. */
  state(): EngineState;
  /** Further details for operators. */
  report(): ReplicaReport;
  /** Restarts the engine process. Missing for other servers. */
  restart?(): void;
}

/** The state of the engine, or `paused` if it is ready and the breaker is open. */
export type ReplicaState = EngineState | { state: 'paused'; reason: string; retryInMs: number };

export interface ReplicaSummary {
  name: string;
  dialect: Dialect;
  /** Requests from this instance. */
  inFlight: number;
  state: ReplicaState;
  /** Whether it is an engine process of this service. */
  restartable: boolean;
}

/** Interval between warnings of the same kind about one replica, in milliseconds. */
const WARNING_MS = 60_000;

/** Weight of the latest measurement in a replica's average speed. */
const SPEED_SHARE = 0.1;

/** A replica with its load and its circuit breaker. */
export class RoutedReplica {
  readonly engine: Engine;
  readonly breaker: CircuitBreaker;
  inFlight = 0;
  /** Average completion tokens per millisecond and choice, from when a request gets its slot to its end; null: unknown. */
  tokensPerMs: number | null = null;
  readonly #entry: ReplicaEntry;
  readonly #log: Log;
  readonly #clock: BreakerClock;
  /** When each message was last logged. */
  readonly #warnings = new Map<string, number>();

  constructor(entry: ReplicaEntry, log: Log, clock: BreakerClock) {
    this.engine = entry.engine;
    this.#entry = entry;
    this.#log = log.with({ replica: entry.engine.name });
    this.#clock = clock;
    this.breaker = new CircuitBreaker(this.#log, clock);
  }

  /** Adds the speed of a completed request to the moving average. */
  recordSpeed(tokensPerMs: number): void {
    this.tokensPerMs =
      this.tokensPerMs === null
        ? tokensPerMs
        : this.tokensPerMs + (tokensPerMs - this.tokensPerMs) * SPEED_SHARE;
  }

  /** Logs that the replica reported more tokens than the request could use, at most once a minute. */
  warnImpossibleUsage(reported: Usage): void {
    this.#warn('replica reported impossible token counts', { ...reported });
  }

  /** Logs that the replica returned calls that clients cannot run, at most once a minute. */
  warnInvalidToolCalls(calls: number): void {
    this.#warn('replica returned invalid tool calls', { calls });
  }

  /** Logs that the replica denied access, which only the operator can fix. Logs at most once a minute. */
  warnAccessDenied({ cause }: AccessDenied): void {
    this.#warn('replica denied access to this service', {
      cause: cause instanceof Error ? cause.message : undefined,
    });
  }

  #warn(message: string, fields: Parameters<Log['warn']>[1]): void {
    const nowMs = this.#clock.now();
    if (nowMs - (this.#warnings.get(message) ?? -Infinity) < WARNING_MS) return;
    this.#warnings.set(message, nowMs);
    this.#log.warn(message, fields);
  }

  /** Whether its engine can take a request, paused or not. */
  get ready(): boolean {
    return this.#entry.state().state === 'ready';
  }

  get state(): ReplicaState {
    const state = this.#entry.state();
    const pause = state.state === 'ready' ? this.breaker.pause : null;
    return pause === null ? state : { state: 'paused', ...pause };
  }

  summary(): ReplicaSummary {
    const { name, dialect } = this.engine;
    const restartable = this.#entry.restart !== undefined;
    return { name, dialect, inFlight: this.inFlight, state: this.state, restartable };
  }

  report(): ReplicaReport {
    return this.#entry.report();
  }

  /** Throws 409 `conflict` if it is not an engine process of this service, or its model is being downloaded. */
  assertRestartable(): void {
    if (this.#entry.restart === undefined) {
      throw new ServiceError('conflict', 'Only engine processes of this service can be restarted.');
    }
    if (this.#entry.state().state === 'downloading') {
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

/** One request on one replica, counted as load until released. */
export class Lease {
  readonly replica: RoutedReplica;
  readonly #ticket: number;
  #released = false;

  constructor(replica: RoutedReplica) {
    this.replica = replica;
    this.#ticket = replica.breaker.admit();
    replica.inFlight++;
  }

  get engine(): Engine {
    return this.replica.engine;
  }

  /** Records that the replica started to respond. */
  responseStarted(): void {
    this.replica.breaker.responseStarted(this.#ticket);
  }

  /** Records the result of the request; `error` is its failure. Idempotent. */
  release(result: RequestResult, error?: unknown): void {
    if (this.#released) return;
    this.#released = true;
    this.replica.inFlight--;
    if (error instanceof AccessDenied) this.replica.warnAccessDenied(error);
    this.replica.breaker.recordResult(this.#ticket, result, error);
  }
}
