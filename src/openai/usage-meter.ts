import type { Usage } from '../generation.ts';

export interface UsageMeterOptions {
  /** Tokens of the prompt, for a replica that does not report them. */
  promptTokens: number;
  /** Whether text may come that is no completion: the prompt, echoed. */
  echo: boolean;
  /** Whether usage on a chunk of one choice is that choice's own. */
  perChoice: boolean;
}

/**
 * Counts the tokens of one response. What the replica reports counts; what comes after its last report is added to
 * that, and the prompt is estimated where it is not reported. Zero tokens of a prompt, or of a text that came, are
 * not a report.
 */
export class UsageMeter {
  readonly #options: UsageMeterOptions;
  #promptTokens: number | null = null;
  #cachedTokens = 0;
  #reported = 0;
  /** Of `#reported`, by choice, where replicas report by choice. */
  readonly #byChoice = new Map<number, number>();
  /** Tokens that came since the last report, and since the beginning. */
  #since = 0;
  #counted = 0;
  #exact = false;

  constructor(options: Partial<UsageMeterOptions> = {}) {
    this.#options = { promptTokens: 0, echo: false, perChoice: false, ...options };
  }

  /** Null: not reported so far. */
  get promptTokens(): number | null {
    return this.#promptTokens;
  }

  get cachedTokens(): number | null {
    return this.#promptTokens === null ? null : this.#cachedTokens;
  }

  /** Of all choices, so far. */
  get completionTokens(): number {
    return this.#reported + this.#since;
  }

  /** Takes in what one chunk brings: about so many tokens, its usage, and its choice where it has only one. */
  note(tokens: number, usage: Usage | null, choice: number | null): void {
    this.#counted += tokens;
    this.#since += tokens;
    this.#exact = false;
    if (usage === null) return;
    if (usage.promptTokens > 0 || this.#options.promptTokens === 0) {
      this.#promptTokens = usage.promptTokens;
      this.#cachedTokens = Math.min(usage.cachedTokens, usage.promptTokens);
    }
    const { completionTokens } = usage;
    if (completionTokens === 0 && this.#counted > 0 && !this.#options.echo) return;
    if (this.#options.perChoice && choice !== null) {
      const before = this.#byChoice.get(choice) ?? 0;
      // Counts only rise: a lower one, subtracted from a total that came in between, could leave less than zero.
      const now = Math.max(before, completionTokens);
      this.#reported += now - before;
      this.#byChoice.set(choice, now);
    } else this.#reported = completionTokens;
    this.#since = 0;
    this.#exact = this.#promptTokens !== null;
  }

  /** The usage of the response as it stands, and who counted it. */
  total(): { usage: Usage; usageSource: 'engine' | 'estimated' } {
    return {
      usage: {
        promptTokens: this.#promptTokens ?? this.#options.promptTokens,
        completionTokens: this.completionTokens,
        cachedTokens: this.#cachedTokens,
      },
      usageSource: this.#exact ? 'engine' : 'estimated',
    };
  }
}
