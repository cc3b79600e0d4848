import type { Usage } from '../generation.ts';

export interface UsageMeterOptions {
  /** Estimated prompt tokens, for a replica that does not report them. */
  promptTokens: number;
  /** Whether the text includes the prompt, which does not count as completion. */
  echo: boolean;
  /** Whether the usage in a chunk with one choice is the usage of that choice. */
  perChoice: boolean;
}

/**
 * Counts the tokens of one response: the counts that the replica reported last, plus the tokens received since.
 * Estimates the prompt if it is not reported. Ignores reported zeros if there was a prompt or text.
 */
export class UsageMeter {
  readonly #options: UsageMeterOptions;
  #promptTokens: number | null = null;
  #cachedTokens = 0;
  /** Completion tokens as last reported. */
  #reported = 0;
  /** `#reported` by choice, for replicas that report by choice. */
  readonly #byChoice = new Map<number, number>();
  /** Tokens received since the last report. */
  #unreported = 0;
  /** Tokens received in total. */
  #received = 0;
  #isExact = false;

  constructor(options: Partial<UsageMeterOptions> = {}) {
    this.#options = { promptTokens: 0, echo: false, perChoice: false, ...options };
  }

  /** Null until reported. */
  get promptTokens(): number | null {
    return this.#promptTokens;
  }

  get cachedTokens(): number | null {
    return this.#promptTokens === null ? null : this.#cachedTokens;
  }

  /** Completion tokens of all choices so far. */
  get completionTokens(): number {
    return this.#reported + this.#unreported;
  }

  /** Records a chunk: its approximate tokens, its usage, and its choice if it has only one. */
  record(tokens: number, usage: Usage | null, choice: number | null): void {
    this.#received += tokens;
    this.#unreported += tokens;
    this.#isExact = false;
    if (usage === null) return;
    if (usage.promptTokens > 0 || this.#options.promptTokens === 0) {
      this.#promptTokens = usage.promptTokens;
      this.#cachedTokens = Math.min(usage.cachedTokens, usage.promptTokens);
    }
    const { completionTokens } = usage;
    if (completionTokens === 0 && this.#received > 0 && !this.#options.echo) return;
    if (this.#options.perChoice && choice !== null) {
      const before = this.#byChoice.get(choice) ?? 0;
      // A count that falls could make the total negative.
      const now = Math.max(before, completionTokens);
      this.#reported += now - before;
      this.#byChoice.set(choice, now);
    } else this.#reported = completionTokens;
    this.#unreported = 0;
    this.#isExact = this.#promptTokens !== null;
  }

  /** The usage so far, and its source. */
  total(): { usage: Usage; usageSource: 'engine' | 'estimated' } {
    return {
      usage: {
        promptTokens: this.#promptTokens ?? this.#options.promptTokens,
        completionTokens: this.completionTokens,
        cachedTokens: this.#cachedTokens,
        reasoningTokens: 0,
      },
      usageSource: this.#isExact ? 'engine' : 'estimated',
    };
  }
}
