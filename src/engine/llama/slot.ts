import type { CacheScope, JobChoice } from './job.ts';

/**
 * One sequence of the context. `tokens[0, computed)` are in the KV cache; `tokens[computed, filled)` are not computed
 * yet. Keeps its tokens when its choice ends, as a prefix for later requests.
 */
export class Slot {
  readonly id: number;
  readonly tokens: Uint32Array;
  computed = 0;
  filled = 0;
  scope: CacheScope | null = null;
  choice: JobChoice | null = null;
  /** Increases with each admission and release; 0 if there is nothing to reuse. */
  lastUsed = 0;
  /** Number of this slot's tokens in the current batch. */
  scheduled = 0;
  /** Logit index in the current batch; -1 if the batch computes no logits for this slot. */
  logitIndex = -1;

  constructor(id: number, slotTokens: number) {
    this.id = id;
    this.tokens = new Uint32Array(slotTokens);
  }

  get pending(): number {
    return this.filled - this.computed;
  }

  /** Assigns a choice whose first `keep` prompt tokens are in the KV cache. */
  assign(choice: JobChoice, keep: number, now: number): void {
    this.tokens.set(choice.prompt);
    this.computed = keep;
    this.filled = choice.prompt.length;
    this.scope = choice.job.scope;
    this.choice = choice;
    this.lastUsed = now;
  }

  append(token: number): void {
    this.tokens[this.filled++] = token;
  }

  /**
   * Removes the choice. The computed tokens remain as a prefix for later requests, unless the scope belongs to this
   * request only.
   */
  release(now: number): void {
    this.choice = null;
    this.filled = this.computed;
    this.lastUsed = typeof this.scope === 'symbol' ? 0 : now;
  }

  /** Call this after clearing the sequence in the context. */
  clear(): void {
    this.computed = 0;
    this.filled = 0;
    this.scope = null;
    this.lastUsed = 0;
  }
}
