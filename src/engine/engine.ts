import type { PullProgress } from '../models/progress.ts';
import type { Dialect, GenerationEvent, GenerationRequest } from '../generation.ts';
import { ServiceError } from '../errors.ts';

/** What a replica says of the model it serves; null where it does not tell. */
export interface EngineDescription {
  /** Tokens that one request can have, prompt and completion together. */
  contextTokens: number | null;
  maxCompletionTokens: number | null;
  quantization: string | null;
  tokenizer: string | null;
  instructType: string | null;
}

/** A replica's load as it reports it; null where it does not tell. */
export interface EngineHealth {
  slots: number | null;
  slotsInUse: number | null;
  /** Requests that wait for a slot in the engine. */
  queued: number | null;
  /** Time since the last decode step ended, in milliseconds; null while it has nothing to do. */
  lastStepAgeMs: number | null;
  /** Tokens of the prompts that it has taken since it started, and how many of them a prefix cache held. */
  promptTokens: number | null;
  cachedTokens: number | null;
  /** Tokens that it has generated since it started. */
  completionTokens: number | null;
  /** Resident memory of its process. */
  memoryBytes: number | null;
}

/**
 * `sent`: the request is on an accepted connection of a server that does not report when a request gets a slot.
 * From here on it counts as having one. It comes first, and only from such servers. `whole`: nothing comes before all is
 * generated.
 */
export type ReplicaEvent = { type: 'sent'; whole: boolean } | GenerationEvent;

/**
 * Generates in another process, over HTTP. One object per replica.
 * `generate` rejects with a `ServiceError`; the one subclass below means that the replica did not take the request
 * and another replica may be tried. Aborting the signal ends the iteration with the signal's reason
 * and closes the connection, which frees the engine's slot.
 */
export interface Engine {
  /** For logs and metrics, never for callers. */
  readonly name: string;
  readonly dialect: Dialect;
  generate(request: GenerationRequest, signal: AbortSignal): AsyncIterable<ReplicaEvent>;
  /** Rejects where the replica does not answer as a healthy one does. */
  health(signal: AbortSignal): Promise<EngineHealth>;
  describe(signal: AbortSignal): Promise<EngineDescription>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * What an engine process of ours generates with, inside that process: llama.cpp or the scripted engine.
 * `engine/server.ts` puts the HTTP face before it. Same rules of events, errors and signals as `Engine`.
 */
export interface LocalEngine {
  /** Yields `started` only when the request has a slot and its prompt fits. */
  generate(request: GenerationRequest, signal: AbortSignal): AsyncIterable<GenerationEvent>;
  health(): Omit<LocalEngineHealth, 'memoryBytes'>;
  describe(): EngineDescription;
}

/** The body of an engine process's `GET /health`, in camel case as it stands. */
export interface LocalEngineHealth extends EngineHealth {
  /** Median time of the last hundred steps, in milliseconds; 0 before the first. */
  medianStepMs: number;
}

/**
 * What an engine process writes to its standard output, one JSON object a line, for its supervisor.
 * Its log goes to standard error. It exits when its standard input ends: no child outlives the service.
 */
export type EngineReport =
  | { event: 'loading'; fraction: number }
  /** Loaded, warmed up, and listening. */
  | { event: 'ready'; description: EngineDescription; slots: number; backend: string }
  /** It exits after this line; `retry` is false where starting again cannot help. */
  | { event: 'failed'; reason: string; retry: boolean };

/** The replica did not take the request: unreachable, or 503 or 429 before the first byte. */
export class ReplicaRefused extends ServiceError {
  /** Whether it is healthy and only wants fewer requests: a 429. */
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

/** The process of an embedded engine ended while it had the request. */
export class EngineCrashed extends ServiceError {
  /** Starts of that engine up to this crash: the same for all requests that it ended. */
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

/** Where an embedded engine is on its way to answering. */
export type EngineState =
  /** `pull` is null before the first word of it. */
  | { state: 'downloading'; pull: PullProgress | null }
  /** `fraction` of the model loaded, 0 to 1. */
  | { state: 'loading'; fraction: number }
  | { state: 'ready' }
  /** `reason` is for operators. `retryInMs` is null when nothing will be tried again by itself. */
  | { state: 'down'; reason: string; retryInMs: number | null };
