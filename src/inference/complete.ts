import type { ConfigFile } from '../config/schema.ts';
import { DIALECT_TRAITS } from '../replicas/dialects.ts';
import type { Log } from '../support/log.ts';
import {
  ConnectionLost,
  EngineCrashed,
  ReplicaRefused,
  type ReplicaClient,
  type ReplicaEvent,
  type ReplicaEvents,
} from '../replicas/replica.ts';
import { ServiceError } from '../core/errors.ts';
import {
  isForText,
  estimatedPromptTokens,
  totalChoices,
  type GenerationRequest,
  type GenerationEvent,
  type PrefillEvent,
} from '../core/generation.ts';
import type { RequestResult } from '../routing/breaker.ts';
import type { BacklogEntry } from '../routing/backlog.ts';
import type { Permit } from '../routing/permit.ts';
import { LONG_PREFILL_MS, Prefill } from '../routing/prefill.ts';
import type { ServedModel } from '../routing/served-model.ts';
import { CrashSuspects } from './crash-suspects.ts';
import { Interruption, Recovery } from './recovery.ts';
import {
  type Accounting,
  RequestAccounting,
  type RequestIdentity,
  type SettlementOutcome,
} from './request-accounting.ts';
import { type GenerationRecord, ToolCallCounts } from './record.ts';

/** Services shared by all generations. */
export interface Inference {
  accounting: Accounting;
  crashSuspects: CrashSuspects;
  /** Completion tokens between checkpoints. Checkpoints are also written at intervals of time. */
  checkpointTokens: number;
  recovery: ConfigFile['recovery'];
}

export function openInference(
  accounting: Accounting,
  { ledger, recovery }: Pick<ConfigFile, 'ledger' | 'recovery'>,
  log: Log,
): Inference {
  const { checkpointTokens } = ledger;
  return { accounting, crashSuspects: new CrashSuspects(log), checkpointTokens, recovery };
}

/** The client closed the connection before its response was complete. Used as an abort reason, never sent. */
export class ClientDisconnected extends Error {
  constructor(message = 'the client disconnected') {
    super(message);
    this.name = 'ClientDisconnected';
  }
}

/**
 * Maximum number of replicas on which one request may fail, because the request itself may be the cause. Refusals do
 * not count.
 */
const MAX_FAILED_ATTEMPTS = 3;

/**
 * Maximum number of times that a replica may respond with 429 to one request, because the request itself may exceed the
 * limits of a provider.
 */
const MAX_RATE_LIMITS = 3;

/** Maximum number of replicas that may close the connection to one request, because the request may crash them. */
const MAX_LOST_CONNECTIONS = 2;

/** The events of one generation. */
export interface Generation extends AsyncIterableIterator<GenerationEvent, undefined> {
  /** The same as `next`, without a promise for an event that has arrived already. */
  take(): EventResult | Promise<EventResult>;
  /** Ends the generation with an error of what reads it, for which the caller does not pay. Rejects with the error. */
  throw(error: unknown): Promise<IteratorResult<GenerationEvent, undefined>>;
}

/**
 * Runs one generation: waits in the queue, reserves limits, opens the ledger row, streams a replica's events, and
 * releases everything at the end. Keeps `record` up to date. If a replica fails before its first event, the request
 * goes to the next replica. If it fails later, another replica continues the response where possible (`recovery.ts`).
 * The replica works while the row is written; only the first event of a stream waits for the row. The iteration ends
 * only after the row is settled, so what reads it writes the whole response before it asks for more than the event `end`.
 *
 * Throws a `ServiceError`, or `stop.signal.reason` if the client disconnected. Aborts `stop` if the row cannot be
 * written, or if a request of another account takes the request's place in the queue.
 */
export function complete(
  inference: Inference,
  model: ServedModel,
  identity: RequestIdentity,
  request: GenerationRequest,
  stop: AbortController,
  record: GenerationRecord,
): Generation {
  return new GenerationIterator(inference, model, identity, request, stop, record);
}

type EventResult = IteratorResult<GenerationEvent, undefined>;

