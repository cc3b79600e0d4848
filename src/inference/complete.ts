import { Deadline } from '../deadline.ts';
import { EngineCrashed, ReplicaRefused, type Engine, type ReplicaEvent } from '../engine/engine.ts';
import { ServiceError } from '../errors.ts';
import { estimatedPromptTokens, type GenerationEvent, type GenerationRequest } from '../generation.ts';
import type { RequestResult } from '../routing/breaker.ts';
import type { QueuePlace } from '../routing/queue.ts';
import type { Lease } from '../routing/replica.ts';
import type { ServedModel } from '../routing/served-model.ts';
import { Account, type Accounting, type Asker, type Outcome } from './account.ts';
import type { CrashSuspects } from './crash-suspects.ts';
import { HungUp } from './hung-up.ts';
import type { GenerationRecord } from './record.ts';

/** What every generation of a service is done with. */
export interface Inference {
  accounting: Accounting;
  crashSuspects: CrashSuspects;
  /** Completion tokens after which a checkpoint is written without waiting for the clock. */
  checkpointTokens: number;
}

/** Replicas that one request is sent to at most, beside those that did not take it: it may be what breaks them. */
const MOST_TRIES = 3;

/**
 * Runs one generation: a place in the queue, its limits and the ledger, a replica, its events, and the release of
 * everything however it ends. `record` is filled on the way. A request that fails at a replica before its first
 * event goes to the next one. The iteration ends only when the row of the ledger is settled.
 *
 * Ends by throwing a `ServiceError`, or `stop.signal.reason` when the caller disconnected. `stop` is the caller's:
 * the generation also aborts it, when the request has waited for a slot for longer than the queue allows.
 */
export function complete(
  inference: Inference,
  model: ServedModel,
  asker: Asker,
  request: GenerationRequest,
  stop: AbortController,
  record: GenerationRecord,
): AsyncIterableIterator<GenerationEvent, undefined> {
  return new Completion(inference, model, asker, request, stop, record);
}

type Step = IteratorResult<GenerationEvent, undefined>;

const DONE: Step = { value: undefined, done: true };

/** An iterator by hand: a generator would cost three more turns of the microtask queue, once a token. */
class Completion implements AsyncIterableIterator<GenerationEvent, undefined> {
  readonly #model: ServedModel;
  readonly #account: Account;
  readonly #asker: Asker;
  readonly #crashSuspects: CrashSuspects;
  readonly #request: GenerationRequest;
  readonly #stop: AbortController;
  readonly #record: GenerationRecord;
  /** Where the request has failed, and with what. */
  readonly #failures = new Map<Engine, ServiceError>();
  /** How often it was sent and failed. */
  #tries = 0;
  /** Whether the caller has been given an event: from then on no other replica can take over. */
  #begun = false;
  /** Whether the response is generated as a whole, out of sight. */
  #unseen = false;
  readonly #checkpointTokens: number;
  /** Completion tokens at which the next checkpoint is due. */
  #checkpointAt: number;
  #place: QueuePlace | null = null;
  #patience: Deadline | undefined;
  #lease: Lease | null = null;
  #events: AsyncIterator<ReplicaEvent, undefined> | null = null;
  #over = false;

  constructor(
    { accounting, crashSuspects, checkpointTokens }: Inference,
    model: ServedModel,
    asker: Asker,
    request: GenerationRequest,
    stop: AbortController,
    record: GenerationRecord,
  ) {
    this.#model = model;
    this.#asker = asker;
    this.#crashSuspects = crashSuspects;
    this.#account = new Account(accounting, asker, model, record);
    this.#request = requestFor(model, asker, request);
    this.#stop = stop;
    this.#record = record;
    this.#checkpointTokens = checkpointTokens;
    this.#checkpointAt = checkpointTokens;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Step> {
    if (this.#over) return Promise.resolve(DONE);
    if (this.#events === null) return this.#begin();
    return this.#events.next().then(this.#told, this.#failed);
  }

  /** Only who reads the events has ended the iteration then, and only a fault of ours makes it do so. */
  async return(): Promise<Step> {
    try {
      await this.#events?.return?.();
    } finally {
      if (!this.#over)
        await this.#end(new Error('the consumer stopped reading the response')).catch(() => {});
    }
    return DONE;
  }

  async #begin(): Promise<Step> {
    try {
      if (this.#lease === null) await this.#enter();
      this.#events = this.#ask();
    } catch (error) {
      return await this.#end(error);
    }
    return await this.next();
  }

  /** Enters the queue and the books. */
  async #enter(): Promise<void> {
    this.#crashSuspects.check(this.#request);
    const { queue } = this.#model;
    const { maxWaitMs } = queue.limits;
    this.#place = queue.enter();
    this.#patience = new Deadline(maxWaitMs, () => this.#stop.abort(waitedTooLong(maxWaitMs)));
    await this.#account.open(this.#request);
    this.#stop.signal.throwIfAborted();
  }

  /** Gives the request to the next replica. */
  #ask(): AsyncIterator<ReplicaEvent, undefined> {
    this.#lease = this.#model.acquire(this.#failures);
    this.#record.attempt(this.#lease.engine.name);
    return this.#lease.engine.generate(this.#request, this.#stop.signal)[Symbol.asyncIterator]();
  }

  readonly #told = (step: IteratorResult<ReplicaEvent, undefined>): Step | Promise<Step> => {
    if (step.done) return this.#finish();
    const { value } = step;
    if (value.type === 'sent') {
      this.#leaveQueue();
      this.#unseen = value.whole;
      this.#record.sent(this.#estimate());
      return this.next();
    }
    if (value.type === 'started') this.#leaveQueue();
    else if (this.#record.firstTokenAtMs === null) this.#lease?.began();
    this.#begun = true;
    this.#record.note(value, this.#estimate);
    if (value.type === 'end') return this.#last();
    if (this.#record.usage.completionTokens >= this.#checkpointAt) {
      this.#clamp();
      this.#checkpointAt = this.#record.usage.completionTokens + this.#checkpointTokens;
      this.#account.checkpoint();
    }
    // Not `sent`: that was handled above.
    return step as Step;
  };

  /** The last event, with the usage as it is charged. */
  #last(): Step {
    this.#clamp();
    const { usage, usageSource } = this.#record;
    return { value: { type: 'end', usage, usageSource: usageSource ?? 'estimated' }, done: false };
  }

