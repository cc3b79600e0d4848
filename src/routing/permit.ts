import { AccessDenied, ReplicaRefused, type ReplicaClient } from '../replicas/replica.ts';
import type { Usage, PrefillEvent } from '../core/generation.ts';
import type { RequestResult } from './breaker.ts';
import type { AccountShare, AccountShares } from './fair-queue.ts';
import type { Prefill } from './prefill.ts';
import type { RoutedReplica } from './replica.ts';

/** Sends waiting requests to a replica that may have room. */
interface Dispatcher {
  readonly shares: AccountShares;
  dispatchTo(replica: RoutedReplica): void;
}

/**
 * Weight of a completion token relative to an uncached prompt token in an account's work. OpenAI and other providers
 * charge two to five times as much for it.
 */
const COMPLETION_WEIGHT = 2;

/** Completion tokens after which an account is charged again while it generates. Charging each would cost more than it helps. */
const CHARGED_TOKENS = 32;

/** One request on one replica, counted as load until released. */
export class Permit {
  /** How long the request has waited for this and earlier replicas, in milliseconds. */
  readonly waitedMs: number;
  readonly #dispatcher: Dispatcher;
  readonly #assignment: Assignment;
  readonly #share: AccountShare;
  readonly #choices: number;
  readonly #ticket: number;
  /** Work charged to the account for the request so far, in prompt tokens. */
  #charged: number;
  /** Work so far. */
  #work = 0;
  #released = false;

  /** `charged`: work charged for earlier attempts. Charges the part of `work` that exceeds `charged`. */
  constructor(
    dispatcher: Dispatcher,
    assignment: Assignment,
    share: AccountShare,
    choices: number,
    charged: number,
    work: number,
    waitedMs: number,
  ) {
    this.waitedMs = waitedMs;
    const { replica } = assignment;
    this.#dispatcher = dispatcher;
    this.#assignment = assignment;
    this.#share = share;
    this.#choices = choices;
    this.#charged = charged;
    this.#ticket = replica.breaker.admit();
    replica.inFlight++;
    replica.choicesInFlight += choices;
    replica.backoff.sent(this);
    dispatcher.shares.start(share);
    this.#chargeUpTo(work);
  }

  get replica(): RoutedReplica {
    return this.#assignment.replica;
  }

  /** Work charged to the account for the request so far, in prompt tokens. */
  get charged(): number {
    return this.#charged;
  }

  get client(): ReplicaClient {
    return this.replica.client;
  }

  /** Records that the replica started to respond. */
  responseStarted(): void {
    this.#assignment.prefillEnded();
    this.replica.responseStarted();
    this.replica.breaker.responseStarted(this.#ticket);
    this.replica.backoff.accepted(this);
    this.#dispatcher.dispatchTo(this.replica);
  }

  /** Records the progress of the prompt, which the replica reports if it takes long. */
  prefilled(requestId: string, event: PrefillEvent, prefill: Prefill): void {
    this.#assignment.prefilled(requestId, event, prefill);
  }

  /** Charges the account for the tokens so far: for some at once, and for the rest when the permit is released. */
  charge({ promptTokens, cachedTokens, completionTokens }: Usage): void {
    this.#work = promptTokens - cachedTokens + COMPLETION_WEIGHT * completionTokens;
    if (this.#work >= this.#charged + COMPLETION_WEIGHT * CHARGED_TOKENS) this.#chargeUpTo(this.#work);
  }

  #chargeUpTo(work: number): void {
    if (work <= this.#charged) return;
    this.#dispatcher.shares.charge(this.#share, work - this.#charged);
    this.#charged = work;
  }

  /** Records the result of the request; `error` is its failure. Idempotent. */
  release(result: RequestResult, error?: unknown): void {
    if (this.#released) return;
    this.#released = true;
    this.#chargeUpTo(this.#work);
    const { replica } = this;
    this.#assignment.end();
    replica.inFlight--;
    replica.choicesInFlight -= this.#choices;
    this.#share.running--;
    if (error instanceof AccessDenied) {
      const cause = error.cause instanceof Error ? error.cause.message : undefined;
      replica.warn('this service has no access to the replica', { cause });
    }
    if (error instanceof ReplicaRefused && error.rateLimited) {
      const { retryAfterMs } = error;
      replica.backoff.refused(retryAfterMs);
      replica.warn('the server limits the rate of requests', { retryAfterMs });
    }
    replica.backoff.ended(this);
    replica.breaker.recordResult(this.#ticket, result, error);
    this.#dispatcher.dispatchTo(replica);
  }
}

/** A request at the replica that was chosen for it, where it waits or runs. Counted as load until it ends. */
export class Assignment {
  readonly replica: RoutedReplica;
  #prefillTokens: number;
  /** The request whose progress the replica has; null: none is reported. */
  #prefilling: string | null = null;
  #ended = false;

  /** `prefillTokens`: estimated prompt tokens that the replica has to process for the request. */
  constructor(replica: RoutedReplica, prefillTokens: number) {
    this.replica = replica;
    this.#prefillTokens = prefillTokens;
    replica.assigned++;
    replica.outstandingPrefillTokens += prefillTokens;
  }

  /** Estimated prompt tokens that the replica still has to process. */
  get prefillTokens(): number {
    return this.#prefillTokens;
  }

  /** Called when the replica reports how much of the prompt it has processed. */
  prefilled(requestId: string, { promptTokens, doneTokens }: PrefillEvent, prefill: Prefill): void {
    this.#prefilling = requestId;
    this.replica.prefills.set(requestId, prefill);
    this.replica.outstandingPrefillTokens += promptTokens - doneTokens - this.#prefillTokens;
    this.#prefillTokens = promptTokens - doneTokens;
  }

  /** Called when the prompt has been processed. Idempotent. */
  prefillEnded(): void {
    if (this.#prefilling !== null) this.replica.prefills.delete(this.#prefilling);
    this.#prefilling = null;
    this.replica.outstandingPrefillTokens -= this.#prefillTokens;
    this.#prefillTokens = 0;
  }

  /** Called when the request has ended or moves to another replica. Idempotent. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.prefillEnded();
    this.replica.assigned--;
  }
}
