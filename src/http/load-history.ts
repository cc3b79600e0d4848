/** Length of the history: five minutes. */
const SECONDS = 300;

/** Seconds over which percentiles are computed, so that they do not fluctuate at low load. */
const WINDOW = 10;

/** Maximum number of TTFT values stored for each second. A new value replaces the oldest one. */
const SAMPLES = 64;

export interface GenerationSummary {
  /** Whether it ended with an error. A client that disconnected is not an error. */
  failed: boolean;
  promptTokens: number;
  completionTokens: number;
  /** Null: there was no first token. */
  ttftMs: number | null;
}

interface TtftPercentiles {
  p50: number;
  p95: number;
}

/** The requests that ended in one second. */
export interface LoadSecond {
  /** Start of the second, in Unix milliseconds. */
  atMs: number;
  requests: number;
  errors: number;
  promptTokens: number;
  completionTokens: number;
  /** Of the 10 seconds that end with this one; null: none of their requests had a first token. */
  ttftMs: TtftPercentiles | null;
}

/** One second of the ring. */
class Bucket {
  /** Unix seconds; negative: never used. */
  readonly second: number;
  requests = 0;
  errors = 0;
  promptTokens = 0;
  completionTokens = 0;
  firstTokens = 0;
  readonly ttftMs = new Float32Array(SAMPLES);
  /** The percentiles of the window that ends with this second; undefined: not computed yet. */
  percentiles: TtftPercentiles | null | undefined;

  constructor(second: number) {
    this.second = second;
  }

  get samples(): Float32Array {
    return this.ttftMs.subarray(0, Math.min(this.firstTokens, SAMPLES));
  }
}

/**
 * The load of this instance in the last minutes, by second: a ring of fixed size that is written when requests end, at
 * the cost of a few additions each.
 */
export class LoadHistory {
  readonly #ring = Array.from({ length: SECONDS + WINDOW }, () => new Bucket(-1));
  readonly #now: () => number;

  /** `now` returns Unix milliseconds. */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  record({ failed, promptTokens, completionTokens, ttftMs }: GenerationSummary): void {
    const bucket = this.#bucket(Math.floor(this.#now() / 1000));
    bucket.requests++;
    if (failed) bucket.errors++;
    bucket.promptTokens += promptTokens;
    bucket.completionTokens += completionTokens;
    if (ttftMs !== null) bucket.ttftMs[bucket.firstTokens++ % SAMPLES] = ttftMs;
  }

  /** Returns the last 300 full seconds, oldest first, including those without requests. */
  lastSeconds(): LoadSecond[] {
    const current = Math.floor(this.#now() / 1000);
    return Array.from({ length: SECONDS }, (_, index) => {
      const bucket = this.#bucket(current - SECONDS + index);
      return {
        atMs: bucket.second * 1000,
        requests: bucket.requests,
        errors: bucket.errors,
        promptTokens: bucket.promptTokens,
        completionTokens: bucket.completionTokens,
        // A past second no longer changes, so each window is sorted only once.
        ttftMs: (bucket.percentiles ??= this.#percentiles(bucket.second)),
      };
    });
  }

  #percentiles(second: number): TtftPercentiles | null {
    const samples = Array.from({ length: WINDOW }, (_, before) => this.#bucket(second - before).samples);
    const sorted = Float32Array.from(samples.flatMap((some) => [...some])).sort();
    const at = (share: number) => sorted[Math.ceil(share * sorted.length) - 1];
    const [p50, p95] = [at(0.5), at(0.95)];
    return p50 === undefined || p95 === undefined ? null : { p50, p95 };
  }

  /** Returns the bucket of a second. A new bucket replaces the oldest one. */
  #bucket(second: number): Bucket {
    const index = second % this.#ring.length;
    const bucket = this.#ring[index];
    return bucket?.second === second ? bucket : (this.#ring[index] = new Bucket(second));
  }
}
