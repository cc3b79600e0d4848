import type { ReplicaClient } from '../replicas/replica.ts';
import type { ServiceError } from '../core/errors.ts';
import type { GenerationRequest } from '../core/generation.ts';
import { Assignment } from './permit.ts';
import { BYTES_PER_TOKEN, promptBlocks, type PromptBlocks } from './prefix-index.ts';
import type { RoutedReplica } from './replica.ts';

/** The properties of a request that matter for routing. */
export interface RoutedRequest {
  readonly request: GenerationRequest;
  readonly accountId: string;
  /** Weight of the account's plan. */
  readonly weight: number;
  /** Whether it was sent to a replica before. It then goes before the other requests of its account. */
  readonly isRetry: boolean;
  /** The replicas that it must not be sent to again, with their errors. */
  readonly failures: ReadonlyMap<ReplicaClient, ServiceError>;
  /** Work already charged to the account for earlier attempts, in prompt tokens. */
  readonly charged: number;
  /** How long it has waited for the replicas of earlier attempts, in milliseconds. */
  readonly waitedMs: number;
  readonly signal: AbortSignal;
  /** Whether the replica can continue the response. Set only while a response is being continued. */
  readonly suits?: (client: ReplicaClient) => boolean;
}

/** Chooses replicas for the requests of one model. */
export class Placement {
  readonly #replicas: readonly RoutedReplica[];
  readonly #policy: PolicyName;
  readonly #maxWaitMs: number;
  /** The previous choice, so that equal replicas take turns. */
  #last: RoutedReplica | undefined;

  /** `replicas` may change later. `maxWaitMs`: how long a request may wait for a replica. */
  constructor(replicas: readonly RoutedReplica[], policy: PolicyName, maxWaitMs: number) {
    this.#replicas = replicas;
    this.#policy = policy;
    this.#maxWaitMs = maxWaitMs;
  }

  /** Returns the hashed prompt for the policy; null if the policy does not need it. */
  prompt({ request }: RoutedRequest): PromptBlocks | null {
    return this.#replicas.length > 1 && usesPrompts(this.#policy) ? promptBlocks(request) : null;
  }

