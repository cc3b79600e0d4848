import type { TokenLogprob } from '../../generation.ts';

/** Keeps an event far smaller than the maximum of the service, `MAX_EVENT_BYTES`: each may have 20 alternatives. */
const MAX_LOGPROBS = 64;

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
   * Returns `text` in parts, each with the log probabilities of its tokens, at most `MAX_LOGPROBS`. Skips tokens before
   * it, because their text was omitted from the response.
   */
  release(text: string): { text: string; logprobs: TokenLogprob[] }[] {
    let part = { text, logprobs: new Array<TokenLogprob>() };
    const parts = [part];
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
      if (part.logprobs.length === MAX_LOGPROBS) {
        part.text = part.text.slice(0, -rest.length);
        part = { text: rest, logprobs: [] };
        parts.push(part);
      }
      const length = Math.min(token.text.length, rest.length);
      if (token.logprob !== null) part.logprobs.push(token.logprob);
      rest = rest.slice(length);
      if (isWhole) this.#tokens.shift();
      // A log probability is sent once, with the first part of its token's text.
      else this.#tokens[0] = { text: token.text.slice(length), logprob: null };
    }
    return parts;
  }

  clear(): void {
    this.#tokens = [];
  }
}
