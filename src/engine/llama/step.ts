import type { Slot } from './slots.ts';

/**
 * Plans one batch into `batch`: a token for each slot that decodes, then what is left of `prefillTokens` for the
 * prompts. Sets each slot's `taken`. Returns the number of tokens, at most `batchTokens`.
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
    slot.taken = 0;
    if (slot.choice === null || slot.pending === 0) continue;
    if (slot.pending > 1) prompts.push(slot);
    else if (total < batchTokens) {
      slot.taken = 1;
      total++;
      batch.push(slot);
    }
  }
  if (prompts.length === 0) return total;
  const room = Math.min(batchTokens - total, prefillTokens);
  sharePrefill(prompts, room);
  for (const slot of prompts) {
    if (slot.taken === 0) continue;
    total += slot.taken;
    batch.push(slot);
  }
  return total;
}

/**
 * Three quarters for the prompt that was seated first, so that the first answer comes as early as it can and nobody is
 * passed over for ever; the rest for the shortest, which would else wait for seconds behind one long prompt.
 */
function sharePrefill(prompts: readonly Slot[], room: number): void {
  const [first, ...others] = prompts.toSorted((a, b) => a.lastUsed - b.lastUsed);
  if (first === undefined) return;
  others.sort((a, b) => a.pending - b.pending);
  let left = room;
  const give = (slot: Slot, most: number): void => {
    const tokens = Math.min(slot.pending - slot.taken, most);
    slot.taken += tokens;
    left -= tokens;
  };
  give(first, Math.ceil(room * 0.75));
  for (const slot of others) give(slot, left);
  give(first, left);
}

/**
 * How many prompt tokens a step may have: all that the batch takes, less where steps grow too long for a
 * newcomer or a cancel to wait for.
 */
export class ChunkSize {
  tokens: number;
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
    this.tokens = most;
  }

  /** Takes note of a step that had `prefilled` prompt tokens. */
  observe(stepMs: number, prefilled: number): void {
    if (prefilled < this.tokens / 2) return; // Short for want of work.
    if (stepMs > LONGEST_STEP_MS) this.tokens = Math.max(LEAST_CHUNK, Math.floor(this.tokens * 0.75));
    else if (stepMs < LONGEST_STEP_MS / 2) this.tokens = Math.min(this.#most, Math.ceil(this.tokens * 1.25));
  }
}

const LONGEST_STEP_MS = 300;
const LEAST_CHUNK = 32;

/** When steps were made and how long they took, for whoever watches the engine. */
export class StepClock {
  readonly #times: number[] = [];
  #next = 0;
  #since: number | null = null;

  /** Work has come: the age counts from here until the first step ends. */
  begin(now: number): void {
    this.#since ??= now;
  }

  ended(now: number, stepMs: number): void {
    this.#since = now;
    this.#times[this.#next] = stepMs;
    this.#next = (this.#next + 1) % REMEMBERED;
  }

  idle(): void {
    this.#since = null;
  }

  /** Milliseconds since the last step ended, or since work came; null without work. */
  ageMs(now: number): number | null {
    return this.#since === null ? null : now - this.#since;
  }

  /** Of the last hundred steps; 0 before the first. */
  medianMs(): number {
    return this.#times.toSorted((a, b) => a - b)[this.#times.length >> 1] ?? 0;
  }
}

const REMEMBERED = 100;

/**
 * Measures how long this process has worked on one thing. It takes the lesser of elapsed and CPU time: a process that
 * was paused has used no CPU time, and threads that spin while they wait let no time elapse.
 */
export class WorkTimer {
  readonly #began = performance.now();
  readonly #usage = process.cpuUsage();

  elapsedMs(): number {
    const { user, system } = process.cpuUsage(this.#usage);
    return Math.min(performance.now() - this.#began, (user + system) / 1000);
  }
}
