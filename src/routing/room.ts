import type { ReplicaCapacity } from '../engine/engine.ts';

/** Waiting choices in a server without slots up to which its limit does not fall. */
const HEADROOM = 2;

/**
 * Servers with fewer slots than this get one choice more than they have slots. With more slots, one that is idle for a
 * round trip costs less than a request that waits out of turn.
 */
const MANY_SLOTS = 8;

/** Growth of a learned limit per health check, as a share of the limit. */
const GROWTH = 0.1;

/**
 * How many choices a replica can take at a time. It is the configured maximum, or about the number of its slots.
 * For servers without slots it is learned from the number of
 * requests that wait there: it falls to what the server can run, and grows slowly while nothing waits. Without any of
 * this, it is unlimited.
 */
export class Room {
  readonly #configured: number | undefined;
  /** The latest report that was considered. */
  #capacity: ReplicaCapacity | null = null;
  #limit = Infinity;

  constructor(configured: number | undefined) {
    this.#configured = configured;
  }

  /** `inFlight`: choices of this instance that are there now. */
  limit(capacity: ReplicaCapacity | null, inFlight: number): number {
    if (this.#configured !== undefined) return this.#configured;
    if (capacity !== this.#capacity) {
      this.#capacity = capacity;
      this.#limit = capacity === null ? Infinity : this.#learned(capacity, inFlight);
    }
    return this.#limit;
  }

  #learned({ slots, queued }: ReplicaCapacity, inFlight: number): number {
    if (slots !== null) return slots > 1 && slots < MANY_SLOTS ? slots + 1 : slots;
    if (queued === null) return Infinity;
    if (queued > HEADROOM) return Math.max(1, Math.min(this.#limit, inFlight) - (queued - HEADROOM));
    const isUsed = queued === 0 && inFlight >= this.#limit;
    return isUsed ? this.#limit + Math.max(1, Math.ceil(this.#limit * GROWTH)) : this.#limit;
  }
}
