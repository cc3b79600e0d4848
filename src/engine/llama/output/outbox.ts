import type { TextEvent, TokenLogprob, ToolEvent, EngineEvent } from '../../../core/generation.ts';

type ToolArguments = Extract<ToolEvent, { type: 'tool-arguments' }>;

type Read = IteratorResult<EngineEvent, undefined>;
const DONE = { value: undefined, done: true } as const;

/** Maximum size of a joined event in JSON, in bytes. Less than the maximum of the service, `MAX_EVENT_BYTES`. */
const MAX_JOINED_BYTES = 524_288;

/**
 * The events of one request, from the step loop to a single reader. Writing never waits. Consecutive unread parts of a
 * choice are joined into one event of at most `MAX_JOINED_BYTES`, so the memory is bounded by the context length.
 */
export class Outbox implements AsyncIterableIterator<EngineEvent, undefined> {
  /** Called when the reader stops before the last event. */
  onReturn: (() => void) | null = null;
  /** In reading order. */
  readonly #unread = new Set<EngineEvent>();
  /** The last part of each choice. It may have been read. */
  readonly #last = new Map<number, TextEvent | ToolEvent>();
  /** The log probabilities of joined events, as arrays that `#join` can extend. */
  readonly #joined = new WeakMap<TextEvent, TokenLogprob[]>();
  /** The sizes of unread parts that have been joined. */
  readonly #bytes = new WeakMap<TextEvent | ToolEvent, number>();
  #waiting: PromiseWithResolvers<Read> | null = null;
  #failure: { reason: unknown } | null = null;
  #closed = false;

  push(event: EngineEvent): void {
    if (this.#closed) return;
    if (this.#waiting !== null) {
      const { resolve } = this.#waiting;
      this.#waiting = null;
      resolve({ value: event, done: false });
      return;
    }
    switch (event.type) {
      case 'token':
      case 'reasoning':
      case 'tool-call':
      case 'tool-arguments':
        this.#addPart(event);
        break;
      case 'started':
      case 'prefill':
      case 'embedding':
      case 'finish':
      case 'end':
        this.#unread.add(event);
    }
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
    for (const value of this.#unread) {
      this.#unread.delete(value);
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
    this.#unread.clear();
    this.close();
    this.onReturn?.();
    return DONE;
  }

  #addPart(event: TextEvent | ToolEvent): void {
    const last = this.#last.get(event.choice);
    const joined = last !== undefined && this.#unread.has(last) ? this.#joinIfShort(last, event) : null;
    // A joined event moves to the end, because its token count now includes the later events of other choices.
    if (last !== undefined && joined !== null) this.#unread.delete(last);
    this.#unread.add(joined ?? event);
    this.#last.set(event.choice, joined ?? event);
  }

  /** Returns both parts as one, or null if they cannot be joined or would be too long. */
  #joinIfShort(last: TextEvent | ToolEvent, event: TextEvent | ToolEvent): TextEvent | ToolEvent | null {
    const bytes = (this.#bytes.get(last) ?? jsonBytes(last)) + jsonBytes(event);
    if (bytes > MAX_JOINED_BYTES) return null;
    const joined = this.#join(last, event);
    if (joined !== null) this.#bytes.set(joined, bytes);
    return joined;
  }

  /** Returns both parts as one, or null if they differ in more than their text. */
  #join(last: TextEvent | ToolEvent, event: TextEvent | ToolEvent): TextEvent | ToolArguments | null {
    // The joined event would replace `last` without its IDs, and later events do not repeat them.
    if (last.tokenIds !== undefined && event.tokenIds === undefined) return null;
    if (last.type === 'tool-arguments') {
      if (event.type !== 'tool-arguments' || event.call !== last.call) return null;
      return withIdsOf(last, { ...event, text: last.text + event.text });
    }
    if (last.type === 'tool-call' || event.type !== last.type) return null;
    const text = last.text + event.text;
    if (last.logprobs === null && event.logprobs === null) return withIdsOf(last, { ...event, text });
    const logprobs = this.#joined.get(last) ?? [...(last.logprobs ?? [])];
    logprobs.push(...(event.logprobs ?? []));
    const joined = { ...event, text, logprobs };
    this.#joined.set(joined, logprobs);
    return joined;
  }
}

/** Puts the token IDs of `last` before those of the event that replaces it. */
function withIdsOf<Event extends TextEvent | ToolEvent>(
  { tokenIds }: TextEvent | ToolEvent,
  event: Event,
): Event {
  if (tokenIds === undefined || event.tokenIds === undefined) return event;
  // Extends the array, because copying it for every token would cost too much. It has no other reader yet.
  const joined = tokenIds as number[];
  for (const id of event.tokenIds) joined.push(id);
  event.tokenIds = joined;
  return event;
}

/** Maximum size of a number with the names around it, and of a character in JSON. */
const NUMBER_BYTES = 64;
const CHARACTER_BYTES = 6;

/** Returns an upper bound on the size of an event in JSON. */
function jsonBytes(event: TextEvent | ToolEvent): number {
  const text = 'text' in event ? event.text : event.id + event.name;
  let bytes = CHARACTER_BYTES * text.length + NUMBER_BYTES * (event.tokenIds?.length ?? 0);
  if (!('logprobs' in event) || event.logprobs === null) return bytes;
  for (const { token, top } of event.logprobs) {
    bytes += logprobBytes(token);
    for (const alternative of top) bytes += logprobBytes(alternative.token);
  }
  return bytes;
}

/** A log probability has the text of its token and, as numbers, its bytes. */
function logprobBytes(token: string): number {
  return 2 * NUMBER_BYTES + 3 * CHARACTER_BYTES * token.length;
}
