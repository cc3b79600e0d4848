import { type MemoryShortage, noFreeSlot } from '../replicas/replica.ts';
import { Deadline, tickEvery } from '../support/deadline.ts';
import { ServiceError } from '../core/errors.ts';
import { estimatedPromptTokens, totalChoices } from '../core/generation.ts';
import { AccountShares, type AccountShare, FairQueue } from './fair-queue.ts';
import { type Assignment, Permit } from './permit.ts';
import type { BreakerClock } from './breaker.ts';
import { canTake, Placement, type PolicyName, type RoutedRequest } from './placement.ts';
import type { PromptBlocks } from './prefix-index.ts';
import type { ReplicaState, RoutedReplica } from './replica.ts';

/**
 * Interval at which to look for room that was freed by something other than a request of this instance, in
 * milliseconds.
 */
const TICK_MS = 250;

/**
 * How long a request waits only for the replica that was chosen for it, in milliseconds; after that, any replica may
 * take it. Without this wait, requests for a busy model would rarely get the replica that has their prefix, because
 * usually only one replica has room.
 */
const PATIENCE_MS = 1000;

/** A request that waits for room. */
interface Waiter {
  readonly routed: RoutedRequest;
  readonly prompt: PromptBlocks | null;
  readonly share: AccountShare;
  readonly isRetry: boolean;
  readonly sinceMs: number;
  readonly permit: PromiseWithResolvers<Permit>;
  assignment: Assignment;
}

export interface DispatcherOptions {
  policy: PolicyName;
  maxWaitMs: number;
  clock: BreakerClock;
}

/** Sends the requests of one model to replicas that have room, so that accounts get fair shares of the replicas. */
export class Dispatcher {
  readonly shares = new AccountShares();
  /** The waiting requests of each replica. */
  readonly #queues: Map<RoutedReplica, FairQueue<Waiter>>;
  readonly #placement: Placement;
  readonly #maxWaitMs: number;
  readonly #clock: BreakerClock;
  /** Set while requests wait. */
  #ticks: Disposable | null = null;

  /** When `replicas` changes later, pass each new replica to `add` and each removed one to `remove`. */
  constructor(replicas: readonly RoutedReplica[], { policy, maxWaitMs, clock }: DispatcherOptions) {
    this.#queues = new Map(replicas.map((replica) => [replica, new FairQueue<Waiter>()]));
    this.#placement = new Placement(replicas, policy, maxWaitMs);
    this.#maxWaitMs = maxWaitMs;
    this.#clock = clock;
  }

  add(replica: RoutedReplica): void {
    this.#queues.set(replica, new FairQueue<Waiter>());
    this.dispatchTo(replica);
  }

  /** Chooses other replicas for the requests that are waiting for this one. */
  remove(replica: RoutedReplica): void {
    const waiters = this.#queue(replica).clear();
    this.#queues.delete(replica);
    for (const waiter of waiters) this.#assignAgain(waiter);
  }

