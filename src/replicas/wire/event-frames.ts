import type { EngineEvent, TextEvent } from '../../core/generation.ts';
import { incompleteResponse, invalidResponse, parseObject } from '../../core/invalid-response.ts';
import { readErrorFrame } from './replica-error.ts';
import { LineSplitter, SseParseError } from '../../support/sse.ts';
import { readVector } from '../../json/vectors.ts';

/**
 * Reads frames from chunks of any size. `push` and `end` add events to `events`, so that the caller still receives the
 * events that precede an error. They throw the error of an error frame, or `engine_unavailable` for an invalid or
 * incomplete response. Do not use a reader again after it has thrown.
 */
export class EventFrameReader {
  readonly #lines: LineSplitter;
  #ended = false;
  /** Completion tokens so far. */
  completionTokens = 0;

  /** `maxBytes`: maximum size of a frame. */
  constructor(maxBytes?: number) {
    this.#lines = new LineSplitter(maxBytes);
  }

  push(chunk: Buffer, events: EngineEvent[]): void {
    for (const line of this.#split(chunk)) {
      if (line.length === 0) continue;
      if (this.#ended) throw invalidResponse(new Error('an event follows the end'));
      const event = readFrame(line.toString());
      this.#ended = event.type === 'end';
      if ('completionTokens' in event) this.completionTokens = event.completionTokens;
      events.push(event);
    }
  }

  /** Call after the end of the body. */
  end(): void {
    if (!this.#ended) throw incompleteResponse('the response ended before the generation');
  }

  #split(chunk: Buffer): Buffer[] {
    try {
      return this.#lines.push(chunk);
    } catch (cause) {
      throw cause instanceof SseParseError ? invalidResponse(cause) : cause;
    }
  }
}

/** All kinds of events. The compiler checks that none is missing. */
const TYPES: Readonly<Record<EngineEvent['type'], true>> = {
  started: true,
  prefill: true,
  token: true,
  reasoning: true,
  'tool-call': true,
  'tool-arguments': true,
  embedding: true,
  score: true,
  finish: true,
  end: true,
};

function readFrame(line: string): EngineEvent {
  const value = parseObject(line, 'a frame');
  if (Array.isArray(value)) return readText(value);
  if ('error' in value) throw readErrorFrame(line);
  if ('type' in value && typeof value.type === 'string' && Object.hasOwn(TYPES, value.type)) {
    const event = value as EngineEvent; // Written by `formatFrame`.
    if (event.type !== 'embedding') return event;
    return { ...event, vector: vectorOf(event) };
  }
  throw invalidResponse(new Error('a frame has an unknown type'));
}

function vectorOf({ vector }: { vector: unknown }): Float32Array {
  try {
    return readVector(vector);
  } catch (cause) {
    throw invalidResponse(cause);
  }
}

function readText([choice, completionTokens, text, tokenIds]: readonly unknown[]): TextEvent {
  if (typeof choice !== 'number' || typeof completionTokens !== 'number' || typeof text !== 'string') {
    throw invalidResponse(new Error('a frame is not a choice, a number of tokens and a text'));
  }
  const event: TextEvent = { type: 'token', choice, text, completionTokens, logprobs: null };
  // Written by `formatFrame`, as an array of integers.
  if (tokenIds !== undefined) event.tokenIds = tokenIds as number[];
  return event;
}
