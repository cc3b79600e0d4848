import type { RateLimitHeaders } from '../accounts/limits/limits.ts';
import type { RunningCounts } from '../accounts/ledger/ledger.ts';
import type { FinishReason, GenerationEvent, Usage, UsageSource } from '../generation.ts';

/**
 * What is known of one generation while it runs and after it. Times in `…Ms` are of the clock that never runs
 * backwards, the others Unix milliseconds, as the ledger wants them.
 */
export class GenerationRecord implements RunningCounts {
  /** Unix milliseconds. */
  readonly startedAt = Date.now();
  readonly startedAtMs = performance.now();
  /** When the request got a slot, or was sent to a server that does not report slots; null before. */
  slotAtMs: number | null = null;
  firstTokenAtMs: number | null = null;
  endedAtMs: number | null = null;
  replica: string | null = null;
  /** Replicas that it was given to, those that refused it or failed included. */
  attempts = 0;
  usage: Usage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };
  usageSource: UsageSource | null = null;
  /** Of the choice that finished last; null when the generation did not come to its end. */
  finishReason: FinishReason | null = null;
  /** The `x-ratelimit-*` headers, once the limits were asked. */
  limitHeaders: RateLimitHeaders = [];

  get slotAt(): number | null {
    return this.#unix(this.slotAtMs);
  }

  get firstTokenAt(): number | null {
    return this.#unix(this.firstTokenAtMs);
  }

  get endedAt(): number | null {
    return this.#unix(this.endedAtMs);
  }

  /** The request goes to this replica. What is known of an earlier attempt is forgotten. */
  attempt(replica: string): void {
    this.replica = replica;
    this.attempts++;
    this.slotAtMs = null;
    this.usage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };
    this.usageSource = null;
  }

  /** The request was sent to a server that does not report when it gets a slot. */
  sent(promptTokens: number): void {
    this.slotAtMs = performance.now();
    this.usage = { promptTokens, completionTokens: 0, cachedTokens: 0 };
    this.usageSource = 'estimated';
  }

  /** Writes down what the event tells. `promptTokens` stands in where the engine tells no count before the end. */
  note(event: GenerationEvent, promptTokens: () => number): void {
    switch (event.type) {
      case 'started':
        this.slotAtMs ??= performance.now();
        this.usageSource = event.promptTokens === null ? 'estimated' : 'engine';
        this.usage.promptTokens = event.promptTokens ?? promptTokens();
        this.usage.cachedTokens = event.cachedTokens ?? 0;
        return;
      case 'token':
      case 'reasoning':
        this.firstTokenAtMs ??= performance.now();
        this.usage.completionTokens = event.completionTokens;
        return;
      case 'finish':
        this.finishReason = event.reason;
        return;
      case 'end':
        this.usage = event.usage;
        this.usageSource = event.usageSource;
    }
  }

  #unix(atMs: number | null): number | null {
    return atMs === null ? null : Math.round(this.startedAt + atMs - this.startedAtMs);
  }
}
