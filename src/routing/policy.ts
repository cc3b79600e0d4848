/** What a policy may look at to choose a replica. */
export interface Load {
  /** Requests that this service has given to the replica and that have not ended. */
  inFlight: number;
}

/**
 * Fewest requests in flight; among equals the one after `last`, in turn.
 * Named "least connections" elsewhere: it needs no word from the replica, and it evens out by itself when one
 * replica is slower than the others, since its requests stay in flight for longer.
 *
 * Returns an index into `replicas`, or -1 when there are none.
 */
export function fewestInFlight(replicas: readonly Load[], last: number): number {
  let best = -1;
  for (let step = 1; step <= replicas.length; step++) {
    const index = (last + step) % replicas.length;
    const candidate = replicas[index];
    const chosen = replicas[best];
    if (candidate && (!chosen || candidate.inFlight < chosen.inFlight)) best = index;
  }
  return best;
}