  /** A replica that reports more tokens than were set aside charges its caller no more than that. */
  #clamp(): void {
    const { usage } = this.#record;
    if (this.#account.clamp()) this.#lease?.replica.impossibleUsage(usage);
  }

  readonly #estimate = () => estimatedPromptTokens(this.#request);

  readonly #failed = (error: unknown): Promise<Step> => {
    if (this.#stop.signal.aborted || !isReplicaFailure(error) || !this.#lease) return this.#end(error);
    const { engine } = this.#lease;
    if (error instanceof EngineCrashed && this.#begun)
      this.#crashSuspects.record(this.#request, this.#asker, `${engine.name} start ${error.starts}`);
    const refused = error instanceof ReplicaRefused;
    this.#lease.release(refused && error.rateLimited ? 'inconclusive' : 'failed', error);
    if (!refused) this.#tries++;
    if (this.#begun || this.#tries >= MOST_TRIES) return this.#end(error);
    this.#failures.set(engine, error);
    this.#events = null;
    return this.next();
  };

  async #finish(): Promise<Step> {
    this.#release('succeeded');
    this.#measure();
    this.#crashSuspects.clear(this.#request);
    const delivered = !this.#stop.signal.aborted;
    await this.#account.settle({ code: null, status: 200, billed: true, delivered });
    return DONE;
  }

  /** Throws what ended the request, whether or not its row could be written: the ledger reports that itself. */
  async #end(reason: unknown): Promise<never> {
    this.#release('inconclusive');
    const outcome = outcomeOf(reason);
    if (outcome.billed) this.#countUnseen();
    this.#clamp();
    await this.#account.settle(outcome).catch(() => {});
    throw reason;
  }

  /** Milliseconds since the request was sent, or got its slot. */
  get #runMs(): number {
    const { slotAtMs, endedAtMs } = this.#record;
    return slotAtMs === null || endedAtMs === null ? 0 : endedAtMs - slotAtMs;
  }

  get #choices(): number {
    const { choices } = this.#request;
    return this.#request.kind === 'chat' ? choices : choices * this.#request.prompts.length;
  }

  #measure(): void {
    const { usage, usageSource } = this.#record;
    if (this.#runMs <= 0 || usage.completionTokens === 0 || usageSource === 'clamped') return;
    this.#lease?.replica.measured(usage.completionTokens / this.#choices / this.#runMs);
  }

  /**
   * A response that is generated as a whole shows nothing until its end. A caller who leaves before that pays what
   * the replica generates at half its usual speed, which is in the caller's favor.
   */
  #countUnseen(): void {
    const tokensPerMs = this.#lease?.replica.tokensPerMs ?? null;
    if (!this.#unseen || this.#begun || tokensPerMs === null) return;
    const tokens = Math.floor((this.#runMs * tokensPerMs) / 2);
    this.#account.estimateCompletion(Math.min(tokens, this.#request.maxTokens ?? Infinity) * this.#choices);
  }

  #leaveQueue(): void {
    this.#patience?.[Symbol.dispose]();
    this.#place?.leave();
  }

  #release(result: RequestResult): void {
    this.#over = true;
    this.#leaveQueue();
    this.#lease?.release(result);
    this.#record.endedAtMs = performance.now();
  }
}

/** The request as replicas get it: within what the model gives, and with the cache scope of its account. */
function requestFor(model: ServedModel, { caller }: Asker, request: GenerationRequest): GenerationRequest {
  const card = model.card();
  const bounded = card !== null && card.max_completion_tokens < card.context_length;
  const maxTokens = bounded
    ? Math.min(request.maxTokens ?? Infinity, card.max_completion_tokens)
    : request.maxTokens;
  return { ...request, maxTokens, cacheScope: caller.cacheScope };
}

/** Whether another replica might serve the request: not where the request itself is at fault, or this service. */
function isReplicaFailure(error: unknown): error is ServiceError {
  return (
    error instanceof ServiceError && (error.code === 'engine_unavailable' || error.code === 'internal_error')
  );
}

/** Callers pay for what they had generated and no longer want, and for nothing that a fault of ours or theirs ended. */
function outcomeOf(error: unknown): Outcome {
  if (error instanceof HungUp) return { code: 'hung_up', status: 200, billed: true, delivered: false };
  const { code, status } =
    error instanceof ServiceError ? error : { code: 'internal_error' as const, status: 500 };
  return { code, status, billed: code === 'invalid_api_key', delivered: true };
}

function waitedTooLong(maxWaitMs: number): ServiceError {
  const seconds = Math.ceil(maxWaitMs / 1000);
  return new ServiceError(
    'queue_full',
    `The request waited ${seconds} s for a free slot of this model. Try again later.`,
    {
      retryAfterMs: 1000,
    },
  );
}
