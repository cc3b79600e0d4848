import type { GenerationEvent, TokenLogprob } from '../../generation.ts';

type TokenEvent = Extract<GenerationEvent, { type: 'token' }>;

/**
 * The event queue of one request, from the step loop to a single reader. Writing never waits: unread text of a choice is
 * joined into one event, so the context length bounds the memory.
 */
export class Outbox {
  /** In reading order. The key of a choice's text is its index. */
  readonly #unread = new Map<number | symbol, GenerationEvent>();
  /** The mutable log probabilities of joined events. */
  readonly #joined = new WeakMap<TokenEvent, TokenLogprob[]>();
  #waiting: PromiseWithResolvers<GenerationEvent | null> | null = null;
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
    // Moves to the end, because its token count includes all choices.
    this.#unread.delete(event.choice);
    this.#unread.set(event.choice, unread?.type === 'token' ? this.#join(unread, event) : event);
  }

  close(): void {
    this.#closed = true;
    this.#waiting?.resolve(null);
    this.#waiting = null;
  }

  /** Ends the events with an error, which the reader receives after the unread events. */
  fail(reason: unknown): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#waiting === null) this.#failure = { reason };
    else this.#waiting.reject(reason);
    this.#waiting = null;
  }

  /** Returns the next event; null after the last. Rejects with the reason of `fail`. */
  async next(): Promise<GenerationEvent | null> {
    for (const [key, event] of this.#unread) {
      this.#unread.delete(key);
      return event;
    }
    if (this.#failure !== null) throw this.#failure.reason;
    if (this.#closed) return null;
    this.#waiting = Promise.withResolvers();
    return await this.#waiting.promise;
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
