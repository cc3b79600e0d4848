import { responseIdentity, type ResponseIdentity } from '../openai/shape.ts';
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { ServiceError } from '../errors.ts';
import { EventStream, WriteQueue, type EventStreamOptions } from '../event-stream.ts';
import type { GenerationEvent, GenerationRequest } from '../generation.ts';
import type { Log } from '../log.ts';
import { errorBody } from '../openai/error-body.ts';
import { ResponseBuilder } from '../openai/response.ts';
import { StreamFormatter } from '../openai/stream.ts';
import type { LocalEngine } from './engine.ts';
import { EVENT_FRAMES, formatErrorFrame, formatFrame, KEEP_ALIVE_FRAME } from './event-frame.ts';

/** Time without an event before a keep-alive comment, in milliseconds. */
const KEEP_ALIVE_MS = 10_000;

/** Age of the last step beyond which no keep-alive comment is sent, in milliseconds. */
const MAX_STEP_AGE_MS = 30_000;

/** Maximum text of an event in a stream, in characters. Longer texts, such as echoed prompts, are split. */
const MAX_TEXT = 65_536;

/** Writes the responses to generation requests. */
export class Responder {
  readonly #engine: LocalEngine;
  readonly #log: Log;
  readonly #writes = new WriteQueue();
  /** With the keep-alive comments, a client can distinguish a long prefill from a stuck engine. */
  readonly #streamOptions: EventStreamOptions = {
    holdMs: null,
    keepAliveMs: KEEP_ALIVE_MS,
    alive: () => (this.#engine.health().lastStepAgeMs ?? 0) <= MAX_STEP_AGE_MS,
  };

  constructor(engine: LocalEngine, log: Log) {
    this.#engine = engine;
    this.#log = log;
  }

  /**
   * Responds with event frames if the client accepts them, otherwise as OpenAI's API. Resolves when the response has been
   * written or the client has disconnected. Never rejects.
   */
  async respond(request: GenerationRequest, response: ServerResponse): Promise<void> {
    const disconnect = new AbortController();
    response.on('close', () => {
      if (!response.writableEnded) disconnect.abort();
    });
    if (response.req.headers.accept === EVENT_FRAMES) {
      await this.#stream(request, response, FRAMES, disconnect.signal);
      return;
    }
    const identity = responseIdentity(request.kind, randomUUID(), request.model);
    if (request.stream)
      await this.#stream(request, response, serverSentEvents(identity, request), disconnect.signal);
    else await this.#respondWhole(request, response, identity, disconnect.signal);
  }

  async #respondWhole(
    request: GenerationRequest,
    response: ServerResponse,
    identity: ResponseIdentity,
    signal: AbortSignal,
  ): Promise<void> {
    const builder = new ResponseBuilder(identity, request);
    try {
      for await (const event of this.#engine.generate(request, signal)) builder.add(event);
      sendJson(response, 200, builder.body());
    } catch (error) {
      if (!signal.aborted) sendError(response, error, this.#log);
    }
  }

  async #stream(
    request: GenerationRequest,
    response: ServerResponse,
    format: StreamFormat,
    signal: AbortSignal,
  ): Promise<void> {
    using stream = new EventStream(response, this.#writes, { ...this.#streamOptions, ...format.options });
    try {
      for await (const event of this.#engine.generate(request, signal)) {
        const drained =
          'text' in event && event.text.length > MAX_TEXT
            ? writeParts(stream, format, event)
            : stream.write(format.event(event));
        if (drained) await drained;
      }
      stream.end(format.end);
    } catch (error) {
      if (signal.aborted) return;
      if (stream.opened) stream.end(format.error(serviceError(error, this.#log)));
      else sendError(response, error, this.#log);
    }
  }
}

/** Writes an event as several. Only the last one has the log probabilities and token IDs, because its tokens end there. */
async function writeParts(
  stream: EventStream,
  format: StreamFormat,
  event: Extract<GenerationEvent, { text: string }>,
): Promise<void> {
  let rest = event.text;
  while (rest.length > MAX_TEXT) {
    const part = { ...event, text: rest.slice(0, partLength(rest)) };
    if ('logprobs' in part) part.logprobs = null;
    delete part.tokenIds;
    await stream.write(format.event(part));
    rest = rest.slice(part.text.length);
  }
  await stream.write(format.event({ ...event, text: rest }));
}

/** Returns the length of the first part of a text, which does not end inside a surrogate pair. */
function partLength(text: string): number {
  return text.slice(0, MAX_TEXT).isWellFormed() ? MAX_TEXT : MAX_TEXT - 1;
}

/** The format of a stream. */
interface StreamFormat {
  event(event: GenerationEvent): string;
  /** The frames that end a response with an error. */
  error(error: ServiceError): string;
  /** Written at the end of the response. */
  end: string;
  options: Pick<EventStreamOptions, 'contentType' | 'keepAlive'>;
}

const FRAMES: StreamFormat = {
  event: formatFrame,
  error: formatErrorFrame,
  end: '',
  options: { contentType: EVENT_FRAMES, keepAlive: KEEP_ALIVE_FRAME },
};

function serverSentEvents(identity: ResponseIdentity, request: GenerationRequest): StreamFormat {
  const formatter = new StreamFormatter(identity, request);
  return {
    event: (event) => formatter.format(event),
    error: (error) => formatter.error(error),
    end: formatter.end,
    options: {},
  };
}

export function sendJson(response: ServerResponse, status: number, body: string): void {
  const bytes = Buffer.from(body);
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': bytes.length });
  response.end(bytes);
}

export function sendError(response: ServerResponse, cause: unknown, log: Log): void {
  const error = serviceError(cause, log);
  if (error.retryAfterMs !== undefined) {
    response.setHeader('Retry-After', Math.max(1, Math.ceil(error.retryAfterMs / 1000)));
    response.setHeader('Retry-After-Ms', error.retryAfterMs);
  }
  // Otherwise, the rest of an unread body would be parsed as the next request.
  if (!response.req.complete) response.setHeader('Connection', 'close');
  sendJson(response, error.status, errorBody(error));
}

/** Logs any error but a `ServiceError`, and converts it to `internal_error`. */
function serviceError(error: unknown, log: Log): ServiceError {
  if (error instanceof ServiceError) return error;
  log.error('the engine failed', { error: error instanceof Error ? error : String(error) });
  return new ServiceError('internal_error', 'The engine failed.', { cause: error });
}
