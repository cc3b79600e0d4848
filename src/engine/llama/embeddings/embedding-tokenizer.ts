import { setImmediate as nextTurn } from 'node:timers/promises';
import { ServiceError } from '../../../core/errors.ts';
import type { EmbeddingInput } from '../../../core/generation.ts';
import type { NativeModel } from '../native/model.ts';
import { promptText, type PromptText } from '../prompt/prompt-text.ts';
import { concat, pieceLimits, tooLongRun } from '../prompt/prompt-tokenizer.ts';
import type { Vocabulary } from '../prompt/vocabulary.ts';

/**
 * Maximum length of a text that cannot be cut into pieces, in UTF-16 code units. Tokenizing it takes about 0.3 s, during
 * which the engine does nothing else.
 */
const MAX_UNCUT = 262_144;

/** Tokens around a text. */
interface Frame {
  before: ArrayLike<number>;
  after: ArrayLike<number>;
}

/** What the file of the model says: see `GgufInfo`. */
interface TokenizerInfo {
  preTokenizer: string | null;
  addSeparator: boolean | null;
  rerankTemplate: string | null;
}

/** Tokenizes the inputs of embeddings, and pairs of query and document. */
export class EmbeddingTokenizer {
  readonly #model: NativeModel;
  readonly #vocabulary: Vocabulary;
  readonly #inputTokens: number;
  readonly #pieceLength: number;
  readonly #maxRun: number;
  readonly #frame: Frame;
  readonly #separator: readonly number[];
  /** The parts of the prompt for a pair, with `{query}` and `{document}` in their places; null: there is none. */
  readonly #template: readonly string[] | null;

  constructor(
    { model, vocabulary }: { model: NativeModel; vocabulary: Vocabulary },
    { preTokenizer, addSeparator, rerankTemplate }: TokenizerInfo,
    inputTokens: number,
  ) {
    const { pieceLength, maxRun } = pieceLimits(model, vocabulary, preTokenizer);
    this.#model = model;
    this.#vocabulary = vocabulary;
    this.#inputTokens = inputTokens;
    this.#pieceLength = pieceLength;
    this.#maxRun = Math.min(maxRun, MAX_UNCUT);
    this.#frame = model.textFrame;
    this.#separator = model.textSeparator(addSeparator);
    this.#template = rerankTemplate?.split(/\{?(\{(?:query|document)\})\}?/) ?? null;
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
        typeof input === 'string'
          ? await this.#text(plainText(input), this.#frame, param, signal)
          : this.#ids(input, param),
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

  /**
   * Returns the tokens of the query with each document, in the prompt of the model or with a separator between them. Throws
   * as `tokenize` does.
   */
  async pairs(query: string, documents: readonly string[], signal: AbortSignal): Promise<Uint32Array[]> {
    const tokens: Uint32Array[] = [];
    const template = this.#template;
    let frame: Frame = { before: [], after: [] };
    if (template === null) {
      const start = { ...this.#frame, after: this.#separator };
      frame = { ...this.#frame, before: await this.#text(plainText(query), start, 'query', signal) };
    }
    for (const [index, document] of documents.entries()) {
      const text = template === null ? plainText(document) : this.#prompt(template, query, document);
      tokens.push(await this.#text(text, frame, `documents[${index}]`, signal));
      await nextTurn();
      signal.throwIfAborted();
    }
    return tokens;
  }

  /** Special tokens are recognized only in the template. */
  #prompt(template: readonly string[], query: string, document: string): PromptText {
    const segments = template.map((text) => {
      if (text === '{query}') return { text: query, trusted: false };
      return text === '{document}' ? { text: document, trusted: false } : { text, trusted: true };
    });
    return promptText(segments, { controls: this.#vocabulary.controls, userDefined: null });
  }

  async #text(
    { text, ends, special }: PromptText,
    { before, after }: Frame,
    param: string,
    signal: AbortSignal,
  ): Promise<Uint32Array> {
    const parts: Uint32Array[] = [Uint32Array.from(before)];
    let count = before.length + after.length;
    let start = 0;
    for (const [index, end] of ends.entries()) {
      const part = text.slice(start, end);
      start = end;
      for (const piece of this.#vocabulary.cuts.pieces(part, this.#pieceLength)) {
        if (piece.length > this.#maxRun) throw tooLongRun(piece, this.#maxRun, param);
        const tokens = this.#model.tokenize(piece, special[index] === 1);
        parts.push(tokens);
        count += tokens.length;
        if (piece.length === text.length) break;
        if (count > this.#inputTokens) throw this.#tooLong(`at least ${count}`, param);
        await nextTurn();
        signal.throwIfAborted();
      }
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

/** Text that looks like a special token is text. */
function plainText(text: string): PromptText {
  return { text, ends: Uint32Array.of(text.length), special: Uint8Array.of(0) };
}
