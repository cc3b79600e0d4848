import type { NativeEmbeddingContext } from '../native/context.ts';

/** An input that waits for a context. */
interface Waiting {
  tokens: Uint32Array;
  signal: AbortSignal;
  resolve(pooled: Float64Array): void;
  reject(reason: unknown): void;
}

/** Length from which an input leaves a thread to shorter ones, in tokens. */
const LONG_INPUT = 2048;

/** Number of batches whose durations are kept. */
const MEASURED = 100;

/**
 * Computes inputs in the order in which they were added. Contexts and threads are shared: with many inputs, each is
 * computed by one thread, because several would wait for each other; a single one gets all threads. Long inputs take many
 * seconds, and most models cannot stop in one, so they leave a thread for others, which then overtake them.
 */
export class EmbeddingPool {
  readonly slots: number;
  readonly #batchTokens: number;
  readonly #idle: NativeEmbeddingContext[];
  #idleThreads: number;
  /** Threads that long inputs may still use. */
  #threadsForLong: number;
  readonly #waiting: Waiting[] = [];
  #started = false;
  /** Milliseconds per token of the last batches. */
  readonly #speeds: number[] = [];
  #lastStepAt = 0;
  #promptTokens = 0;
  /** The reason why no more inputs are computed; null until `stop`. */
  #stopped: { reason: unknown } | null = null;
  #onIdle: (() => void) | null = null;

  constructor(
    contexts: readonly NativeEmbeddingContext[],
    { threads, batchTokens }: { threads: number; batchTokens: number },
  ) {
    this.slots = contexts.length;
    this.#batchTokens = batchTokens;
    this.#idle = [...contexts];
    this.#idleThreads = threads;
    this.#threadsForLong = contexts.length > 1 ? Math.max(1, threads - 1) : threads;
  }

  /** Returns the pooled embedding of an input. An aborted input is not started, and ends after its current batch. */
  compute(tokens: Uint32Array, signal: AbortSignal): Promise<Float64Array> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ tokens, signal, resolve, reject });
      if (this.#started) return;
      // Inputs that are added in the same turn share the threads.
      this.#started = true;
      queueMicrotask(() => {
        this.#started = false;
        this.#start();
      });
    });
  }

  get queued(): number {
    return this.#waiting.length;
  }

  get slotsInUse(): number {
    return this.slots - this.#idle.length;
  }

  /** Time since the last batch, in milliseconds; null if no input is being computed. */
  get lastStepAgeMs(): number | null {
    return this.slotsInUse === 0 ? null : performance.now() - this.#lastStepAt;
  }

  /** The duration of the largest batch at the median speed, in milliseconds; 0 before the first. */
  get fullStepMs(): number {
    const sorted = this.#speeds.toSorted((a, b) => a - b);
    return (sorted[Math.floor(sorted.length / 2)] ?? 0) * this.#batchTokens;
  }

  /** Tokens computed so far. */
  get promptTokens(): number {
    return this.#promptTokens;
  }

  /** Rejects the inputs that wait and any later ones with `reason`. Resolves when no input is being computed. */
  async stop(reason: unknown): Promise<void> {
    this.#stopped = { reason };
    this.#start();
    if (this.slotsInUse > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve));
    await Promise.all(this.#idle.map((context) => context.dispose()));
  }

  #start(): void {
    let next = 0;
    for (let input = this.#waiting[0]; input !== undefined; input = this.#waiting[next]) {
      const dropped = this.#stopped ?? (input.signal.aborted ? { reason: input.signal.reason } : null);
      if (dropped !== null) {
        this.#waiting.splice(next, 1);
        input.reject(dropped.reason);
        continue;
      }
      const threads = this.#threadsFor(input);
      const context = this.#idleThreads > 0 && threads > 0 ? this.#idle.pop() : undefined;
      if (context !== undefined) {
        this.#waiting.splice(next, 1);
        void this.#run(input, context, threads);
      } else if (threads === 0) next++;
      else return;
    }
  }

  /** Returns 0 for a long input that has to wait for another one. */
  #threadsFor(input: Waiting): number {
    const sharing = Math.min(this.#waiting.length, this.#idle.length);
    const threads = Math.max(1, Math.floor(this.#idleThreads / sharing));
    return isLong(input) ? Math.min(threads, this.#threadsForLong) : threads;
  }

  async #run(input: Waiting, context: NativeEmbeddingContext, threads: number): Promise<void> {
    const { tokens, signal } = input;
    this.#idleThreads -= threads;
    if (isLong(input)) this.#threadsForLong -= threads;
    if (this.slotsInUse === 1) this.#lastStepAt = performance.now();
    const startedAt = performance.now();
    try {
      const pooled = await context.embed(tokens, threads, () => {
        this.#lastStepAt = performance.now();
        signal.throwIfAborted();
      });
      this.#speeds.push((performance.now() - startedAt) / tokens.length);
      if (this.#speeds.length > MEASURED) this.#speeds.shift();
      this.#promptTokens += tokens.length;
      input.resolve(pooled);
    } catch (error) {
      input.reject(error);
    }
    this.#idleThreads += threads;
    if (isLong(input)) this.#threadsForLong += threads;
    this.#idle.push(context);
    this.#start();
    if (this.slotsInUse === 0) this.#onIdle?.();
  }
}

function isLong({ tokens }: Waiting): boolean {
  return tokens.length >= LONG_INPUT;
}
