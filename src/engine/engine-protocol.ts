import { ServiceError } from '../errors.ts';
import type { GenerationEvent, GenerationRequest, Sampling, TextEvent } from '../generation.ts';
import { errorBody, readErrorFrame } from '../openai/error-body.ts';
import { incompleteResponse, invalidResponse, parseObject } from '../openai/invalid-response.ts';
import { LineSplitter, SseParseError } from '../openai/sse.ts';
import type { JsonObject } from '../openai/values.ts';
import { invalidField } from './request-shape.ts';

/**
 * The protocol between the service and its engines, on this machine and on others. The service sends the request of a
 * generation as JSON; the engine responds with one line of JSON per event, called a frame. Text without log probabilities
 * is an array, to keep the most frequent event short; other events are objects with the fields of `GenerationEvent`.
 * Both ends must have the same version of this file: see `ENGINE_PROTOCOL`.
 */

/**
 * The version, which `GET /health` of an engine reports. The service uses only engines of its own version. Increment it
 * when `GenerationRequest`, `GenerationEvent` or their formats change.
 */
export const ENGINE_PROTOCOL = 2;

export const GENERATE_PATH = '/generate';

/** Media type of frames. */
export const EVENT_FRAMES = 'application/x-sluice-events';

/**
 * Maximum number of JSON values in the body of a request. The token IDs of a continued generation in the largest contexts
 * fit, and all that a service accepts from its callers.
 */
export const MAX_ENGINE_VALUES = 4_000_000;

/** A request as JSON. It is nested no deeper than the caller's, so that it has the same maximum depth. */
type EngineRequest = { version: number; sampling: EngineSampling } & Omit<GenerationRequest, 'sampling'>;

type EngineSampling = Omit<Sampling, 'logitBias' | 'explicit'> & { logitBias: readonly [number, number][] };

/** Returns the body of a request for an engine, which is converted to JSON next. `model`: its name on the engine. */
export function engineRequest(
  request: GenerationRequest,
  changes: Pick<GenerationRequest, 'model' | 'maxTokens'>,
): EngineRequest {
  const { explicit: _, logitBias, ...sampling } = request.sampling;
  const { continuation } = request;
  return {
    version: ENGINE_PROTOCOL,
    ...request,
    ...changes,
    sampling: { ...sampling, logitBias: [...logitBias] },
    // The engine generates the text again from the token IDs.
    continuation: continuation && { ...continuation, text: '' },
    // These are not for the engine: the trace is in a header.
    user: null,
    traceparent: null,
  };
}

/**
 * Reads the body of a request from a service. Throws `invalid_value` for another version of the protocol, and for values
 * that no service sends.
 */
export function readEngineRequest(body: JsonObject): GenerationRequest {
  const { version, ...fields } = body;
  if (version !== ENGINE_PROTOCOL) {
    throw new ServiceError(
      'invalid_value',
      `This engine expects version ${ENGINE_PROTOCOL} of the engine protocol. Install the same version of Sluice for the service and its engines.`,
    );
  }
  const invalid = invalidField(fields);
  if (invalid !== null) {
    throw new ServiceError('invalid_value', `\`${invalid}\` is not a value that a service sends.`, {
      param: invalid,
    });
  }
  const request = fields as unknown as Omit<EngineRequest, 'version'>; // Written by `engineRequest`.
  const logitBias = new Map(request.sampling.logitBias);
  const read = { ...request, sampling: { ...request.sampling, logitBias, explicit: new Set() } };
  return read as unknown as GenerationRequest; // The other fields are as they were in the request.
}

/** Throws unless the engine whose `GET /health` returned this body speaks this version of the protocol. */
export function checkEngineVersion(health: JsonObject): void {
  const { protocol } = health;
  if (protocol === ENGINE_PROTOCOL) return;
  const found = typeof protocol === 'number' ? `version ${protocol}` : 'no version';
  throw new Error(
    `the engine has ${found} of the engine protocol, and this service version ${ENGINE_PROTOCOL}; install the same version of Sluice for both`,
  );
}

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
