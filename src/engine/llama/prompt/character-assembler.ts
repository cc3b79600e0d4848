/**
 * Decodes tokens into text as they arrive. Joins tokens that end in the middle of a character: incomplete bytes are
 * decoded as one replacement character at the end, which is held back. Most tokens are complete characters and need one
 * `detokenize` call.
 */
export class CharacterAssembler {
  readonly #detokenize: Detokenize;
  readonly #one = new Uint32Array(1);
  #pending: number[] = [];
  /** Code units of the pending tokens' text that were already returned. */
  #released = 0;

  /** `detokenize`: see `withAnchor`. */
  constructor(detokenize: Detokenize) {
    this.#detokenize = detokenize;
  }

  /** Adds a token. Returns the text that is complete, sometimes ''. */
  push(token: number): string {
    let text: string;
    if (this.#pending.length === 0) {
      this.#one[0] = token;
      text = this.#detokenize(this.#one);
      if (!text.endsWith(REPLACEMENT)) return text;
    } else {
      text = this.#text([...this.#pending, token]);
    }
    const fresh = text.slice(this.#released);
    if (!text.endsWith(REPLACEMENT)) {
      this.#pending = [];
      this.#released = 0;
      return fresh;
    }
    this.#pending.push(token);
    this.#released = Math.max(this.#released, text.length - 1);
    if (this.#pending.length > UNFINISHED_TOKENS) return fresh.slice(0, -1) + this.#forgetOldest();
    return fresh.slice(0, -1);
  }

  /** Returns the pending text, with incomplete characters replaced. */
  flush(): string {
    if (this.#pending.length === 0) return '';
    const text = this.#text(this.#pending).slice(this.#released);
    this.#pending = [];
    this.#released = 0;
    return text;
  }

  /**
   * Drops the oldest pending tokens to bound `#pending`. If the remaining tokens end with a complete character, flushes
   * everything instead and returns that text.
   */
  #forgetOldest(): string {
    const kept = this.#pending.slice(-UNFINISHED_TOKENS);
    const text = this.#text(kept);
    if (!text.endsWith(REPLACEMENT)) return this.flush();
    this.#pending = kept;
    this.#released = text.length - 1;
    return '';
  }

  #text(tokens: readonly number[]): string {
    return this.#detokenize(Uint32Array.from(tokens));
  }
}

const REPLACEMENT = '\uFFFD';

/** An incomplete character has at most 3 bytes, so at most 3 tokens. */
const UNFINISHED_TOKENS = 3;

export type Detokenize = (tokens: Uint32Array) => string;

/**
 * Makes a detokenizer independent of the position in the text. SentencePiece vocabularies remove the space before the
 * first token, so each call starts with the token `anchor`, such as BOS. Its text must be empty or consist of complete
 * characters.
 */
export function withAnchor(detokenize: Detokenize, anchor: number): Detokenize {
  const anchorLength = detokenize(Uint32Array.of(anchor)).length;
  return (tokens) => {
    const anchored = new Uint32Array(tokens.length + 1);
    anchored[0] = anchor;
    anchored.set(tokens, 1);
    return detokenize(anchored).slice(anchorLength);
  };
}
