import type { Logprob, TokenLogprob } from '../../../core/generation.ts';
import type { NativeContext } from '../native/context.ts';
import type { NativeModel } from '../native/model.ts';
import type { NativeSampler } from '../native/sampler.ts';
import type { Vocabulary } from '../prompt/vocabulary.ts';

/**
 * Reads the model's log probabilities, before bias, penalties, temperature and grammar. The sampler of a choice only
 * returns modified logits, so this uses two others: a greedy one for the sampled token and the normalization, and, if
 * `top` is not 0, one for the most likely tokens.
 */
export class LogprobReader {
  readonly #greedy: NativeSampler;
  readonly #likeliest: NativeSampler;

  /** Create one per slot: its samplers support one reading at a time. */
  constructor(model: NativeModel) {
    this.#greedy = model.sampler({ temperature: 0, seed: 0 });
    this.#likeliest = model.sampler({ temperature: 1, topK: MAX_TOP_LOGPROBS, seed: 0 });
  }

  /** Returns the log probabilities of `token` and of the `top` most likely tokens (at most 20), at a logit index. */
  async read(
    context: NativeContext,
    index: number,
    token: number,
    top: number,
    vocabulary: Vocabulary,
  ): Promise<TokenLogprob> {
    const reading = await context.read(index, this.#greedy, [token], 0);
    const max = logitOf(reading.logits, reading.likeliest);
    const logTotal = max + Math.log(reading.totalWeight);
    const listed = top === 0 ? [] : (await context.read(index, this.#likeliest, [], top)).logits;
    const entry = (id: number, logit: number): Logprob => {
      const bytes = vocabulary.tokenBytes(id);
      return { token: vocabulary.tokenText(id), logprob: logit - logTotal, bytes: bytes && [...bytes] };
    };
    const alternatives = [];
    for (let i = 0; i + 1 < listed.length; i += 2)
      alternatives.push(entry(listed[i] ?? 0, listed[i + 1] ?? 0));
    return { ...entry(token, logitOf(reading.logits, token)), top: alternatives };
  }

  dispose(): void {
    this.#greedy.dispose();
    this.#likeliest.dispose();
  }
}

/** The limit of `top_logprobs`. */
const MAX_TOP_LOGPROBS = 20;

function logitOf(pairs: readonly number[], token: number): number {
  for (let i = 0; i + 1 < pairs.length; i += 2) if (pairs[i] === token) return pairs[i + 1] ?? Number.NaN;
  throw new Error('a requested logit is missing');
}