/** Most requests never fail on a replica. */
const NO_FAILURES: ReadonlyMap<ReplicaClient, ServiceError> = new Map();
const NO_RATE_LIMITS: ReadonlyMap<ReplicaClient, number> = new Map();

const DONE: EventResult = { value: undefined, done: true };

/** A hand-written iterator: a generator would cost three more microtasks per token. */
class GenerationIterator implements Generation {
  readonly #model: ServedModel;
  readonly #accounting: RequestAccounting;
  readonly #identity: RequestIdentity;
  readonly #crashSuspects: CrashSuspects;
  readonly #request: GenerationRequest;
  readonly #stop: AbortController;
  readonly #record: GenerationRecord;
  /** The replicas at which the request has failed, with the errors. */
  #failures: ReadonlyMap<ReplicaClient, ServiceError> = NO_FAILURES;
  /** How often each replica has responded with 429. */
  #rateLimits: ReadonlyMap<ReplicaClient, number> = NO_RATE_LIMITS;
  /** Failures other than refusals. */
  #failedAttempts = 0;
  /** Failures in which the replica closed the connection. */
  #lostConnections = 0;
  /** Whether the caller has received an event. */
  #hasEmitted = false;
  readonly #recovery: Recovery;
  /** Set when a replica fails after sending events, until the first event of the next replica. */
  #interruption: Interruption | null = null;
  /** Whether the replica sends no events before the end. */
  #isWholeResponse = false;
  readonly #checkpointTokens: number;
  /** Completion tokens at which the next checkpoint is due. */
  #checkpointAt: number;
  /** Null before admission. */
  #backlogEntry: BacklogEntry | null = null;
  #permit: Permit | null = null;
  #events: ReplicaEvents | null = null;
  /** Null: the prompt takes less than a second, or its progress is not reported. */
  #prefill: Prefill | null = null;
  #ended = false;

