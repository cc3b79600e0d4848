import type { EngineEvent } from '../../../core/generation.ts';

type Read = IteratorResult<EngineEvent, undefined>;
const DONE = { value: undefined, done: true } as const;

/**
 * The events of one request, from the step loop to a single reader. Writing never waits. The context bounds how many
 * events are unread: each has at least one token.
 */
export class EventQueue implements AsyncIterableIterator<EngineEvent, undefined> {
  /** Called when the reader stops before the last event. */
  onReturn: (() => void) | null = null;
  #unread: EngineEvent[] = [];
  /** Number of events of `#unread` that have been read. */
  #read = 0;
  #waiting: PromiseWithResolvers<Read> | null = null;
  #failure: { reason: unknown } | null = null;
  #closed = false;

  push(event: EngineEvent): void {
    if (this.#closed) return;
    if (this.#waiting === null) {
      this.#unread.push(event);
      return;
    }
    const { resolve } = this.#waiting;
    this.#waiting = null;
    resolve({ value: event, done: false });
  }

  close(): void {
    this.#closed = true;
    this.#waiting?.resolve(DONE);
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

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Returns the next event. Rejects with the reason of `fail` after the last one. */
  async next(): Promise<Read> {
    const value = this.#unread[this.#read];
    if (value !== undefined) {
      this.#read += 1;
      if (this.#read === this.#unread.length) this.#forget();
      return { value, done: false };
    }
    if (this.#failure !== null) {
      const { reason } = this.#failure;
      this.#failure = null;
      throw reason;
    }
    if (this.#closed) return DONE;
    this.#waiting = Promise.withResolvers();
    return await this.#waiting.promise;
  }

  async return(): Promise<Read> {
    this.#forget();
    this.close();
    this.onReturn?.();
    return DONE;
  }

  #forget(): void {
    this.#unread = [];
    this.#read = 0;
  }
}
