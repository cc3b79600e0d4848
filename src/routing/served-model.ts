import type { Engine } from '../engine/engine.ts';
import type { ReplicaReport } from '../engine/replica-report.ts';
import { ServiceError } from '../errors.ts';
import type { Dialect, ModelCard } from '../generation.ts';
import type { Log } from '../log.ts';
import type { BreakerClock } from './breaker.ts';
import { Queue, type QueueLimits } from './queue.ts';
import {
  Lease,
  RoutedReplica,
  type ReplicaEntry,
  type ReplicaState,
  type ReplicaSummary,
} from './replica.ts';

/** A configured model. Its card is null until its context is known. */
export interface ConfiguredModel {
  readonly id: string;
  readonly required: boolean;
  readonly dialects: readonly Dialect[];
  /** Pico-dollars per token. */
  readonly price: { readonly prompt: number; readonly completion: number };
  card(): ModelCard | null;
}

export interface ModelOverview {
  id: string;
  required: boolean;
  /** Requests that wait for a slot. */
  waiting: number;
  replicas: ReplicaSummary[];
}

export interface ReplicaOverview extends ReplicaReport, ReplicaSummary {
  model: string;
}

/** Settings shared by all models of a router. */
export interface RoutingOptions {
  queue: QueueLimits;
  log: Log;
  clock: BreakerClock;
}

/** A configured model with its queue and replicas. It starts nothing and owns no engine. */
export class ServedModel implements ConfiguredModel {
  readonly id: string;
  readonly required: boolean;
  readonly dialects: readonly Dialect[];
  readonly price: ConfiguredModel['price'];
  readonly queue: Queue;
  readonly #model: ConfiguredModel;
  readonly #replicas: readonly RoutedReplica[];
  /** The last choice, so that equal replicas take turns. */
  #last: RoutedReplica | undefined;

  /** `replicas` must not be empty. */
  constructor(
    model: ConfiguredModel,
    replicas: readonly ReplicaEntry[],
    { queue, log, clock }: RoutingOptions,
  ) {
    this.id = model.id;
    this.required = model.required;
    this.dialects = model.dialects;
    this.price = model.price;
    this.queue = new Queue(queue);
    this.#model = model;
    this.#replicas = replicas.map((entry) => new RoutedReplica(entry, log, clock));
  }

  card(): ModelCard | null {
    return this.#model.card();
  }

  /**
   * Selects a ready replica that is not in `failed` and that `suits` the request, and counts the request there until the
   * lease is released. A request that has failed elsewhere is not used as the trial of a paused replica. If all replicas
   * are paused, selects the one whose pause ends first, because a breaker must not refuse a request that a replica might
   * serve.
   *
   * Throws 503 `engine_unavailable` if none is ready, or the last error in `failed` if none is left.
   */
  acquire(failed: ReadonlyMap<Engine, ServiceError>, suits: (engine: Engine) => boolean = () => true): Lease {
    const able = this.#replicas.filter(({ engine, ready }) => ready && !failed.has(engine) && suits(engine));
    const open = able.filter(({ breaker }) => !breaker.paused || (breaker.trialDue && failed.size === 0));
    const last = open.findIndex((replica) => replica === this.#last);
    const chosen = open[fewestInFlight(open, last === -1 ? open.length - 1 : last)] ?? firstToResume(able);
    if (!chosen) throw [...failed.values()].at(-1) ?? this.#unavailable();
    this.#last = chosen;
    return new Lease(chosen);
  }

  overview(): ModelOverview {
    return {
      id: this.id,
      required: this.required,
      waiting: this.queue.waiting,
      replicas: this.#replicas.map((replica) => replica.summary()),
    };
  }

  /** Returns every replica with its metrics, for operators. */
  reports(): ReplicaOverview[] {
    return this.#replicas.map((replica) => ({
      model: this.id,
      ...replica.summary(),
      ...replica.report(),
    }));
  }

  /** Returns a replica by its name. Throws 404 `not_found`. */
  replica(name: string): RoutedReplica {
    const found = this.#replicas.find(({ engine }) => engine.name === name);
    if (found) return found;
    throw new ServiceError('not_found', 'The model has no replica with this name.', { param: 'name' });
  }

  #unavailable(): ServiceError {
    const waits = this.#replicas.map(({ state }) => retryAfterMs(state));
    return new ServiceError('engine_unavailable', 'No replica of this model is available. Try again later.', {
      retryAfterMs: Math.min(...waits),
    });
  }
}

function firstToResume(replicas: readonly RoutedReplica[]): RoutedReplica | undefined {
  return replicas.toSorted((a, b) => a.breaker.pausedUntilMs - b.breaker.pausedUntilMs)[0];
}

function retryAfterMs(state: ReplicaState): number {
  switch (state.state) {
    case 'downloading':
      return 10_000;
    case 'loading':
    case 'ready':
    case 'paused':
      return 1000;
    case 'down':
      return Math.min(Math.max(state.retryInMs ?? 60_000, 1000), 60_000);
  }
}

/**
 * Selects the replica with the fewest requests in flight ("least connections"), and among equals the next one after
 * `last`. It needs no information from the replicas, and sends fewer requests to slow ones. Returns an index, or -1
 * without replicas.
 */
export function fewestInFlight(replicas: readonly { inFlight: number }[], last: number): number {
  let best = -1;
  for (let step = 1; step <= replicas.length; step++) {
    const index = (last + step) % replicas.length;
    const candidate = replicas[index];
    const chosen = replicas[best];
    if (candidate && (!chosen || candidate.inFlight < chosen.inFlight)) best = index;
  }
  return best;
}
