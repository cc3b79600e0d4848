/** Seconds that are told: five minutes. */
const SECONDS = 300;

/** Times to the first token of one second that its median is taken of: the newest. */
const SAMPLES = 64;

/** How a generation ended, for those who watch the load. */
export interface Ended {
  /** It ended with an error; a caller who hung up is none. */
  failed: boolean;
  promptTokens: number;
  completionTokens: number;
  /** Null: there was no first token. */
  ttftMs: number | null;
}

/** Requests that ended in one second. */
export interface LoadSecond {
  /** When it began, in Unix milliseconds. */
  atMs: number;
  requests: number;
  errors: number;
  promptTokens: number;
  completionTokens: number;
  /** The median; null: none of them had a first token. */
  ttftMs: number | null;
}

/** One place of the ring. */
class Bucket {
  /** Unix seconds of which it tells. */
  second = -1;
  requests = 0;
  errors = 0;
  promptTokens = 0;
  completionTokens = 0;
  firstTokens = 0;
  readonly ttftMs = new Float32Array(SAMPLES);

  begin(second: number): void {
    this.second = second;
    this.requests = 0;
    this.errors = 0;
    this.promptTokens = 0;
    this.completionTokens = 0;
    this.firstTokens = 0;
  }

  get median(): number | null {
    const count = Math.min(this.firstTokens, SAMPLES);
    if (count === 0) return null;
    return this.ttftMs.subarray(0, count).toSorted()[(count - 1) >> 1] ?? null;
  }
}

/**
 * What this copy of the service did in the last minutes, second by second: a ring that is written where requests
 * end, at the cost of some additions each, and never grows.
 */
export class Load {
  readonly #ring = Array.from({ length: SECONDS + 1 }, () => new Bucket());
  readonly #now: () => number;

  /** `now` tells Unix milliseconds. */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  ended({ failed, promptTokens, completionTokens, ttftMs }: Ended): void {
    const second = Math.floor(this.#now() / 1000);
    const bucket = this.#at(second);
    if (bucket.second !== second) bucket.begin(second);
    bucket.requests++;
    if (failed) bucket.errors++;
    bucket.promptTokens += promptTokens;
    bucket.completionTokens += completionTokens;
    if (ttftMs !== null) bucket.ttftMs[bucket.firstTokens++ % SAMPLES] = ttftMs;
  }

  /** The last 300 seconds that are over, the oldest first; those in which nothing ended are there too. */
  lastSeconds(): LoadSecond[] {
    const current = Math.floor(this.#now() / 1000);
    return Array.from({ length: SECONDS }, (_, index) => {
      const second = current - SECONDS + index;
      const bucket = this.#at(second);
      const told = bucket.second === second;
      return {
        atMs: second * 1000,
        requests: told ? bucket.requests : 0,
        errors: told ? bucket.errors : 0,
        promptTokens: told ? bucket.promptTokens : 0,
        completionTokens: told ? bucket.completionTokens : 0,
        ttftMs: told ? bucket.median : null,
      };
    });
  }

  #at(second: number): Bucket {
    // The ring has every place, and seconds are whole and positive.
    return this.#ring[second % this.#ring.length] as Bucket;
  }
}