  constructor(
    { accounting, crashSuspects, checkpointTokens, recovery }: Inference,
    model: ServedModel,
    identity: RequestIdentity,
    request: GenerationRequest,
    stop: AbortController,
    record: GenerationRecord,
  ) {
    this.#model = model;
    this.#identity = identity;
    this.#crashSuspects = crashSuspects;
    this.#accounting = new RequestAccounting(accounting, identity, model, record);
    this.#request = requestFor(model, identity, request, record);
    this.#recovery = new Recovery(this.#request, recovery);
    this.#stop = stop;
    this.#record = record;
    record.toolCalls = new ToolCallCounts(this.#request);
    this.#checkpointTokens = checkpointTokens;
    this.#checkpointAt = checkpointTokens;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<EventResult> {
    return await this.take();
  }

  take(): EventResult | Promise<EventResult> {
    if (this.#ended) return DONE;
    if (this.#events === null) return this.#begin();
    const step = this.#events.take?.() ?? null;
    return step === null ? this.#events.next().then(this.#onEvent, this.#onError) : this.#onEvent(step);
  }

  async throw(error: unknown): Promise<never> {
    await this.#events?.return?.();
    return await this.#end(error);
  }

  async #begin(): Promise<EventResult> {
    try {
      if (this.#backlogEntry === null) await this.#admit();
      else if (this.#interruption === null) this.#model.enterAgain(this.#backlogEntry, this.#failures);
      else this.#backlogEntry.waitToContinue();
      this.#stop.signal.throwIfAborted();
      const permit = this.#acquire();
      this.#events = this.#sendToReplica(permit instanceof Promise ? await permit : permit);
    } catch (error) {
      return await this.#end(error);
    }
    return await this.take();
  }

  /** Enters the queue, reserves limits and opens the row. */
  #admit(): Promise<void> {
    this.#crashSuspects.check(this.#request, this.#identity.caller.accountId);
    this.#backlogEntry = this.#model.enter(this.#identity.caller.accountId, this.#stop);
    return this.#accounting.open(this.#request, this.#stop);
  }

  /** Sends the request to a replica that has room. */
  #sendToReplica(permit: Permit): ReplicaEvents {
    this.#permit = permit;
    this.#backlogEntry?.leave();
    this.#prefill = null;
    if (this.#recovery.hasOutput) this.#record.continueOn(permit.client.name);
    else this.#record.attempt(permit.client.name, this.#reportsPrefill(permit.client));
    const request = this.#recovery.requestFor(permit.client);
    const { waitedMs } = permit;
    const { maxWaitMs } = this.#model;
    const events = permit.client.generate(request, this.#stop.signal, { waitedMs, maxWaitMs });
    return events[Symbol.asyncIterator]();
  }

  /** Vectors and scores are computed one after another, which is not reported. */
  #reportsPrefill({ dialect }: ReplicaClient): boolean {
    return DIALECT_TRAITS[dialect].isEngine && isForText(this.#request);
  }

  #acquire(): Permit | Promise<Permit> {
    const interruption = this.#interruption;
    const routed = {
      request: this.#request,
      accountId: this.#identity.caller.accountId,
      weight: this.#accounting.weight,
      isRetry: this.#record.attempts > 0,
      failures: this.#failures,
      charged: this.#permit?.charged ?? 0,
      waitedMs: this.#permit?.waitedMs ?? 0,
      signal: this.#stop.signal,
    };
    if (interruption === null) return this.#model.acquire(routed);
    const suits = (client: ReplicaClient): boolean => this.#recovery.suits(client, interruption.failed);
    // The wait of an interrupted response has its own limit.
    return interruption.acquire(
      (failures, signal) => this.#model.acquire({ ...routed, waitedMs: 0, failures, signal, suits }),
      this.#stop.signal,
    );
  }

  readonly #onEvent = (step: IteratorResult<ReplicaEvent, undefined>): EventResult | Promise<EventResult> => {
    if (step.done) return this.#finish();
    const { value } = step;
    if (value.type === 'prefill') {
      // A replica that continues a response computes its prompt again, which is not charged.
      if (this.#record.firstTokenAtMs === null) this.#prefilled(value);
      return this.take();
    }
    if (this.#interruption !== null && value.type !== 'sent') this.#interruptionEnded();
    // The caller has received these events from the first replica.
    if (this.#recovery.hasOutput && (value.type === 'sent' || value.type === 'started')) return this.take();
    if (value.type === 'sent') {
      this.#isWholeResponse = value.whole;
      this.#record.sent(this.#estimate());
      return this.take();
    }
    if (value.type !== 'started' && this.#record.firstTokenAtMs === null) this.#permit?.responseStarted();
    const isFirst = !this.#hasEmitted;
    this.#hasEmitted = true;
    this.#record.update(value, this.#estimate);
    this.#permit?.charge(this.#record.usage);
    this.#recovery.add(value);
    if (!isFirst && value.type === 'started') return this.take();
    // `sent` and `prefill` were handled above.
    const result = value.type === 'end' ? this.#endEvent() : (step as EventResult);
    if (isFirst && this.#request.stream) return this.#whenOpened(result);
    if (this.#record.usage.completionTokens >= this.#checkpointAt) {
      this.#clamp();
      this.#checkpointAt = this.#record.usage.completionTokens + this.#checkpointTokens;
      this.#accounting.checkpoint();
    }
    return result;
  };

  #prefilled(event: PrefillEvent): void {
    const { slotAtMs, usage } = this.#record;
    this.#record.prefilled(event);
    const permit = this.#permit;
    if (permit === null || slotAtMs === null) return;
    permit.charge(usage);
    this.#prefill ??= new Prefill(slotAtMs, usage.cachedTokens);
    const wasLong = this.#prefill.elapsedMs >= LONG_PREFILL_MS;
    this.#prefill.report(event, performance.now());
    permit.prefilled(this.#identity.requestId, event, this.#prefill);
    const { elapsedMs, leftMs } = this.#prefill;
    if (wasLong || elapsedMs < LONG_PREFILL_MS) return;
    permit.replica.log.info('a long prompt is being processed', {
      requestId: this.#identity.requestId,
      promptTokens: event.promptTokens,
      doneTokens: event.doneTokens,
      elapsedMs: Math.round(elapsedMs),
      leftMs: leftMs ?? undefined,
    });
  }

  /** Returns the first event of a stream when the row is on disk. */
  async #whenOpened(first: EventResult): Promise<EventResult> {
    try {
      await this.#accounting.opened;
    } catch (error) {
      await this.#events?.return?.();
      return await this.#end(error);
    }
    return first;
  }

  /** Returns the last event with the usage that is charged. */
  #endEvent(): EventResult {
    this.#clamp();
    const { usage, usageSource } = this.#record;
    return { value: { type: 'end', usage, usageSource: usageSource ?? 'estimated' }, done: false };
  }

  /** Limits the charge to the reservation, and logs a replica that reports more. */
  #clamp(): void {
    const { usage } = this.#record;
    if (this.#accounting.clamp())
      this.#permit?.replica.warn('replica reported impossible token counts', { ...usage });
  }

  readonly #estimate = () => estimatedPromptTokens(this.#request);

  readonly #onError = (error: unknown): EventResult | Promise<EventResult> => {
    if (this.#stop.signal.aborted || !this.#permit) return this.#end(error);
    // Another replica may refuse to continue, which is not the caller's fault.
    if (!isReplicaFailure(error)) return this.#end(this.#interruption?.error ?? error);
    const { client, replica } = this.#permit;
    // A response that is continued was recorded when it was interrupted.
    if (error instanceof EngineCrashed && this.#interruption === null)
      this.#crashSuspects.record(this.#request, this.#identity, `${client.name} start ${error.starts}`);
    const refused = error instanceof ReplicaRefused;
    const rateLimited = refused && error.rateLimited;
    this.#permit.release(rateLimited ? 'inconclusive' : 'failed', error);
    if (this.#hasEmitted) return this.#recover(error, client);
    if (!refused) {
      this.#failedAttempts++;
      if (error instanceof ConnectionLost || error instanceof EngineCrashed) this.#lostConnections++;
      if (this.#lostConnections >= MAX_LOST_CONNECTIONS) {
        const { requestId } = this.#identity;
        replica.log.warn('request not retried: two replicas closed its connection', { requestId });
        return this.#end(error);
      }
      if (this.#failedAttempts >= MAX_FAILED_ATTEMPTS || !this.#model.takeRetry()) return this.#end(error);
    }
    if (!rateLimited || this.#countRateLimit(client) >= MAX_RATE_LIMITS)
      this.#failures = new Map(this.#failures).set(client, error);
    this.#record.attemptFailed();
    this.#events = null;
    return this.take();
  };

  #countRateLimit(client: ReplicaClient): number {
    const count = (this.#rateLimits.get(client) ?? 0) + 1;
    this.#rateLimits = new Map(this.#rateLimits).set(client, count);
    return count;
  }

  /** Continues a response after a failure, or ends it with the error. */
  #recover(error: ServiceError, failed: ReplicaClient): EventResult | Promise<EventResult> {
    const { usage, finishReason } = this.#record;
    const missing = this.#recovery.missingEvents(usage, finishReason);
    if (missing !== null) {
      this.#events = eventsOf(missing);
      return this.take();
    }
    // A refusal does not count as an attempt, because an engine that is restarting refuses requests at first.
    const isRefused = this.#interruption !== null && error instanceof ReplicaRefused;
    if (!isRefused) {
      if (this.#crashSuspects.refuses(this.#request)) return this.#end(error);
      if (!this.#recovery.begin(failed, usage)) return this.#end(this.#interruption?.error ?? error);
      this.#interruption ??= new Interruption(error, failed, this.#recovery.maxWaitMs);
    }
    if (!this.#recovery.hasOutput) this.#record.attemptFailed();
    this.#events = null;
    return this.take();
  }

  /** Called at the first event of the replica that took over. */
  #interruptionEnded(): void {
    this.#interruption = null;
    this.#permit?.responseStarted();
  }

  async #finish(): Promise<EventResult> {
    this.#release('succeeded');
    this.#recordSpeed();
    const invalid = this.#record.toolCalls?.invalid ?? 0;
    if (invalid > 0) this.#permit?.replica.warn('replica returned invalid tool calls', { calls: invalid });
    this.#crashSuspects.clear(this.#request);
    const delivered = !this.#stop.signal.aborted;
    await this.#accounting.settle({ code: null, status: 200, billed: true, delivered });
    return DONE;
  }

  /**
   * Settles the row and throws `reason`. If settling fails before the row is on disk, only the error of the ledger
   * may be sent, so this throws it instead (unless the client has disconnected). If settling fails later, the ledger
   * logs the error.
   */
  async #end(reason: unknown): Promise<never> {
    this.#release('inconclusive');
    const outcome = outcomeOf(reason);
    if (outcome.billed) this.#estimateWholeResponse();
    this.#clamp();
    await this.#accounting.settle(outcome).catch((error: unknown) => {
      if (!this.#record.isRowWritten && !(reason instanceof ClientDisconnected)) throw error;
    });
    throw reason;
  }

  /**
   * Run time in milliseconds. It starts when the request gets a slot or, if the server does not report slots, when
   * the request is sent.
   */
  get #runMs(): number {
    const { slotAtMs, endedAtMs } = this.#record;
    return slotAtMs === null || endedAtMs === null ? 0 : endedAtMs - slotAtMs;
  }

  #recordSpeed(): void {
    const { usage, usageSource } = this.#record;
    if (this.#runMs <= 0 || usage.completionTokens === 0 || usageSource === 'clamped') return;
    if (this.#record.continuedAfter !== null) return;
    const tokensPerChoice = usage.completionTokens / totalChoices(this.#request);
    this.#permit?.replica.recordSpeed(tokensPerChoice / this.#runMs);
  }

  /**
   * Estimates the completion tokens when the client disconnects before a non-streaming response arrives. Assumes half
   * of the replica's average speed, in the caller's favor.
   */
  #estimateWholeResponse(): void {
    const tokensPerMs = this.#permit?.replica.tokensPerMs ?? null;
    if (!this.#isWholeResponse || this.#hasEmitted || tokensPerMs === null) return;
    const tokens = Math.min(Math.floor((this.#runMs * tokensPerMs) / 2), this.#request.maxTokens ?? Infinity);
    this.#accounting.estimateCompletion(tokens * totalChoices(this.#request));
  }

  #release(result: RequestResult): void {
    this.#ended = true;
    this.#backlogEntry?.leave();
    this.#permit?.release(result);
    this.#record.endedAtMs = performance.now();
  }
}

// oxlint-disable-next-line typescript/require-await
async function* eventsOf(events: readonly GenerationEvent[]): AsyncGenerator<GenerationEvent, undefined> {
  yield* events;
}

/** Returns the request for replicas: within the model's limits, with the cache scope of its account and its trace. */
function requestFor(
  model: ServedModel,
  { caller }: RequestIdentity,
  request: GenerationRequest,
  { traceparent }: GenerationRecord,
): GenerationRequest {
  const card = model.card();
  const bounded = card !== null && card.max_completion_tokens < card.context_length;
  const maxTokens = bounded
    ? Math.min(request.maxTokens ?? Infinity, card.max_completion_tokens)
    : request.maxTokens;
  return { ...request, maxTokens, cacheScope: caller.cacheScope, traceparent };
}

/** Whether another replica may serve the request, because neither the request nor this service caused the error. */
function isReplicaFailure(error: unknown): error is ServiceError {
  return (
    error instanceof ServiceError && (error.code === 'engine_unavailable' || error.code === 'internal_error')
  );
}

/** Codes with which a request ends whose key may no longer be used for it. */
const ENDED_ACCESS: ReadonlySet<string> = new Set(['invalid_api_key', 'model_not_allowed']);

/** Callers pay for generated tokens when they disconnect or their key loses access, and nothing after other errors. */
function outcomeOf(error: unknown): SettlementOutcome {
  if (error instanceof ClientDisconnected)
    return { code: 'client_disconnected', status: 200, billed: true, delivered: false };
  const { code, status } =
    error instanceof ServiceError ? error : { code: 'internal_error' as const, status: 500 };
  return { code, status, billed: ENDED_ACCESS.has(code), delivered: true };
}
