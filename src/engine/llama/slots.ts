import type { CacheScope, Choice } from './choice.ts';

/**
 * One sequence of the context, and the one record of what its keys and values hold. `tokens[0, computed)` are in
 * the context, `tokens[computed, filled)` are known and wait to be computed. It keeps its tokens when its choice
 * has ended, as a prefix for the next.
 */
export class Slot {
  readonly id: number;
  readonly tokens: Uint32Array;
  computed = 0;
  filled = 0;
  scope: CacheScope | null = null;
  choice: Choice | null = null;
  /** Order of use, of admission while it is busy; 0: holds nothing that anybody can use. */
  lastUsed = 0;
  /** Tokens of this slot in the batch at hand. */
  taken = 0;
  /** Where the batch at hand has this slot's logits; -1: nowhere. */
  logitIndex = -1;

  constructor(id: number, slotTokens: number) {
    this.id = id;
    this.tokens = new Uint32Array(slotTokens);
  }

  get pending(): number {
    return this.filled - this.computed;
  }

  /** Seats a choice whose first `keep` prompt tokens are in the context already. */
  seat(choice: Choice, keep: number, now: number): void {
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

  /** Ends the choice's stay. What was computed stays, unless nobody could ever use it. */
  release(now: number): void {
    this.choice = null;
    this.filled = this.computed;
    this.lastUsed = typeof this.scope === 'symbol' ? 0 : now;
  }

  /** After the context's sequence was cleared. */
  forget(): void {
    this.computed = 0;
    this.filled = 0;
    this.scope = null;
    this.lastUsed = 0;
  }
}
