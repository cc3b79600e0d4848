import type { Slot } from './slot.ts';

/**
 * Fills `batch`: one token for each decoding slot, then up to `prefillTokens` of the prompts. Sets each slot's
 * `scheduled`. Returns the number of tokens, at most `batchTokens`.
 */
export function planBatch(
  slots: readonly Slot[],
  batch: Slot[],
  batchTokens: number,
  prefillTokens: number,
): number {
  batch.length = 0;
  let total = 0;
  const prompts: Slot[] = [];
  for (const slot of slots) {
    slot.scheduled = 0;
    if (slot.choice === null || slot.pending === 0) continue;
    if (slot.pending > 1) prompts.push(slot);
    else if (total < batchTokens) {
      slot.scheduled = 1;
      total++;
      batch.push(slot);
    }
  }
  if (prompts.length === 0) return total;
  const available = Math.min(batchTokens - total, prefillTokens);
  sharePrefill(prompts, available);
  for (const slot of prompts) {
    if (slot.scheduled === 0) continue;
    total += slot.scheduled;
    batch.push(slot);
  }
  return total;
}

/**
 * Gives three quarters of the tokens to the oldest prompt, so that no prompt starves, and the rest to the shortest
 * ones, which would otherwise wait for seconds behind a long prompt.
 */
function sharePrefill(prompts: readonly Slot[], available: number): void {
  const [first, ...others] = prompts.toSorted((a, b) => a.lastUsed - b.lastUsed);
  if (first === undefined) return;
  others.sort((a, b) => a.pending - b.pending);
  let remaining = available;
  const give = (slot: Slot, max: number): void => {
    const tokens = Math.min(slot.pending - slot.scheduled, max);
    slot.scheduled += tokens;
    remaining -= tokens;
  };
  give(first, Math.ceil(available * 0.75));
  for (const slot of others) give(slot, remaining);
  give(first, remaining);
}

/** Whether more slots compute their prompts than decode. */
export function hasMorePrompts(slots: readonly Slot[]): boolean {
  let decoding = 0;
  let prompts = 0;
  for (const { choice, pending } of slots) {
    if (choice === null) continue;
    if (pending > 1) prompts++;
    else decoding++;
  }
  return prompts > decoding;
}

/** The maximum prompt tokens of a step. Shrinks while steps take longer than `maxStepMs`. */
export class ChunkSize {
  tokens: number;
  readonly #max: number;
  readonly #maxStepMs: number;

  constructor(max: number, maxStepMs: number) {
    this.#max = max;
    this.#maxStepMs = maxStepMs;
    this.tokens = max;
  }

  observe(stepMs: number, prefilled: number): void {
    if (prefilled < this.tokens / 2) return; // Too little work to judge.
    if (stepMs > this.#maxStepMs) this.tokens = Math.max(MIN_CHUNK, Math.floor(this.tokens * 0.75));
    else if (stepMs < this.#maxStepMs / 2) this.tokens = Math.min(this.#max, Math.ceil(this.tokens * 1.25));
  }
}

const MIN_CHUNK = 32;

/** The times of the latest steps. */
export class StepClock {
  readonly #times: number[] = [];
  #next = 0;
  #since: number | null = null;

  /** Starts the time that `ageMs` returns, if the engine was idle. */
  workStarted(now: number): void {
    this.#since ??= now;
  }

  stepEnded(now: number, stepMs: number): void {
    this.#since = now;
    this.#times[this.#next] = stepMs;
    this.#next = (this.#next + 1) % MAX_SAMPLES;
  }

  idle(): void {
    this.#since = null;
  }

  /** Time since the last step ended, or since work arrived, in milliseconds; null if the engine is idle. */
  ageMs(now: number): number | null {
    return this.#since === null ? null : now - this.#since;
  }

  /** Returns the median time of the last 100 steps, in milliseconds; 0 before the first step. */
  medianMs(): number {
    return this.#times.toSorted((a, b) => a - b)[this.#times.length >> 1] ?? 0;
  }
}

const MAX_SAMPLES = 100;

/**
 * Measures work as the smaller of elapsed time and CPU time. CPU time includes other threads that spin; elapsed time
 * includes time during which the process was suspended.
 */
export class WorkTimer {
  readonly #startedAt = performance.now();
  readonly #usage = process.cpuUsage();

  elapsedMs(): number {
    const { user, system } = process.cpuUsage(this.#usage);
    return Math.min(performance.now() - this.#startedAt, (user + system) / 1000);
  }
}
