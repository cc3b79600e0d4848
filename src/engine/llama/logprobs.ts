import type { TokenLogprob } from '../../generation.ts';
import type { NativeContext, NativeModel, NativeSampler } from './binding.ts';
import type { Vocabulary } from './vocabulary.ts';

/**
 * Log probabilities of the model itself, before bias, penalties, temperature and grammar. They are read with two
 * more passes over the logits: a greedy one for the token, the maximum and the sum of the weights, and one that
 * keeps the likeliest few. Sampling changes the values it passes over, so its own pass cannot serve.
 */
export class LogprobReader {
  readonly #greedy: NativeSampler;
  readonly #likeliest: NativeSampler;

  /** One a slot: its samplers have room for one reading at a time. */
  constructor(model: NativeModel) {
    this.#greedy = model.sampler({ temperature: 0, seed: 0 });
    this.#likeliest = model.sampler({ temperature: 1, topK: MOST_LISTED, seed: 0 });
  }

  /** Reads `token`'s log probability at a logit index of the last decode, and the `top` likeliest (at most 20). */
  async read(
    context: NativeContext,
    index: number,
    token: number,
    top: number,
    vocabulary: Vocabulary,
  ): Promise<TokenLogprob> {
    const reading = await context.read(index, this.#greedy, [token], 0);
    const max = valueOf(reading.logits, reading.likeliest);
    const zero = max + Math.log(reading.totalWeight);
    const listed = top === 0 ? [] : (await context.read(index, this.#likeliest, [], top)).logits;
    const entry = (id: number, logit: number): Omit<TokenLogprob, 'top'> => ({
      token: vocabulary.tokenText(id),
      logprob: logit - zero,
      bytes: bytesOf(vocabulary, id),
    });
    const others = [];
    for (let i = 0; i + 1 < listed.length; i += 2) others.push(entry(listed[i] ?? 0, listed[i + 1] ?? 0));
    return { ...entry(token, valueOf(reading.logits, token)), top: others };
  }

  dispose(): void {
    this.#greedy.dispose();
    this.#likeliest.dispose();
  }
}

/** What the wire allows in one list. */
const MOST_LISTED = 20;

function valueOf(pairs: readonly number[], token: number): number {
  for (let i = 0; i + 1 < pairs.length; i += 2) if (pairs[i] === token) return pairs[i + 1] ?? Number.NaN;
  throw new Error('a logit that was asked for is missing');
}

function bytesOf(vocabulary: Vocabulary, token: number): readonly number[] | null {
  const bytes = vocabulary.tokenBytes(token);
  return bytes === null ? null : [...bytes];
}
