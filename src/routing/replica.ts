import type { Engine, EngineState } from '../engine/engine.ts';
import type { ReplicaReport } from '../engine/report.ts';
import type { Dialect } from '../generation.ts';
import type { CircuitBreaker, RequestResult } from './breaker.ts';

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

/** A replica as its model chooses it: its load and its breaker. */
export class Replica {
  readonly engine: Engine;
  readonly breaker: CircuitBreaker;
  inFlight = 0;
  readonly #entry: ReplicaEntry;

  constructor(entry: ReplicaEntry, breaker: CircuitBreaker) {
    this.engine = entry.engine;
    this.breaker = breaker;
    this.#entry = entry;
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
  readonly engine: Engine;
  readonly #ticket: number;
  #replica: Replica | null;

  constructor(replica: Replica) {
    this.engine = replica.engine;
    this.#replica = replica;
    this.#ticket = replica.breaker.admit();
    replica.inFlight++;
  }

  /** The replica has begun to respond. */
  began(): void {
    this.#replica?.breaker.began(this.#ticket);
  }

  /** The request has ended; `error` is what failed. May be called again; only the first call counts. */
  release(result: RequestResult, error?: unknown): void {
    if (!this.#replica) return;
    this.#replica.inFlight--;
    this.#replica.breaker.ended(this.#ticket, result, error);
    this.#replica = null;
  }
}
