import { setImmediate as nextTurn } from 'node:timers/promises';
import { ServiceError } from '../../../core/errors.ts';
import type { EmbeddingInput } from '../../../core/generation.ts';
import type { NativeModel } from '../native/model.ts';
import { concat, pieceLimits, tooLongRun } from '../prompt/prompt-tokenizer.ts';
import type { Vocabulary } from '../prompt/vocabulary.ts';

/**
 * Maximum length of a text that cannot be cut into pieces, in UTF-16 code units. Tokenizing it takes about 0.3 s, during
 * which the engine does nothing else.
 */
const MAX_UNCUT = 262_144;

/** Tokenizes the inputs of embeddings. */
export class EmbeddingTokenizer {
  readonly #model: NativeModel;
  readonly #vocabulary: Vocabulary;
  readonly #inputTokens: number;
  readonly #pieceLength: number;
  readonly #maxRun: number;
  readonly #frame: NativeModel['textFrame'];

  constructor(
    { model, vocabulary }: { model: NativeModel; vocabulary: Vocabulary },
    preTokenizer: string | null,
    inputTokens: number,
  ) {
    const { pieceLength, maxRun } = pieceLimits(model, vocabulary, preTokenizer);
    this.#model = model;
    this.#vocabulary = vocabulary;
    this.#inputTokens = inputTokens;
    this.#pieceLength = pieceLength;
    this.#maxRun = Math.min(maxRun, MAX_UNCUT);
    this.#frame = model.textFrame;
  }

  /**
   * Returns the tokens of each input. A text gets the tokens that the model expects around it; token IDs are used as they
   * are. Text that looks like a special token is text. Throws 400 `context_length_exceeded` for an input that is too long,
   * and 400 `invalid_value` for an empty one and for a token that the model does not have. Throws the reason of the signal
   * between two pieces of a text.
   */
  async tokenize(inputs: readonly EmbeddingInput[], signal: AbortSignal): Promise<Uint32Array[]> {
    const tokens: Uint32Array[] = [];
    let characters = 0;
    for (const [index, input] of inputs.entries()) {
      const param = `input[${index}]`;
      if (input.length === 0)
        throw new ServiceError('invalid_value', `\`${param}\` must not be empty.`, { param });
      tokens.push(
        typeof input === 'string' ? await this.#text(input, param, signal) : this.#ids(input, param),
      );
      // Tokenization is synchronous, about 1 ms per kilobyte.
      characters += input.length;
      if (characters < this.#pieceLength) continue;
      characters = 0;
      await nextTurn();
      signal.throwIfAborted();
    }
    return tokens;
  }

  async #text(text: string, param: string, signal: AbortSignal): Promise<Uint32Array> {
    const { before, after } = this.#frame;
    const parts: Uint32Array[] = [Uint32Array.from(before)];
    let count = before.length + after.length;
    for (const piece of this.#vocabulary.cuts.pieces(text, this.#pieceLength)) {
      if (piece.length > this.#maxRun) throw tooLongRun(piece, this.#maxRun, param);
      const tokens = this.#model.tokenize(piece, false);
      parts.push(tokens);
      count += tokens.length;
      if (piece.length === text.length) break;
      if (count > this.#inputTokens) throw this.#tooLong(`at least ${count}`, param);
      await nextTurn();
      signal.throwIfAborted();
    }
    if (count > this.#inputTokens) throw this.#tooLong(`${count}`, param);
    // A model without tokens around a text has none for a text of white space.
    if (count === 0) throw new ServiceError('invalid_value', `\`${param}\` has no tokens.`, { param });
    return concat([...parts, Uint32Array.from(after)]);
  }

  #ids(ids: readonly number[], param: string): Uint32Array {
    if (ids.length > this.#inputTokens) throw this.#tooLong(`${ids.length}`, param);
    const unknown = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= this.#vocabulary.size);
    if (unknown !== undefined)
      throw new ServiceError(
        'invalid_value',
        `\`${param}\` has the token ${unknown}, but the tokens of this model are 0 to ${this.#vocabulary.size - 1}.`,
        { param },
      );
    return Uint32Array.from(ids);
  }

  #tooLong(amount: string, param: string): ServiceError {
    return new ServiceError(
      'context_length_exceeded',
      // Client libraries detect this error by the start of OpenAI's message.
      `This model's maximum context length is ${this.#inputTokens} tokens; \`${param}\` has ${amount}.`,
      { param },
    );
  }
}
