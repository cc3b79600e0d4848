import type { PrefillEvent } from '../core/generation.ts';

/** Tokens of prompts that a replica computes, and the time until all are computed at the speed so far. */
export interface PrefillProgress {
  promptTokens: number;
  /** Cached or computed. */
  doneTokens: number;
  /** In milliseconds; null: unknown. */
  leftMs: number | null;
}

/** Time after which the prefill of a prompt is logged, in milliseconds. */
export const LONG_PREFILL_MS = 30_000;

/** The progress of one prompt, whose replica reports it because it takes longer than a second. */
export class Prefill implements PrefillProgress {
  promptTokens = 0;
  doneTokens = 0;
  leftMs: number | null = null;
  /** Since it got a slot. */
  elapsedMs = 0;
  readonly #slotAtMs: number;
  readonly #cachedTokens: number;

  constructor(slotAtMs: number, cachedTokens: number) {
    this.#slotAtMs = slotAtMs;
    this.#cachedTokens = cachedTokens;
  }

  report({ promptTokens, doneTokens, elapsedMs }: PrefillEvent, nowMs: number): void {
    this.promptTokens = promptTokens;
    this.doneTokens = doneTokens;
    this.elapsedMs = elapsedMs ?? nowMs - this.#slotAtMs;
    const computed = doneTokens - this.#cachedTokens;
    this.leftMs = computed > 0 ? Math.round((this.elapsedMs / computed) * (promptTokens - doneTokens)) : null;
  }
}

/** Returns the progress of several prompts, which a replica computes at the same time; null: there are none. */
export function totalProgress(prefills: Iterable<PrefillProgress>): PrefillProgress | null {
  let total: PrefillProgress | null = null;
  for (const { promptTokens, doneTokens, leftMs } of prefills) {
    total ??= { promptTokens: 0, doneTokens: 0, leftMs: null };
    total.promptTokens += promptTokens;
    total.doneTokens += doneTokens;
    if (leftMs !== null) total.leftMs = Math.max(total.leftMs ?? 0, leftMs);
  }
  return total;
}
