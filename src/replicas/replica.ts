import type { PullProgress } from '../models/progress.ts';
import type { Dialect, GenerationRequest, EngineEvent } from '../core/generation.ts';
import { ServiceError } from '../core/errors.ts';
import { outputOf } from '../core/features.ts';
import type { ModelDescription, ReplicaHealth } from '../engine/engine.ts';

/** The values that limit how many requests a replica can take; see `ReplicaHealth`. */
export type ReplicaCapacity = Pick<ReplicaHealth, 'slots' | 'slotsInUse' | 'queued'> & {
  /** Whether its requests take turns in the slots, so that it can run more of them than it has slots. */
  takesTurns?: boolean;
};

/** Returns the same for an engine of the service with this model: its inputs take turns, if it returns no text. */
export function ownCapacity(
  capacity: ReplicaCapacity,
  description: ModelDescription | null,
): ReplicaCapacity {
  const takesTurns = outputOf(description?.modality ?? '') !== 'text';
  return takesTurns ? { ...capacity, takesTurns } : capacity;
}

/**
 * `sent` is the first event of servers that do not report when a request gets a slot. It means that the request was
 * sent; from then on, the request is considered to have a slot. With `whole`, the response arrives only when it is
 * complete.
 */
export type ReplicaEvent = { type: 'sent'; whole: boolean } | EngineEvent;

/** How long a request may wait for a slot, here and in the engine of its replica, in milliseconds. */
export interface SlotWait {
  /** How long it has waited before it was sent. */
  waitedMs: number;
  maxWaitMs: number;
}

/** The error of a request that got no slot within `maxWaitMs` milliseconds. */
export function noFreeSlot(maxWaitMs: number): ServiceError {
  return new ServiceError(
    'queue_full',
    `The request waited ${Math.ceil(maxWaitMs / 1000)} s for a free slot of this model. Try again later.`,
    { retryAfterMs: 1000 },
  );
}

/** The events of one request on a replica. */
export interface ReplicaEvents extends AsyncIterator<ReplicaEvent, undefined> {
  /** Returns the next event if it has arrived already; null: `next` waits for it. */
  take?(): IteratorYieldResult<ReplicaEvent> | null;
}

/**
 * The client of one replica. `generate` throws a `ServiceError`; after `ReplicaRefused`, another replica can be tried.
 * If the server is an engine of Sluice and the request waits there for longer than `wait`, throws 503 `queue_full`.
 * Aborting the signal ends the iteration with the signal's reason and closes the connection, which frees the engine's
 * slot.
 */
export interface ReplicaClient {
  /** For logs and metrics, not shown to callers. */
  readonly name: string;
  readonly dialect: Dialect;
  /** The model's name on the replica. */
  readonly model: string;
  generate(
    request: GenerationRequest,
    signal: AbortSignal,
    wait?: SlotWait,
  ): { [Symbol.asyncIterator](): ReplicaEvents };
  /**
   * Returns the prompt tokens that the usage of this request would have, without a slot. Null if servers of this type
   * cannot count them. Throws a `ServiceError`: 400 if an engine of this service refuses the prompts, otherwise
   * `engine_unavailable`.
   */
  countPromptTokens(request: GenerationRequest, signal: AbortSignal): Promise<number | null>;
  /**
   * Deletes what the replica keeps for later requests with this `cacheScope`, if it is an engine of this service. Rejects
   * if it does not respond.
   */
  forget(cacheScope: string, signal: AbortSignal): Promise<void>;
  /** Rejects if the replica is unhealthy. */
  health(signal: AbortSignal): Promise<ReplicaHealth>;
  describe(signal: AbortSignal): Promise<ModelDescription>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** The replica was unreachable, or refused the request with 503 or 429. */
export class ReplicaRefused extends ServiceError {
  declare readonly retryAfterMs: number;
  /** Whether the response was a 429, which means that the replica is healthy. */
  readonly rateLimited: boolean;

  constructor(cause: unknown, { retryAfterMs = 1000, rateLimited = false } = {}) {
    super('engine_unavailable', 'No replica of this model is available. Try again later.', {
      cause,
      retryAfterMs,
    });
    this.name = 'ReplicaRefused';
    this.rateLimited = rateLimited;
  }
}

/** The replica refused the service's key, or the service's account has no credit there. Only the operator can fix this. */
export class AccessDenied extends ServiceError {
  constructor({ code, message, cause, retryAfterMs = 1000 }: ServiceError) {
    super(code, message, { cause, retryAfterMs });
    this.name = 'AccessDenied';
  }
}

/** The connection to a replica was lost after the request was sent; the replica may have crashed. */
export class ConnectionLost extends ServiceError {
  constructor(cause: unknown) {
    super('engine_unavailable', 'The replica of this model failed to respond.', {
      cause,
      retryAfterMs: 1000,
    });
    this.name = 'ConnectionLost';
  }
}

/** The process of an embedded engine ended while it processed the request. */
export class EngineCrashed extends ServiceError {
  /** Number of engine starts before the crash. It is the same for all requests that ended in the same crash. */
  readonly starts: number;

  constructor(starts: number, cause: unknown) {
    super('engine_unavailable', 'The engine of this model crashed and is being restarted. Try again.', {
      cause,
      retryAfterMs: 1000,
    });
    this.name = 'EngineCrashed';
    this.starts = starts;
  }
}

export type EngineState =
  /** `pull` is null before the first progress. */
  | { state: 'downloading'; pull: PullProgress | null }
  /**
   * `fraction` of the model loaded, 0 to 1. `waitsFor`: what the model waits for before it is loaded, for operators;
   * absent while it is being loaded.
   */
  | { state: 'loading'; fraction: number; waitsFor?: string }
  | { state: 'ready' }
  /** An operator has unloaded the model. */
  | { state: 'unloaded' }
  /** The model is not in memory, because it was not used or others needed the memory. The next request loads it. */
  | { state: 'idle' }
  /**
   * `reason` is for operators. `retryInMs`: null if there is no automatic retry. `shortage` is set if there is not enough
   * memory for the model.
   */
  | { state: 'down'; reason: string; retryInMs: number | null; shortage?: MemoryShortage };

/** Why a model cannot be loaded, in bytes. */
export interface MemoryShortage {
  neededBytes: number;
  /** What is available after all models are unloaded that may be. */
  availableBytes: number;
}
