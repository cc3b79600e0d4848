import type { Engine, EngineState } from '../engine/engine.ts';
import type { ReplicaReport } from '../engine/report.ts';
import { ReplicaRefused } from '../engine/engine.ts';
import { ServiceError } from '../errors.ts';
import type { Dialect, ModelCard } from '../generation.ts';
import { fewestInFlight } from './policy.ts';

/** One place that generates for a model: the client of its server, and whether it can take a request. */
export interface ReplicaEntry {
  engine: Engine;
  /** Asked at every choice, so it must be cheap. */
  state(): EngineState;
  /** What operators are told beside that. */
  report(): ReplicaReport;
}

interface Replica extends ReplicaEntry {
  inFlight: number;
}

/** A model as it is served. Its card is null until enough is known of it to be listed. */
export interface ServedModel {
  readonly id: string;
  readonly required: boolean;
  readonly dialects: readonly Dialect[];
  /** Pico-dollars a token. */
  readonly price: { readonly prompt: number; readonly completion: number };
  card(): ModelCard | null;
}

interface Entry extends ServedModel {
  replicas: Replica[];
  /** Index of the replica chosen last, so that equals take turns. */
  last: number;
  /** Requests that have no slot yet. */
  waiting: number;
}

export interface QueueLimits {
  /** Requests a model that may wait for a slot. */
  maxRequests: number;
  maxWaitMs: number;
}

/** Model id -> its replicas, their load, and the queue before them. It starts nothing and owns no engine. */
export class Router {
  readonly queue: QueueLimits;
  readonly #entries = new Map<string, Entry>();

  constructor(queue: QueueLimits) {
    this.queue = queue;
  }

  /** Adds a model; `replicas` is not empty. */
  serve(model: ServedModel, replicas: readonly ReplicaEntry[]): void {
    const own = replicas.map((replica) => ({
      engine: replica.engine,
      state: () => replica.state(),
      report: () => replica.report(),
      inFlight: 0,
    }));
    this.#entries.set(model.id, {
      id: model.id,
      required: model.required,
      dialects: model.dialects,
      price: model.price,
      card: () => model.card(),
      replicas: own,
      last: own.length - 1,
      waiting: 0,
    });
  }

  /** The model of that id, or 404 `model_not_found`. */
  model(id: string): ServedModel {
    return this.#entry(id);
  }

  /** The cards of the models that can be listed, in the order of the configuration. */
  cards(): ModelCard[] {
    return [...this.#entries.values()].map((entry) => entry.card()).filter((card) => card !== null);
  }

  /**
   * Takes a place in the model's queue, to be left by `left()` once the engine has given the request a slot,
   * or in `finally`. 503 `queue_full` when as many wait as may.
   */
  enter(id: string): QueuePlace {
    const entry = this.#entry(id);
    if (entry.waiting >= this.queue.maxRequests) {
      throw new ServiceError('queue_full', `${entry.waiting} requests wait for this model already.`, {
        retryAfterMs: 1000,
      });
    }
    return new QueuePlace(entry);
  }

  /**
   * Chooses a ready replica that is not in `refused`, and counts the request there until the lease is
   * released. 503 `engine_unavailable` when there is none left; with the last refusal as its cause.
   */
  acquire(id: string, refused: ReadonlyMap<Engine, ReplicaRefused>): Lease {
    const entry = this.#entry(id);
    const able = entry.replicas.filter(
      (replica) => replica.state().state === 'ready' && !refused.has(replica.engine),
    );
    const lastEngine = entry.replicas[entry.last]?.engine;
    const last = able.findIndex((replica) => replica.engine === lastEngine);
    const chosen = able[fewestInFlight(able, last === -1 ? able.length - 1 : last)];
    if (!chosen) throw unavailable(entry, refused);
    entry.last = entry.replicas.indexOf(chosen);
    return new Lease(chosen);
  }

  /** For `/readyz` and operators: every model with the states of its replicas. */
  overview(): ModelOverview[] {
    return [...this.#entries.values()].map((entry) => ({
      id: entry.id,
      required: entry.required,
      waiting: entry.waiting,
      replicas: entry.replicas.map((replica) => ({
        name: replica.engine.name,
        dialect: replica.engine.dialect,
        inFlight: replica.inFlight,
        state: replica.state(),
      })),
    }));
  }

  /** For operators: every replica of every model, with its numbers. */
  reports(): ReplicaOverview[] {
    return [...this.#entries.values()].flatMap(({ id, replicas }) =>
      replicas.map((replica) => ({
        model: id,
        name: replica.engine.name,
        dialect: replica.engine.dialect,
        inFlight: replica.inFlight,
        state: replica.state(),
        ...replica.report(),
      })),
    );
  }

  #entry(id: string): Entry {
    const entry = this.#entries.get(id);
    if (!entry) {
      throw new ServiceError(
        'model_not_found',
        `The model ${JSON.stringify(id.slice(0, 200))} does not exist.`,
        {
          param: 'model',
        },
      );
    }
    return entry;
  }
}

export interface ModelOverview {
  id: string;
  required: boolean;
  waiting: number;
  replicas: { name: string; dialect: Dialect; inFlight: number; state: EngineState }[];
}

export interface ReplicaOverview extends ReplicaReport {
  model: string;
  name: string;
  dialect: Dialect;
  /** Requests that it has of this copy of the service. */
  inFlight: number;
  state: EngineState;
}

/** One request's place among those that wait for a slot. */
export class QueuePlace {
  #entry: Entry | null;

  constructor(entry: Entry) {
    this.#entry = entry;
    entry.waiting++;
  }

  /** The request waits no more. May be called again; only the first counts. */
  left(): void {
    if (this.#entry) this.#entry.waiting--;
    this.#entry = null;
  }
}

/** One request at one replica, counted as load until released. */
export class Lease {
  readonly engine: Engine;
  #replica: Replica | null;

  constructor(replica: Replica) {
    this.engine = replica.engine;
    this.#replica = replica;
    replica.inFlight++;
  }

  /** May be called again; only the first counts. */
  release(): void {
    if (this.#replica) this.#replica.inFlight--;
    this.#replica = null;
  }
}

function unavailable(entry: Entry, refused: ReadonlyMap<Engine, ReplicaRefused>): ServiceError {
  const last = [...refused.values()].at(-1);
  if (last) return last;
  const waits = entry.replicas.map((replica) => retryAfterMs(replica.state()));
  return new ServiceError('engine_unavailable', 'No replica of this model can take the request now.', {
    retryAfterMs: Math.min(...waits),
  });
}

function retryAfterMs(state: EngineState): number {
  switch (state.state) {
    case 'downloading':
      return 10_000;
    case 'loading':
    case 'ready':
      return 1000;
    case 'down':
      return Math.min(Math.max(state.retryInMs ?? 60_000, 1000), 60_000);
  }
}
