/** A replica that can take the request. */
export interface Candidate {
  /** Requests that were sent to the replica and have not ended. */
  readonly inFlight: number;
  /** Estimated prompt tokens that its requests in flight still have to process before their first tokens. */
  readonly outstandingPrefillTokens: number;
  /** Estimated prompt tokens of this request that are not in the prefix cache of the replica. */
  readonly uncachedPromptTokens: number;
  /** Above 0, up to 1. Below 1, the replica is new or has just recovered, and gets a smaller share of the requests. */
  readonly warmth: number;
}

/**
 * Selects a replica. `last` is the index of the previous choice; equal candidates take turns after it. Returns an index,
 * or -1 without candidates.
 */
export type Policy = (candidates: readonly Candidate[], last: number) => number;

/**
 * What a request in flight counts, in prompt tokens: it slows down the others. Fewer than 64 tokens put too many requests
 * on one replica if generating takes longer than the prompts; from 512 on, conversations move too often.
 */
const IN_FLIGHT_TOKENS = 128;

/** The policies, by their names in the configuration. */
export const POLICIES = {
  /** The least estimated work before the first token. */
  cost: smallest(
    (candidate) =>
      (candidate.uncachedPromptTokens +
        candidate.outstandingPrefillTokens +
        IN_FLIGHT_TOKENS * candidate.inFlight) /
      candidate.warmth,
  ),
  /** The fewest requests in flight. Needs no estimates, and sends fewer requests to slow replicas. */
  'least-requests': smallest(({ inFlight, warmth }) => (inFlight + 1) / warmth),
  'round-robin': smallest(() => 0),
} satisfies Record<string, Policy>;

export type PolicyName = keyof typeof POLICIES;

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
