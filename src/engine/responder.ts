import type { ServerResponse } from 'node:http';
import { ServiceError } from '../errors.ts';
import { EventStream, WriteQueue, type EventStreamOptions } from '../event-stream.ts';
import type { GenerationEvent, GenerationRequest } from '../generation.ts';
import type { Log } from '../log.ts';
import { errorBody } from '../openai/error-body.ts';
import type { LocalEngine } from './engine.ts';
import { EVENT_FRAMES, formatErrorFrame, formatFrame, KEEP_ALIVE_FRAME } from './engine-protocol.ts';

/** Time without an event before a keep-alive frame, in milliseconds. */
const KEEP_ALIVE_MS = 10_000;

/** Age of the last step beyond which no keep-alive frame is sent, in milliseconds. */
const MAX_STEP_AGE_MS = 30_000;

/** Maximum text of an event in a stream, in characters. Longer texts, such as echoed prompts, are split. */
const MAX_TEXT = 65_536;

/** Writes the responses to generation requests. */
export class Responder {
  readonly #engine: LocalEngine;
  readonly #log: Log;
  readonly #writes = new WriteQueue();
  /** With the keep-alive frames, a service can distinguish a long prefill from a stuck engine. */
  readonly #streamOptions: EventStreamOptions = {
    holdMs: null,
    keepAliveMs: KEEP_ALIVE_MS,
    alive: () => (this.#engine.health().lastStepAgeMs ?? 0) <= MAX_STEP_AGE_MS,
    contentType: EVENT_FRAMES,
    keepAlive: KEEP_ALIVE_FRAME,
  };

  constructor(engine: LocalEngine, log: Log) {
    this.#engine = engine;
    this.#log = log;
  }

  /**
   * Responds with event frames. Resolves when the response has been written or the client has disconnected. Never rejects.
   */
  async respond(request: GenerationRequest, response: ServerResponse): Promise<void> {
    const disconnect = new AbortController();
    response.on('close', () => {
      if (!response.writableEnded) disconnect.abort();
    });
    using stream = new EventStream(response, this.#writes, this.#streamOptions);
    try {
      for await (const event of await this.#engine.generate(request, disconnect.signal)) {
        const drained =
          'text' in event && event.text.length > MAX_TEXT
            ? writeParts(stream, event)
            : stream.write(formatFrame(event));
        if (drained) await drained;
      }
      stream.end('');
    } catch (error) {
      if (disconnect.signal.aborted) return;
      if (stream.opened) stream.end(formatErrorFrame(serviceError(error, this.#log)));
      else sendError(response, error, this.#log);
    }
  }
}

/** Writes an event as several. Only the last one has the log probabilities and token IDs, because its tokens end there. */
async function writeParts(
  stream: EventStream,
  event: Extract<GenerationEvent, { text: string }>,
): Promise<void> {
  let rest = event.text;
  while (rest.length > MAX_TEXT) {
    const part = { ...event, text: rest.slice(0, partLength(rest)) };
    if ('logprobs' in part) part.logprobs = null;
    delete part.tokenIds;
    await stream.write(formatFrame(part));
    rest = rest.slice(part.text.length);
  }
  await stream.write(formatFrame({ ...event, text: rest }));
}

/** Returns the length of the first part of a text, which does not end inside a surrogate pair. */
function partLength(text: string): number {
  return text.slice(0, MAX_TEXT).isWellFormed() ? MAX_TEXT : MAX_TEXT - 1;
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
