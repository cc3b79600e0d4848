import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { EventStream, WriteQueue, type EventStreamOptions } from '../event-stream.ts';
import type { GenerationRequest } from '../generation.ts';
import type { Log } from '../log.ts';
import { AnswerBuilder, type AnswerIdentity } from '../openai/answer.ts';
import { DONE, StreamFormatter } from '../openai/stream.ts';
import type { LocalEngine } from './engine.ts';
import { sendError, sendJson, serviceError } from './responses.ts';

/** Silence after which a comment shows that the engine still makes steps, in milliseconds. */
const KEEP_ALIVE_MS = 10_000;

/** Age of the last step beyond which no keep-alive comment is sent, in milliseconds. */
const STEP_AGE_MS = 30_000;

/** Responds to the generation requests of an engine's server with a stream or one body. */
export class Answering {
  readonly #engine: LocalEngine;
  readonly #log: Log;
  readonly #writes = new WriteQueue();
  /** The keep-alive comments let a client tell a long prefill from an engine that has failed. */
  readonly #streamOptions: EventStreamOptions = {
    holdMs: null,
    keepAliveMs: KEEP_ALIVE_MS,
    alive: () => (this.#engine.health().lastStepAgeMs ?? 0) <= STEP_AGE_MS,
  };

  constructor(engine: LocalEngine, log: Log) {
    this.#engine = engine;
    this.#log = log;
  }

  /** Resolves when the response has been written, or its client disconnected. Never rejects. */
  async answer(request: GenerationRequest, response: ServerResponse): Promise<void> {
    const hangUp = new AbortController();
    response.on('close', () => {
      if (!response.writableEnded) hangUp.abort();
    });
    const identity = {
      id: `${request.kind === 'chat' ? 'chatcmpl' : 'cmpl'}-${randomUUID()}`,
      created: Math.floor(Date.now() / 1000),
      model: request.model,
    };
    if (request.stream) await this.#stream(request, response, identity, hangUp.signal);
    else await this.#whole(request, response, identity, hangUp.signal);
  }

  async #whole(
    request: GenerationRequest,
    response: ServerResponse,
    identity: AnswerIdentity,
    signal: AbortSignal,
  ): Promise<void> {
    const answer = new AnswerBuilder(identity, request);
    try {
      for await (const event of this.#engine.generate(request, signal)) answer.add(event);
      sendJson(response, 200, answer.body());
    } catch (error) {
      if (!signal.aborted) sendError(response, error, this.#log);
    }
  }

  async #stream(
    request: GenerationRequest,
    response: ServerResponse,
    identity: AnswerIdentity,
    signal: AbortSignal,
  ): Promise<void> {
    const formatter = new StreamFormatter(identity, request);
    using stream = new EventStream(response, this.#writes, this.#streamOptions);
    try {
      for await (const event of this.#engine.generate(request, signal)) {
        const drained = stream.write(formatter.format(event));
        if (drained) await drained;
      }
      stream.end(DONE);
    } catch (error) {
      if (signal.aborted) return;
      if (stream.opened) stream.end(formatter.error(serviceError(error, this.#log)) + DONE);
      else sendError(response, error, this.#log);
    }
  }
}
