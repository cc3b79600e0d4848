import type { ReplicaCapacity } from '../engine/engine.ts';

/**
 * Servers with at least two slots, but fewer than this, get one choice more than they have slots. With more slots, a
 * slot that is idle for a round trip costs less than a request that waits on the server, where the order is not fair.
 */
const MANY_SLOTS = 8;

/** The initial limit of a server that reports its waiting requests, but not its slots. */
const FIRST_LIMIT = 32;

/** Choices that may wait in such a server, so that it never idles between two requests. */
const HEADROOM = 2;

/**
 * How many choices a replica can take at a time: the configured maximum, or about the number of its slots. If a server
 * reports only its running and waiting requests, the limit is learned: it grows with each response while no request
 * waits on the server, and drops to the number of running requests when requests keep waiting. A server that reports
 * neither slots nor requests has no limit. An overloaded server may stop reporting for a while: the last limit then
 * applies, but at least 32.
 */
export class Room {
  readonly #configured: number | undefined;
  /** The latest report that was considered. */
  #capacity: ReplicaCapacity | null = null;
  #limit = Infinity;
  /** Whether the limit is learned, and no request waited at the latest report. */
  #grows = false;
  /** Whether too many requests waited at the latest report. The limit drops only after two such reports in a row. */
  #isFull = false;

  constructor(configured: number | undefined) {
    this.#configured = configured;
  }

  /** `inFlight`: choices of this instance that are on the replica now. */
  limit(capacity: ReplicaCapacity | null, inFlight: number): number {
    if (this.#configured !== undefined) return this.#configured;
    if (capacity !== this.#capacity) {
      this.#capacity = capacity;
      this.#consider(capacity, inFlight);
    }
    return this.#limit;
  }

  /** Called when a request gets its first token. */
  responseStarted(inFlight: number): void {
    if (this.#grows && inFlight >= this.#limit) this.#limit++;
  }

  #consider(capacity: ReplicaCapacity | null, inFlight: number): void {
    const { slots = null, slotsInUse: running = null, queued = null } = capacity ?? {};
    this.#grows = false;
    if (slots !== null) this.#limit = slots > 1 && slots < MANY_SLOTS ? slots + 1 : Math.max(1, slots);
    else if (queued === null) this.#limit = Math.max(this.#limit, FIRST_LIMIT);
    else {
      const wasFull = this.#isFull;
      this.#isFull = queued > HEADROOM;
      this.#grows = queued === 0;
      if (this.#limit === Infinity) this.#limit = FIRST_LIMIT;
      // The server also reports the requests of other instances.
      const share = Math.min(1, inFlight / (queued + (running ?? 0)));
      const served = running === null ? inFlight - queued : running * share;
      if (wasFull && this.#isFull) this.#limit = Math.max(1, Math.round(served) + HEADROOM);
    }
  }
}
