import { Assignment } from './assignment.ts';
import { POLICIES, usesPrompts, type Candidate, type PolicyName } from './policy.ts';
import { BYTES_PER_TOKEN, promptBlocks, type PromptBlocks } from './prefix-index.ts';
import type { RoutedReplica } from './replica.ts';
import type { RoutedRequest } from './routed-request.ts';

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
    if (!replica.ready || replica.limitedMs > this.#maxWaitMs) return false;
    if (isOpen(replica, true)) return true;
    return !this.#replicas.some((other) => other.ready && isOpen(other, false));
  }

  /** How many choices of requests that have not failed on these replicas can be sent now. */
  free(failures: RoutedRequest['failures']): number {
    const ready = this.#replicas.filter(({ ready, engine }) => ready && !failures.has(engine));
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
    return canTake(replica, routed) && replica.limitedMs <= this.#maxWaitMs;
  }
}

/** Whether the replica is ready, or its model is being loaded, and the request may be sent to it. */
export function canTake(replica: RoutedReplica, { failures, suits }: RoutedRequest): boolean {
  return (
    (replica.ready || replica.waking) && !failures.has(replica.engine) && suits?.(replica.engine) !== false
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
function isOpen({ breaker, limited }: RoutedReplica, isTrial: boolean): boolean {
  return !limited && (!breaker.paused || (isTrial && breaker.trialDue));
}

/** `replicas` must not be empty. */
function firstToResume(replicas: readonly RoutedReplica[]): RoutedReplica {
  return replicas.reduce((first, each) => (each.resumesAtMs < first.resumesAtMs ? each : first));
}