  /**
   * Chooses a replica, whether or not it has room: a request can wait for the replica that has its prompt in the cache.
   * Undefined if none can take the request in time. Replicas paused by their breaker are used as described at `#usable`.
   */
  choose(routed: RoutedRequest, prompt: PromptBlocks | null): Assignment | undefined {
    const [only] = this.#replicas;
    if (only && this.#replicas.length === 1) {
      return this.#canWaitFor(only, routed) ? new Assignment(only, 0) : undefined;
    }
    const replicas = this.#usable(routed);
    const last = replicas.findIndex((replica) => replica === this.#last);
    const candidates = replicas.map((replica) => candidateOf(replica, prompt));
    const chosen = replicas[POLICIES[this.#policy](candidates, last === -1 ? replicas.length - 1 : last)];
    return chosen && this.assign(chosen, prompt);
  }

  /** Assigns a request to a replica, which must be able to take it. */
  assign(replica: RoutedReplica, prompt: PromptBlocks | null): Assignment {
    this.#last = replica;
    if (prompt === null) return new Assignment(replica, 0);
    const { uncachedPromptTokens } = candidateOf(replica, prompt);
    replica.prefixes.record(prompt);
    return new Assignment(replica, uncachedPromptTokens);
  }

  /** Whether its health and rate limit let the replica serve the requests that wait for it. Ignores whether it has room. */
  accepts(replica: RoutedReplica): boolean {
    if (!replica.ready || replica.backoff.waitMs > this.#maxWaitMs) return false;
    if (isOpen(replica, true)) return true;
    return !this.#replicas.some((other) => other.ready && isOpen(other, false));
  }

  /** How many choices of requests that have not failed on these replicas can be sent now. */
  free(failures: RoutedRequest['failures']): number {
    const ready = this.#replicas.filter(({ ready, client }) => ready && !failures.has(client));
    const open = ready.filter((replica) => isOpen(replica, false));
    // A paused replica gets requests only if there is no other.
    return (open.length > 0 ? open : ready).reduce((sum, { free }) => sum + Math.max(0, free), 0);
  }

  /**
   * Returns the replicas to choose from. A request that has failed elsewhere is not used as the trial of a paused
   * replica. If all replicas are paused or limited, returns the one that resumes first: a breaker must not refuse a
   * request that a replica might serve, and after a 429 the request waits.
   */
  #usable(routed: RoutedRequest): RoutedReplica[] {
    const able = this.#replicas.filter((replica) => this.#canWaitFor(replica, routed));
    const isTrial = routed.failures.size === 0;
    const open = able.filter((replica) => isOpen(replica, isTrial));
    return open.length > 0 || able.length === 0 ? open : [firstToResume(able)];
  }

  #canWaitFor(replica: RoutedReplica, routed: RoutedRequest): boolean {
    const remainingMs = Math.max(0, this.#maxWaitMs - routed.waitedMs);
    return canTake(replica, routed) && replica.backoff.waitMs <= remainingMs;
  }
}

/** Whether the replica is ready, or its model is being loaded, and the request may be sent to it. */
export function canTake(replica: RoutedReplica, { failures, suits }: RoutedRequest): boolean {
  return (
    (replica.ready || replica.waking) && !failures.has(replica.client) && suits?.(replica.client) !== false
  );
}

function candidateOf(replica: RoutedReplica, prompt: PromptBlocks | null): Candidate {
  const { assigned, free, outstandingPrefillTokens, warmth } = replica;
  const uncachedBytes = prompt === null ? 0 : prompt.bytes - replica.prefixes.cachedBytes(prompt);
  return {
    hasRoom: free > 0,
    inFlight: assigned,
    outstandingPrefillTokens,
    uncachedPromptTokens: uncachedBytes / BYTES_PER_TOKEN,
    warmth,
  };
}

/** Whether neither the breaker nor a 429 keeps requests away. `isTrial`: whether the request can be a trial. */
function isOpen({ breaker, backoff }: RoutedReplica, isTrial: boolean): boolean {
  return backoff.free > 0 && (!breaker.paused || (isTrial && breaker.trialDue));
}

/** `replicas` must not be empty. */
function firstToResume(replicas: readonly RoutedReplica[]): RoutedReplica {
  return replicas.reduce((first, each) => (each.resumesAtMs < first.resumesAtMs ? each : first));
}

/** A replica that can take the request. */
export interface Candidate {
  /** Whether the request can be sent now; otherwise, it waits. */
  readonly hasRoom: boolean;
  /** Requests that were sent to the replica and have not ended, and those that wait for it. */
  readonly inFlight: number;
  /** Estimated prompt tokens that these requests still have to process before their first tokens. */
  readonly outstandingPrefillTokens: number;
  /** Estimated prompt tokens of this request that are not in the prefix cache of the replica. */
  readonly uncachedPromptTokens: number;
  /** Above 0, up to 1. Below 1, the replica is new or has just recovered, and gets a smaller share of the requests. */
  readonly warmth: number;
}

/**
 * Selects a replica. `last` is the index of the previous choice; of equal candidates, the next one after it is
 * selected. Returns an index, or -1 without candidates.
 */
export type Policy = (candidates: readonly Candidate[], last: number) => number;

/**
 * Cost of a request in flight, in prompt tokens, because it slows down the others. With less than 64, too many
 * requests go to one replica when generation takes longer than prompt processing; with 512 or more, conversations
 * move between replicas too often.
 */
const IN_FLIGHT_TOKENS = 128;

/** Added to the score of a replica without room, so that it is selected only if no other has room. */
const FULL = 1e9;

/** The policies, by their names in the configuration. */
export const POLICIES = {
  /** The least estimated work before the first token. A request can wait for a replica whose cache has its prompt. */
  cost: smallest(
    (candidate) =>
      (candidate.uncachedPromptTokens +
        candidate.outstandingPrefillTokens +
        IN_FLIGHT_TOKENS * candidate.inFlight) /
      candidate.warmth,
  ),
  /** The fewest requests in flight. Needs no estimates, and sends fewer requests to slow replicas. */
  'least-requests': smallest(
    ({ hasRoom, inFlight, warmth }) => (hasRoom ? 0 : FULL) + (inFlight + 1) / warmth,
  ),
  'round-robin': smallest(({ hasRoom }) => (hasRoom ? 0 : FULL)),
} satisfies Record<string, Policy>;

export type PolicyName = keyof typeof POLICIES;

/** Whether a policy considers `uncachedPromptTokens`. */
function usesPrompts(policy: PolicyName): boolean {
  return policy === 'cost';
}

/** Returns a policy that selects the candidate with the smallest score. */
function smallest(score: (candidate: Candidate) => number): Policy {
  return (candidates, last) => {
    let best = -1;
    let bestScore = Infinity;
    for (let step = 1; step <= candidates.length; step++) {
      const index = (last + step) % candidates.length;
      const value = score(candidates[index] as Candidate);
      if (best === -1 || value < bestScore) {
        best = index;
        bestScore = value;
      }
    }
    return best;
  };
}
