import { type Usage, NO_USAGE } from '../../core/generation.ts';
import { readCount } from '../../json/values.ts';

/** Reads a `usage` object of any dialect. Returns null unless it has prompt and completion tokens. */
export function readUsage(value: unknown): Usage | null {
  if (typeof value !== 'object' || value === null) return null;
  const usage = value as WireUsage; // Each field is checked below.
  const promptTokens = readCount(usage.prompt_tokens);
  const completionTokens = readCount(usage.completion_tokens);
  if (promptTokens === null || completionTokens === null) return null;
  return {
    promptTokens,
    completionTokens,
    cachedTokens: readCount(usage.prompt_tokens_details?.cached_tokens) ?? 0,
    reasoningTokens:
      readCount(usage.completion_tokens_details?.reasoning_tokens) ?? readCount(usage.reasoning_tokens) ?? 0,
  };
}

interface WireUsage {
  prompt_tokens?: unknown;
  completion_tokens?: unknown;
  prompt_tokens_details?: { cached_tokens?: unknown } | null;
  completion_tokens_details?: { reasoning_tokens?: unknown } | null;
  /** The name in SGLang. */
  reasoning_tokens?: unknown;
}

export interface UsageMeterOptions {
  /** Estimated prompt tokens, for a replica that does not report them. */
  promptTokens: number;
  /** Whether the text includes the prompt, which does not count as completion. */
  echo: boolean;
  /** Whether the usage in a chunk with one choice is the usage of that choice only. */
  perChoice: boolean;
  /** Usage of the generation that this response continues, which the replica counts as its prompt. Null if it is new. */
  earlier: Readonly<Usage> | null;
}

/** Approximate tokens of a chunk; `reasoningTokens` are part of `tokens`. */
export interface ReceivedTokens {
  tokens: number;
  reasoningTokens: number;
}

/**
 * Counts the tokens of one response: the counts that the replica reported last, plus the tokens received since.
 * Estimates the prompt if it is not reported. Ignores reported zeros if there was a prompt, text or reasoning.
 */
export class UsageMeter {
  readonly #options: Pick<UsageMeterOptions, 'promptTokens' | 'echo' | 'perChoice'>;
  /** Usage of the earlier generation. */
  readonly #earlier: Readonly<Usage> | null;
  #promptTokens: number | null = null;
  #cachedTokens = 0;
  /** Completion and reasoning tokens as last reported. */
  #reported = 0;
  #reportedReasoning = 0;
  /** The last report of each choice, for replicas that report by choice. */
  #byChoice: Map<number, Usage> | null = null;
  /** Tokens received since the last report. */
  #unreported = 0;
  #unreportedReasoning = 0;
  /** Tokens received in total. */
  #received = 0;
  #receivedReasoning = 0;
  #isExact = false;

  constructor({
    promptTokens = 0,
    echo = false,
    perChoice = false,
    earlier,
  }: Partial<UsageMeterOptions> = {}) {
    this.#options = { promptTokens, echo, perChoice };
    this.#earlier = earlier ?? null;
  }

  /** Null until reported. */
  get promptTokens(): number | null {
    return this.#earlier?.promptTokens ?? this.#promptTokens;
  }

  get cachedTokens(): number | null {
    if (this.#earlier !== null) return this.#earlier.cachedTokens;
    return this.#promptTokens === null ? null : this.#cachedTokens;
  }

  /** Completion tokens of all choices so far, including tokens of the generation that this one continues. */
  get completionTokens(): number {
    return (this.#earlier?.completionTokens ?? 0) + this.#countedTokens;
  }

  get #countedTokens(): number {
    return this.#reported + this.#unreported;
  }

  /** Records a chunk: its approximate tokens, its usage, and its choice if it has only one. */
  record({ tokens, reasoningTokens }: ReceivedTokens, usage: Usage | null, choice: number | null): void {
    this.#received += tokens;
    this.#receivedReasoning += reasoningTokens;
    this.#unreported += tokens;
    this.#unreportedReasoning += reasoningTokens;
    if (tokens > 0) this.#isExact = false;
    if (usage === null) return;
    if (usage.promptTokens > 0 || this.#options.promptTokens === 0) {
      this.#promptTokens = usage.promptTokens;
      this.#cachedTokens = Math.min(usage.cachedTokens, usage.promptTokens);
    }
    if (usage.completionTokens === 0 && this.#received > 0 && !this.#options.echo) return;
    if (this.#options.perChoice && choice !== null) {
      this.#byChoice ??= new Map();
      const before = this.#byChoice.get(choice) ?? NO_USAGE;
      // A count that falls could make the total negative.
      const completionTokens = Math.max(before.completionTokens, usage.completionTokens);
      const reasoning = Math.max(before.reasoningTokens, usage.reasoningTokens);
      this.#reported += completionTokens - before.completionTokens;
      this.#reportedReasoning += reasoning - before.reasoningTokens;
      this.#byChoice.set(choice, { ...usage, completionTokens, reasoningTokens: reasoning });
    } else {
      this.#reported = usage.completionTokens;
      this.#reportedReasoning = usage.reasoningTokens;
    }
    this.#unreported = 0;
    this.#unreportedReasoning = 0;
    this.#isExact = this.#promptTokens !== null;
  }

  /** The usage so far, and its source. */
  total(): { usage: Usage; usageSource: 'engine' | 'estimated' } {
    return {
      usage: {
        promptTokens: this.promptTokens ?? this.#options.promptTokens,
        completionTokens: this.completionTokens,
        cachedTokens: this.cachedTokens ?? 0,
        reasoningTokens: (this.#earlier?.reasoningTokens ?? 0) + this.#reasoningTokens(),
      },
      usageSource: this.#isExact ? 'engine' : 'estimated',
    };
  }

  /**
   * Estimates reasoning that the replica does not report: its share of the tokens received, applied to the completion.
   */
  #reasoningTokens(): number {
    if (this.#reportedReasoning > 0) {
      return Math.min(this.#reportedReasoning + this.#unreportedReasoning, this.#countedTokens);
    }
    if (this.#receivedReasoning === 0) return 0;
    const share = Math.min(1, this.#receivedReasoning / this.#received);
    return Math.round(share * this.#countedTokens);
  }
}
