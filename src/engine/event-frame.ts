import type { ServiceError } from '../errors.ts';
import type { GenerationEvent, TextEvent } from '../generation.ts';
import { errorBody, readErrorFrame } from '../openai/error-body.ts';
import { incompleteResponse, invalidResponse, parseObject } from '../openai/invalid-response.ts';
import { LineSplitter, SseParseError } from '../openai/sse.ts';

/**
 * The wire format between the service and its own engine processes: one line of JSON per event. Text without log
 * probabilities is an array, to keep the most frequent event short; other events are objects with the fields of
 * `GenerationEvent`.
 * Both ends run the same version of this file.
 */

/** Media type: the `Accept` header of a request for frames, and the `Content-Type` of its response. */
export const EVENT_FRAMES = 'application/x-sluice-events';

/** An empty line, which keeps the connection from timing out. */
export const KEEP_ALIVE_FRAME = '\n';

export function formatFrame(event: GenerationEvent): string {
  if (event.type === 'token' && event.logprobs === null) {
    const { choice, completionTokens, tokenIds } = event;
    const ids = tokenIds === undefined ? '' : `,[${tokenIds.join(',')}]`;
    return `[${choice},${completionTokens},${JSON.stringify(event.text)}${ids}]\n`;
  }
  return `${JSON.stringify(event)}\n`;
}

/** Formats an error, which ends the response. */
export function formatErrorFrame(error: ServiceError): string {
  return `${errorBody(error)}\n`;
}

/**
 * Reads frames from chunks of any size. `push` and `end` add events to `events`, so that the caller still receives the
 * events that precede an error. They throw the error of an error frame, or `engine_unavailable` for an invalid or
 * incomplete response. Do not use a reader again after it has thrown.
 */
export class EventFrameReader {
  readonly #lines: LineSplitter;
  #ended = false;

  /** `maxBytes`: maximum size of a frame. */
  constructor(maxBytes?: number) {
    this.#lines = new LineSplitter(maxBytes);
  }

  push(chunk: Buffer, events: GenerationEvent[]): void {
    for (const line of this.#split(chunk)) {
      if (line.length === 0) continue;
      if (this.#ended) throw invalidResponse(new Error('an event follows the end'));
      const event = readFrame(line.toString());
      this.#ended = event.type === 'end';
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
const TYPES: Readonly<Record<GenerationEvent['type'], true>> = {
  started: true,
  token: true,
  reasoning: true,
  'tool-call': true,
  'tool-arguments': true,
  finish: true,
  end: true,
};

function readFrame(line: string): GenerationEvent {
  const value = parseObject(line, 'a frame');
  if (Array.isArray(value)) return readText(value);
  if ('error' in value) throw readErrorFrame(line);
  if ('type' in value && typeof value.type === 'string' && Object.hasOwn(TYPES, value.type)) {
    // Written by `formatFrame`.
    return value as GenerationEvent;
  }
  throw invalidResponse(new Error('a frame has an unknown type'));
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
