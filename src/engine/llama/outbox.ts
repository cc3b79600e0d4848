import type { GenerationEvent } from '../../generation.ts';

/**
 * Events of one request on their way from the step loop to whoever reads them. Writing never waits. What is not
 * read is joined: unread text of a choice is one event, so the memory held is bounded by the text that a slot
 * can hold. One reader.
 */
export class Outbox {
  readonly #unread: GenerationEvent[] = [];
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
    const last = this.#unread.at(-1);
    if (event.type === 'token' && last?.type === 'token' && last.choice === event.choice) {
      this.#unread[this.#unread.length - 1] = {
        ...event,
        text: last.text + event.text,
        logprobs: event.logprobs === null ? last.logprobs : [...(last.logprobs ?? []), ...event.logprobs],
      };
    } else this.#unread.push(event);
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
    const event = this.#unread.shift();
    if (event !== undefined) return event;
    if (this.#failure !== null) throw this.#failure.reason;
    if (this.#closed) return null;
    return await new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }
}
