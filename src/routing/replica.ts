import type { Engine, EngineState } from '../engine/engine.ts';
import type { ReplicaReport } from '../engine/report.ts';
import type { Dialect, Usage } from '../generation.ts';
import type { Log } from '../log.ts';
import { CircuitBreaker, type BreakerClock, type RequestResult } from './breaker.ts';

/** One place that generates for a model: the client of its server, and whether it can take a request. */
export interface ReplicaEntry {
  engine: Engine;
  /** Asked at every choice, so it must be cheap. */
  state(): EngineState;
  /** What operators see beside that. */
  report(): ReplicaReport;
}

/** An engine's state, or `paused`: the engine is ready, and its breaker is open. */
export type ReplicaState = EngineState | { state: 'paused'; reason: string; retryInMs: number };

export interface ReplicaSummary {
  name: string;
  dialect: Dialect;
  /** Requests that it has from this instance of the service. */
  inFlight: number;
  state: ReplicaState;
}

/** How often the log says of one replica that it reports impossible usage, in milliseconds. */
const USAGE_WARNING_MS = 60_000;

/** Share of the latest measurement in a replica's speed. */
const SPEED_SHARE = 0.1;

/** A replica as its model chooses it: its load and its breaker. */
export class Replica {
  readonly engine: Engine;
  readonly breaker: CircuitBreaker;
  inFlight = 0;
  /** Completion tokens that one choice of a request gets per millisecond, from being sent to its end; null: unknown. */
  tokensPerMs: number | null = null;
  readonly #entry: ReplicaEntry;
  readonly #log: Log;
  readonly #clock: BreakerClock;
  #warnedAtMs = -Infinity;

  constructor(entry: ReplicaEntry, log: Log, clock: BreakerClock) {
    this.engine = entry.engine;
    this.#entry = entry;
    this.#log = log.with({ replica: entry.engine.name });
    this.#clock = clock;
    this.breaker = new CircuitBreaker(this.#log, clock);
  }

  /** Takes the speed of a finished request into the decaying average. */
  measured(tokensPerMs: number): void {
    this.tokensPerMs =
      this.tokensPerMs === null
        ? tokensPerMs
        : this.tokensPerMs + (tokensPerMs - this.tokensPerMs) * SPEED_SHARE;
  }

  /** The replica reported more tokens than the request could use. Logged at most once a minute. */
  impossibleUsage(reported: Usage): void {
    const nowMs = this.#clock.now();
    if (nowMs - this.#warnedAtMs < USAGE_WARNING_MS) return;
    this.#warnedAtMs = nowMs;
    this.#log.warn('replica reported impossible token counts', { ...reported });
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
    return { name, dialect, inFlight: this.inFlight, state: this.state };
  }

  report(): ReplicaReport {
    return this.#entry.report();
  }
}

/** One request at one replica, counted as load until released. */
export class Lease {
  readonly replica: Replica;
  readonly #ticket: number;
  #released = false;

  constructor(replica: Replica) {
    this.replica = replica;
    this.#ticket = replica.breaker.admit();
    replica.inFlight++;
  }

  get engine(): Engine {
    return this.replica.engine;
  }

  /** The replica has begun to respond. */
  began(): void {
    this.replica.breaker.began(this.#ticket);
  }

  /** The request has ended; `error` is what failed. May be called again; only the first call counts. */
  release(result: RequestResult, error?: unknown): void {
    if (this.#released) return;
    this.#released = true;
    this.replica.inFlight--;
    this.replica.breaker.ended(this.#ticket, result, error);
  }
}
