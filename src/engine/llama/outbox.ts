import type { GenerationEvent, TokenLogprob } from '../../generation.ts';

type TokenEvent = Extract<GenerationEvent, { type: 'token' }>;

/**
 * Events of one request on their way from the step loop to their reader. Writing never waits. Unread text of a choice
 * is joined into one event, so the memory held is bounded by the text that the request's slots can hold. One reader.
 */
export class Outbox {
  /** In the order of their reading. That of a choice's text is its number; others have keys of their own. */
  readonly #unread = new Map<number | symbol, GenerationEvent>();
  /** Log probabilities of text that was joined, which may be added to. */
  readonly #joined = new WeakMap<TokenEvent, TokenLogprob[]>();
  #waiting: { resolve: (event: GenerationEvent | null) => void; reject: (reason: unknown) => void } | null =
    null;
  #failure: { reason: unknown } | null = null;
  #closed = false;

  push(event: GenerationEvent): void {
    if (this.#closed) return;
    if (this.#waiting !== null) {
      const { resolve } = this.#waiting;
      this.#waiting = null;
      resolve(event);
      return;
    }
    if (event.type !== 'token') {
      this.#unread.set(Symbol(event.type), event);
      return;
    }
    const unread = this.#unread.get(event.choice);
    // It moves to the end, because its count of tokens is that of all choices.
    this.#unread.delete(event.choice);
    this.#unread.set(event.choice, unread?.type === 'token' ? this.#join(unread, event) : event);
  }

  /** Nothing follows. */
  close(): void {
    this.#closed = true;
    this.#waiting?.resolve(null);
    this.#waiting = null;
  }

  /** The reader gets `reason` after what it has not read yet. */
  fail(reason: unknown): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#waiting === null) this.#failure = { reason };
    else this.#waiting.reject(reason);
    this.#waiting = null;
  }

  /** The next event; null after the last. Rejects with what the request failed of. */
  async next(): Promise<GenerationEvent | null> {
    for (const [key, event] of this.#unread) {
      this.#unread.delete(key);
      return event;
    }
    if (this.#failure !== null) throw this.#failure.reason;
    if (this.#closed) return null;
    return await new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  #join(unread: TokenEvent, event: TokenEvent): TokenEvent {
    const text = unread.text + event.text;
    if (unread.logprobs === null && event.logprobs === null) return { ...event, text };
    const logprobs = this.#joined.get(unread) ?? [...(unread.logprobs ?? [])];
    logprobs.push(...(event.logprobs ?? []));
    const joined = { ...event, text, logprobs };
    this.#joined.set(joined, logprobs);
    return joined;
  }
}
