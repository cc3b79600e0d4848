import type { Engine, ReplicaRefused } from '../engine/engine.ts';
import { ReplicaRefused as Refused, type ReplicaEvent } from '../engine/engine.ts';
import { Deadline } from '../deadline.ts';
import { ServiceError } from '../errors.ts';
import type { GenerationEvent, GenerationRequest } from '../generation.ts';
import type { Lease, QueuePlace, Router } from '../routing/router.ts';
import { Account, type Accounting, type Asker, type Outcome } from './account.ts';
import { HungUp } from './hung-up.ts';
import type { GenerationRecord } from './record.ts';
import { estimatedPromptTokens } from './worst-case.ts';

/** What every generation of a service is done with. */
export interface Inference {
  router: Router;
  accounting: Accounting;
  /** Completion tokens after which a checkpoint is written without waiting for the clock. */
  checkpointTokens: number;
}

/**
 * The whole story of one generation: a place in the queue, what its limits and the ledger say, a replica, its
 * events, and everything given back whatever happens. `record` is filled as it goes. A replica that refuses the
 * request is followed by the next. The iteration ends only when the row of the ledger is settled, so that what is
 * said last is said after it.
 *
 * Ends by throwing a `ServiceError`, or `stop.signal.reason` when the caller hung up. `stop` is the caller's:
 * the generation also aborts it, when the request has waited for a slot for longer than the queue allows.
 */
export function complete(
  inference: Inference,
  asker: Asker,
  request: GenerationRequest,
  stop: AbortController,
  record: GenerationRecord,
): AsyncIterableIterator<GenerationEvent, undefined> {
  return new Completion(inference, asker, request, stop, record);
}

type Step = IteratorResult<GenerationEvent, undefined>;

const DONE: Step = { value: undefined, done: true };

/** An iterator by hand: a generator would cost three more turns of the microtask queue, once a token. */
class Completion implements AsyncIterableIterator<GenerationEvent, undefined> {
  readonly #router: Router;
  readonly #account: Account;
  readonly #request: GenerationRequest;
  readonly #stop: AbortController;
  readonly #record: GenerationRecord;
  readonly #refused = new Map<Engine, ReplicaRefused>();
  readonly #checkpointTokens: number;
  /** Completion tokens at which the next checkpoint is due. */
  #checkpointAt: number;
  #place: QueuePlace | null = null;
  #patience: Deadline | undefined;
  #lease: Lease | null = null;
  #events: AsyncIterator<ReplicaEvent, undefined> | null = null;
  #over = false;

  constructor(
    { router, accounting, checkpointTokens }: Inference,
    asker: Asker,
    request: GenerationRequest,
    stop: AbortController,
    record: GenerationRecord,
  ) {
    this.#router = router;
    this.#account = new Account(accounting, asker, router.model(request.model), record);
    this.#request = request;
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
      if (!this.#over) await this.#end(new Error('nobody read the answer to its end')).catch(() => {});
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
    const { maxWaitMs } = this.#router.queue;
    this.#place = this.#router.enter(this.#request.model);
    this.#patience = new Deadline(maxWaitMs, () => this.#stop.abort(waitedTooLong(maxWaitMs)));
    await this.#account.open(this.#request);
    this.#stop.signal.throwIfAborted();
  }

  /** Gives the request to the next replica. */
  #ask(): AsyncIterator<ReplicaEvent, undefined> {
    this.#lease = this.#router.acquire(this.#request.model, this.#refused);
    this.#record.replica = this.#lease.engine.name;
    this.#record.attempts++;
    return this.#lease.engine.generate(this.#request, this.#stop.signal)[Symbol.asyncIterator]();
  }

  readonly #told = (step: IteratorResult<ReplicaEvent, undefined>): Step | Promise<Step> => {
    if (step.done) return this.#finish();
    const { value } = step;
    if (value.type === 'sent') {
      this.#leaveQueue();
      this.#record.sent();
      return this.next();
    }
    if (value.type === 'started') this.#leaveQueue();
    this.#record.note(value, this.#estimate);
    const { completionTokens } = this.#record.usage;
    if (completionTokens >= this.#checkpointAt) {
      this.#checkpointAt = completionTokens + this.#checkpointTokens;
      this.#account.checkpoint();
    }
    // Not `sent`: that was handled above.
    return step as Step;
  };

  readonly #estimate = () => estimatedPromptTokens(this.#request);

  readonly #failed = (error: unknown): Promise<Step> => {
    if (error instanceof Refused && this.#lease && !this.#stop.signal.aborted) {
      this.#refused.set(this.#lease.engine, error);
      this.#lease.release();
      this.#events = null;
      return this.next();
    }
    return this.#end(error);
  };

  async #finish(): Promise<Step> {
    this.#release();
    const delivered = !this.#stop.signal.aborted;
    await this.#account.settle({ code: null, status: 200, billed: true, delivered });
    return DONE;
  }

  /** What ended the request is told, whether or not its row could be written: the ledger says that by itself. */
  async #end(reason: unknown): Promise<never> {
    this.#release();
    await this.#account.settle(outcomeOf(reason)).catch(() => {});
    throw reason;
  }

  #leaveQueue(): void {
    this.#patience?.[Symbol.dispose]();
    this.#place?.left();
  }

  #release(): void {
    this.#over = true;
    this.#leaveQueue();
    this.#lease?.release();
    this.#record.endedAtMs = performance.now();
  }
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
  return new ServiceError('queue_full', `The request waited ${seconds} s for this model and got no slot.`, {
    retryAfterMs: 1000,
  });
}
