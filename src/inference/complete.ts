import type { Engine, ReplicaRefused } from '../engine/engine.ts';
import { ReplicaRefused as Refused } from '../engine/engine.ts';
import { ServiceError } from '../errors.ts';
import type { FinishReason, GenerationEvent, GenerationRequest, Usage } from '../generation.ts';
import type { Lease, QueuePlace, Router } from '../routing/router.ts';

/** What is known of one generation while it runs and after it; times are `performance.now()` milliseconds. */
export interface GenerationRecord {
  startedAtMs: number;
  /** When the engine gave the request a slot; null before. */
  slotAtMs: number | null;
  firstTokenAtMs: number | null;
  endedAtMs: number | null;
  replica: string | null;
  usage: Usage;
  usageSource: 'engine' | 'estimated' | null;
  /** Of the choice that finished last; null when the generation did not come to its end. */
  finishReason: FinishReason | null;
}

/** The record of a generation that begins now. */
export function beginRecord(nowMs: number): GenerationRecord {
  return {
    startedAtMs: nowMs,
    slotAtMs: null,
    firstTokenAtMs: null,
    endedAtMs: null,
    replica: null,
    usage: { promptTokens: 0, completionTokens: 0, cachedTokens: 0 },
    usageSource: null,
    finishReason: null,
  };
}

/**
 * The whole story of one generation: a place in the queue, a replica, its events, and everything released
 * whatever happens. `record` is filled as it goes. A replica that refuses the request is followed by the next.
 *
 * Ends by throwing a `ServiceError`, or `stop.signal.reason` when the caller hung up. `stop` is the caller's:
 * the generation also aborts it, when the request has waited for a slot for longer than the queue allows.
 */
export function complete(
  router: Router,
  request: GenerationRequest,
  stop: AbortController,
  record: GenerationRecord,
): AsyncIterableIterator<GenerationEvent, undefined> {
  return new Completion(router, request, stop, record);
}

type Step = IteratorResult<GenerationEvent, undefined>;

/** An iterator by hand: a generator would cost three more turns of the microtask queue, once a token. */
class Completion implements AsyncIterableIterator<GenerationEvent, undefined> {
  readonly #router: Router;
  readonly #request: GenerationRequest;
  readonly #stop: AbortController;
  readonly #record: GenerationRecord;
  readonly #refused = new Map<Engine, ReplicaRefused>();
  #place: QueuePlace | null = null;
  #patience: NodeJS.Timeout | undefined;
  #lease: Lease | null = null;
  #events: AsyncIterator<GenerationEvent, undefined> | null = null;
  #over = false;

  constructor(router: Router, request: GenerationRequest, stop: AbortController, record: GenerationRecord) {
    this.#router = router;
    this.#request = request;
    this.#stop = stop;
    this.#record = record;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Step> {
    if (this.#over) return Promise.resolve({ value: undefined, done: true });
    try {
      this.#events ??= this.#ask();
    } catch (error) {
      this.#release();
      // What is thrown is an error of the router.
      // oxlint-disable-next-line typescript/prefer-promise-reject-errors
      return Promise.reject(error);
    }
    return this.#events.next().then(this.#told, this.#failed);
  }

  async return(): Promise<Step> {
    try {
      await this.#events?.return?.();
    } finally {
      this.#release();
    }
    return { value: undefined, done: true };
  }

  /** Enters the queue, once, and gives the request to the next replica. */
  #ask(): AsyncIterator<GenerationEvent, undefined> {
    const { maxWaitMs } = this.#router.queue;
    this.#place ??= this.#router.enter(this.#request.model);
    this.#patience ??= setTimeout(() => this.#stop.abort(waitedTooLong(maxWaitMs)), maxWaitMs);
    this.#lease = this.#router.acquire(this.#request.model, this.#refused);
    this.#record.replica = this.#lease.engine.name;
    return this.#lease.engine.generate(this.#request, this.#stop.signal)[Symbol.asyncIterator]();
  }

  readonly #told = (step: Step): Step => {
    if (step.done) this.#release();
    else {
      if (step.value.type === 'started') this.#leaveQueue();
      note(this.#record, step.value);
    }
    return step;
  };

  readonly #failed = (error: unknown): Promise<Step> => {
    if (error instanceof Refused && this.#lease && !this.#stop.signal.aborted) {
      this.#refused.set(this.#lease.engine, error);
      this.#lease.release();
      this.#events = null;
      return this.next();
    }
    this.#release();
    throw error;
  };

  #leaveQueue(): void {
    clearTimeout(this.#patience);
    this.#place?.left();
  }

  #release(): void {
    if (this.#over) return;
    this.#over = true;
    this.#leaveQueue();
    this.#lease?.release();
    this.#record.endedAtMs = performance.now();
  }
}

function waitedTooLong(maxWaitMs: number): ServiceError {
  const seconds = Math.ceil(maxWaitMs / 1000);
  return new ServiceError('queue_full', `The request waited ${seconds} s for this model and got no slot.`, {
    retryAfterMs: 1000,
  });
}

function note(record: GenerationRecord, event: GenerationEvent): void {
  switch (event.type) {
    case 'started':
      record.slotAtMs = performance.now();
      record.usage.promptTokens = event.promptTokens ?? 0;
      record.usage.cachedTokens = event.cachedTokens ?? 0;
      return;
    case 'token':
      record.firstTokenAtMs ??= performance.now();
      record.usage.completionTokens = event.completionTokens ?? record.usage.completionTokens + 1;
      return;
    case 'finish':
      record.finishReason = event.reason;
      return;
    case 'end':
      record.usage = event.usage;
      record.usageSource = event.usageSource;
  }
}
