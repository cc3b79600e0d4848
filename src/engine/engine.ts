import type { GenerationRequest, EngineEvent } from '../core/generation.ts';
import type { RecommendedSampling } from '../core/sampling.ts';

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

/** Minimum time between two events of a prefill, in milliseconds. Short prompts have no such event. */
export const PREFILL_EVENT_MS = 1000;

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

/** Loaded, warmed up, and listening. */
export interface ReadyReport {
  event: 'ready';
  description: ModelDescription;
  slots: number | null;
  backend: string | null;
}

/** A line that an engine process writes to standard output for its supervisor, in JSON. Its log goes to standard error. */
export type EngineReport =
  | { event: 'loading'; fraction: number }
  | ReadyReport
  /** A program was started (`guardian.ts`). It is not ready yet. `port`: 0 if it listens on its socket. */
  | { event: 'started'; port: number }
  /** Memory of a program and its children; `anonymousBytes`: without files that are mapped, such as the model. */
  | { event: 'memory'; residentBytes: number; anonymousBytes: number }
  /** The process exits after this line. `retry`: whether a restart could help. */
  | { event: 'failed'; reason: string; retry: boolean };