  /** Removes all replicas and refuses the waiting requests with `reason`. */
  close(reason: ServiceError): void {
    const waiters = [...this.#queues.values()].flatMap((queue) => queue.clear());
    this.#queues.clear();
    for (const { assignment, permit } of waiters) {
      assignment.end();
      permit.reject(reason);
    }
  }

  get waiting(): number {
    let sum = 0;
    for (const { size } of this.#queues.values()) sum += size;
    return sum;
  }

  /** See `Placement.free`. */
  free(failures: RoutedRequest['failures']): number {
    return this.#placement.free(failures);
  }

  /**
   * Chooses a replica for a request, and counts the request there until the permit is released. Waits while the replica
   * has no room, or while an idle model is loaded for the request. If the replica fails in the meantime, chooses
   * another one.
   *
   * Throws or rejects with: 503 `engine_unavailable` if no replica is ready or can be loaded, or if all respond with 429
   * for longer than `maxWaitMs`; the last error in `failures` if the request has failed on every replica; after it has
   * waited for `maxWaitMs` in all attempts, 503 `queue_full`, or 503 `engine_unavailable` if the model is still being
   * loaded; the reason of the signal.
   */
  acquire(routed: RoutedRequest): Permit | Promise<Permit> {
    const prompt = this.#placement.prompt(routed);
    let assignment = this.#placement.choose(routed, prompt);
    if (!assignment && this.#wake()) assignment = this.#placement.choose(routed, prompt);
    if (!assignment) throw this.#unavailable(routed);
    const share = this.shares.of(routed.accountId, routed.weight);
    const { replica } = assignment;
    if (replica.free > 0 && !replica.waking && this.#queue(replica).size === 0)
      return this.#permit(routed, share, assignment);
    return this.#wait(routed, prompt, share, assignment);
  }

  /** Starts to load a model that is idle. Returns whether requests can wait for it. */
  #wake(): boolean {
    let wakes = false;
    for (const replica of this.#queues.keys()) wakes = replica.wake() || wakes;
    return wakes;
  }

  async #wait(
    routed: RoutedRequest,
    prompt: PromptBlocks | null,
    share: AccountShare,
    assignment: Assignment,
  ): Promise<Permit> {
    const { signal } = routed;
    const waiter: Waiter = {
      routed,
      prompt,
      share,
      assignment,
      isRetry: routed.isRetry,
      sinceMs: this.#clock.now(),
      permit: Promise.withResolvers<Permit>(),
    };
    const leave = (reason: unknown): void => {
      if (this.#queues.get(waiter.assignment.replica)?.remove(waiter) !== true) return;
      waiter.assignment.end();
      waiter.permit.reject(reason);
    };
    const onAbort = () => leave(signal.reason);
    this.shares.lift(share, this.#smallestCounter());
    this.#queue(assignment.replica).add(waiter);
    signal.addEventListener('abort', onAbort);
    if (signal.aborted) onAbort();
    using _ = new Deadline(Math.max(0, this.#maxWaitMs - routed.waitedMs), () =>
      leave(waitedTooLong(this.#maxWaitMs, waiter.assignment.replica.waking)),
    );
    this.#ticks ??= tickEvery(TICK_MS, () => this.tick());
    try {
      return await waiter.permit.promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
      if (this.waiting === 0) this.#stopTicks();
    }
  }

  #stopTicks(): void {
    this.#ticks?.[Symbol.dispose]();
    this.#ticks = null;
  }

  #queue(replica: RoutedReplica): FairQueue<Waiter> {
    return this.#queues.get(replica) as FairQueue<Waiter>;
  }

  #smallestCounter(): number | null {
    let smallest: number | null = null;
    for (const { smallestCounter } of this.#queues.values()) {
      if (smallestCounter !== null) smallest = Math.min(smallest ?? Infinity, smallestCounter);
    }
    return smallest;
  }

  /**
   * Sends waiting requests to a replica that may have room: those assigned to it, or those that have waited too long.
   */
  dispatchTo(replica: RoutedReplica): void {
    // The replica may have been removed while its request was running.
    if (this.#ticks === null || !this.#queues.has(replica)) return;
    while (replica.free > 0 && this.#placement.accepts(replica)) {
      const waiter = this.#takeOver(replica) ?? this.#queue(replica).take();
      if (!waiter) return;
      const { routed, share, assignment, permit } = waiter;
      const waitedMs = routed.waitedMs + this.#clock.now() - waiter.sinceMs;
      permit.resolve(this.#permit({ ...routed, waitedMs }, share, assignment, estimatedWork(waiter)));
    }
  }

  /**
   * Takes the next request that has waited too long for another replica, if it goes before the next request assigned
   * to this one. Without this, requests whose replica is stuck would not be served while the other replicas are busy.
   */
  #takeOver(replica: RoutedReplica): Waiter | undefined {
    if (replica.breaker.paused) return undefined;
    const own = this.#queue(replica).first;
    const isNext = (waiter: Waiter): boolean => own === undefined || isBefore(waiter, own);
    const untilMs = this.#clock.now() - PATIENCE_MS;
    const queues = [...this.#queues.values()].filter(({ first }) => first !== undefined && isNext(first));
    for (const queue of queues.toSorted((a, b) => (a.smallestCounter ?? 0) - (b.smallestCounter ?? 0))) {
      const waiter = queue.take(
        (each) => each.sinceMs <= untilMs && isNext(each) && canTake(replica, each.routed),
      );
      if (!waiter) continue;
      waiter.assignment.end();
      waiter.assignment = this.#placement.assign(replica, waiter.prompt);
      return waiter;
    }
    return undefined;
  }

  #permit(routed: RoutedRequest, share: AccountShare, assignment: Assignment, work = 0): Permit {
    const { request, charged, waitedMs } = routed;
    return new Permit(this, assignment, share, totalChoices(request), charged, work, waitedMs);
  }

  /** Moves requests away from replicas that have failed, and sends requests to replicas that have room. */
  tick(): void {
    for (const [replica, queue] of this.#queues) {
      if (queue.size === 0 || replica.waking || this.#placement.accepts(replica)) continue;
      for (const waiter of queue.clear()) this.#assignAgain(waiter);
    }
    for (const replica of this.#queues.keys()) this.dispatchTo(replica);
  }

  #assignAgain(waiter: Waiter): void {
    waiter.assignment.end();
    const assignment = this.#placement.choose(waiter.routed, waiter.prompt);
    if (assignment) {
      waiter.assignment = assignment;
      this.#queue(assignment.replica).add(waiter);
    } else waiter.permit.reject(this.#unavailable(waiter.routed));
  }

  #unavailable({ failures }: RoutedRequest): ServiceError {
    const last = [...failures.values()].at(-1);
    if (last) return last;
    const states = [...this.#queues.keys()].map(({ state }) => state);
    const shortage = states.flatMap((state) => (state.state === 'down' ? (state.shortage ?? []) : []))[0];
    if (shortage) return doesNotFit(shortage);
    const waits = states.map((state) => retryAfterMs(state));
    const isDrained = [...this.#queues.keys()].every(({ drained }) => drained);
    const reason = isDrained
      ? 'This model is out of service for maintenance.'
      : 'No replica of this model is available.';
    return new ServiceError('engine_unavailable', `${reason} Try again later.`, {
      retryAfterMs: Math.min(60_000, ...waits),
    });
  }
}

/**
 * Whether `waiter`, which waits for another replica, goes before `own`, the next request of the replica with room. If
 * both are from the same account, `waiter` must have waited much longer, because each request is fastest where its
 * prompt is cached.
 */
function isBefore(waiter: Waiter, own: Waiter): boolean {
  if (waiter.share === own.share) return waiter.sinceMs + PATIENCE_MS <= own.sinceMs;
  return waiter.share.counter < own.share.counter;
}

/** The work that an account is charged before the replica reports any tokens, in prompt tokens. */
function estimatedWork({ prompt, assignment, routed }: Waiter): number {
  return prompt === null ? estimatedPromptTokens(routed.request) : assignment.prefillTokens;
}

function waitedTooLong(maxWaitMs: number, isLoading: boolean): ServiceError {
  const seconds = Math.ceil(maxWaitMs / 1000);
  if (isLoading) {
    return new ServiceError(
      'engine_unavailable',
      `The request waited ${seconds} s for this model to be loaded. Try again later.`,
      { retryAfterMs: 10_000 },
    );
  }
  return noFreeSlot(maxWaitMs);
}

function doesNotFit({ neededBytes, availableBytes }: MemoryShortage): ServiceError {
  return new ServiceError(
    'engine_unavailable',
    `This model needs ${megabytes(neededBytes)} of memory; ${megabytes(availableBytes)} are available.`,
    { retryAfterMs: 60_000 },
  );
}

const megabytes = (bytes: number): string => `${Math.round(bytes / 1e6).toLocaleString('en-US')} MB`;

function retryAfterMs(state: ReplicaState): number {
  switch (state.state) {
    case 'downloading':
    case 'drained':
      return 10_000;
    case 'loading':
    case 'ready':
    case 'idle':
      return 1000;
    case 'unloaded':
      return 60_000;
    case 'paused':
    case 'down':
      return Math.min(Math.max(state.retryInMs ?? 60_000, 1000), 60_000);
  }
}
