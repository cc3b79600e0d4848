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
export function usesPrompts(policy: PolicyName): boolean {
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
