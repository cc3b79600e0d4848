import type { PullProgress } from '../models/progress.ts';
import type { Dialect, GenerationRequest, RecommendedSampling, EngineEvent } from '../core/generation.ts';
import { ServiceError } from '../core/errors.ts';
import { isEmbeddingModality } from '../core/features.ts';

/** A replica's description of its model. Fields are null if they are not reported. */
export interface ModelDescription {
  /** Maximum tokens of a request, prompt and completion together. */
  contextTokens: number | null;
  maxCompletionTokens: number | null;
  quantization: string | null;
  tokenizer: string | null;
  instructType: string | null;
  /** `architecture.modality` of the model. Absent if the engine cannot report it. */
  modality?: string | null;
  /** The format in which the model writes tool calls. Absent if the engine cannot report it. */
  toolFormat?: string | null;
  /** Number of requests that the server can process at the same time. Absent if `ReplicaHealth.slots` has it instead. */
  slots?: number | null;
  /** Absent if the engine cannot report it. */
  recommendedSampling?: RecommendedSampling | null;
}

/** A replica's health. Fields are null if they are not reported. */
export interface ReplicaHealth {
  slots: number | null;
  slotsInUse: number | null;
  /** Requests that wait for a slot in the engine. */
  queued: number | null;
  /** Share of the KV cache that is in use, 0 to 1. Absent if the engine cannot report it. */
  cacheUsage?: number | null;
  /** Time since the last decode step, in milliseconds. Also null if the engine is idle. */
  lastStepAgeMs: number | null;
  /** Token counts since the engine started; `cachedTokens` are part of `promptTokens`. */
  promptTokens: number | null;
  cachedTokens: number | null;
  completionTokens: number | null;
  /**
   * Tokens that were drafted from repetitions since the engine started, and how many of them became completion tokens.
   * Absent if the engine cannot report them.
   */
  draftTokens?: number | null;
  acceptedDraftTokens?: number | null;
  /** Resident memory of the process. */
  memoryBytes: number | null;
  /** Conversations that lost their slot and are kept. Null or absent if none are, or if this is not reported. */
  conversations?: ConversationGauges | null;
}

/** The conversations that an engine keeps in files. */
export interface ConversationGauges {
  entries: number;
  bytes: number;
  /** Since the engine started: conversations that were saved, and loaded. */
  saves: number;
  loads: number;
  /** Total time of the loads, in milliseconds. */
  loadMs: number;
}

/** The values that limit how many requests a replica can take; see `ReplicaHealth`. */
export type ReplicaCapacity = Pick<ReplicaHealth, 'slots' | 'slotsInUse' | 'queued'> & {
  /** Whether its requests take turns in the slots, so that it can run more of them than it has slots. */
  takesTurns?: boolean;
};

/** Returns the same for an engine of the service with this model: the inputs of embeddings take turns. */
export function ownCapacity(
  capacity: ReplicaCapacity,
  description: ModelDescription | null,
): ReplicaCapacity {
  const embeds = isEmbeddingModality(description?.modality ?? '');
  return embeds ? { ...capacity, takesTurns: true } : capacity;
}

/** Minimum time between two events of a prefill, in milliseconds. Short prompts have no such event. */
export const PREFILL_EVENT_MS = 1000;

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
  generate(request: GenerationRequest, signal: AbortSignal, wait?: SlotWait): AsyncIterable<ReplicaEvent>;
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

/** An engine inside its own process, served by `server.ts`. Events, errors and signals are as in `ReplicaClient`. */
export interface Engine {
  /** Yields `started` only when the request has a slot and its prompt fits. `signal` belongs to this request. */
  generate(
    request: GenerationRequest,
    signal: AbortSignal,
  ): AsyncIterable<EngineEvent> | Promise<AsyncIterable<EngineEvent>>;
  /**
   * Returns the prompt tokens that the usage of this request would have. Needs no slot. Throws the same errors for the
   * prompts as `generate`.
   */
  countPromptTokens(request: GenerationRequest, signal: AbortSignal): Promise<number>;
  /** Deletes what is kept for later requests with this `cacheScope`. */
  forget(cacheScope: string): void;
  health(): EngineHealth;
  describe(): ModelDescription;
}

/** The health of an engine, as it reports it itself. */
export interface EngineHealth extends Omit<ReplicaHealth, 'memoryBytes'> {
  /** The duration of the running step, at the speed of earlier ones. In milliseconds. */
  expectedStepMs: number;
}

/**
 * Returns how long an engine may go without a step, in milliseconds: at least `leastMs`, and longer if it is so slow that
 * a step takes that long.
 */
export function stallLimitMs(
  leastMs: number,
  { expectedStepMs }: Pick<EngineHealth, 'expectedStepMs'>,
): number {
  return Math.max(leastMs, 20 * expectedStepMs);
}

/** The response body of an engine's `GET /health`. */
export interface EngineHealthBody extends EngineHealth {
  /** The version of the engine protocol. */
  protocol: number;
  memoryBytes: number;
}

/** A line that an engine process writes to standard output for its supervisor, in JSON. Its log goes to standard error. */
export type EngineReport =
  | { event: 'loading'; fraction: number }
  /** Loaded, warmed up, and listening. */
  | { event: 'ready'; description: ModelDescription; slots: number; backend: string }
  /** The process exits after this line. `retry`: whether a restart could help. */
  | { event: 'failed'; reason: string; retry: boolean };

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
