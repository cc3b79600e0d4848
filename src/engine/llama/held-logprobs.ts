import type { TokenLogprob } from '../../generation.ts';

/**
 * Log probabilities of tokens whose text is held back, because it may be the start of a call or of a stop sequence. They
 * are sent with the text, or dropped if it does not become part of the response.
 */
export class HeldLogprobs {
  #tokens: { text: string; logprob: TokenLogprob | null }[] = [];

  add(text: string, logprob: TokenLogprob): void {
    this.#tokens.push({ text, logprob });
  }

  /**
   * Returns the log probabilities of the tokens that `text` consists of. Skips tokens before it, because their text was
   * omitted from the response.
   */
  release(text: string): TokenLogprob[] {
    const released: TokenLogprob[] = [];
    let rest = text;
    while (rest !== '') {
      const [token] = this.#tokens;
      if (token === undefined) break;
      const isWhole = rest.startsWith(token.text);
      if (!isWhole && !token.text.startsWith(rest)) {
        token.text = token.text.slice(1);
        if (token.text === '') this.#tokens.shift();
        continue;
      }
      const length = Math.min(token.text.length, rest.length);
      if (token.logprob !== null) released.push(token.logprob);
      rest = rest.slice(length);
      if (isWhole) this.#tokens.shift();
      // A log probability is sent once, with the first part of its token's text.
      else this.#tokens[0] = { text: token.text.slice(length), logprob: null };
    }
    return released;
  }

  clear(): void {
    this.#tokens = [];
  }
}
