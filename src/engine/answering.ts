import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { GenerationRequest } from '../generation.ts';
import type { Log } from '../log.ts';
import { AnswerBuilder, type AnswerIdentity } from '../openai/answer.ts';
import { DONE, KEEP_ALIVE, StreamFormatter } from '../openai/stream.ts';
import { WriteQueue } from '../write-queue.ts';
import type { LocalEngine } from './engine.ts';
import { sendError, sendJson, serviceError } from './responses.ts';

/** Silence after which a comment says that steps are still being made, in milliseconds. */
const KEEP_ALIVE_MS = 10_000;

/** An engine whose last step is older than this is not said to be alive, in milliseconds. */
const STEP_AGE_MS = 30_000;

/** What one stream may gather within a turn of the event loop before it is written all the same, in characters. */
const PENDING_LIMIT = 65_536;

const STREAM_HEADERS = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-cache',
  'X-Accel-Buffering': 'no',
};

/** Answers generation requests of an engine's server: the engine's events become a stream or one body. */
export class Answering {
  readonly #engine: LocalEngine;
  readonly #log: Log;
  readonly #streams: OpenStreams = { open: new Set(), writes: new WriteQueue() };
  readonly #beat: NodeJS.Timeout;

  constructor(engine: LocalEngine, log: Log) {
    this.#engine = engine;
    this.#log = log;
    this.#beat = setInterval(() => this.#keepAlive(), KEEP_ALIVE_MS).unref();
  }

  /** Resolves when the answer has been handed to the connection, or its caller is gone. Never rejects. */
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

  stop(): void {
    clearInterval(this.#beat);
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
    const stream = new EventStream(response, this.#streams);
    try {
      for await (const event of this.#engine.generate(request, signal)) {
        stream.write(formatter.format(event));
        if (stream.full) await stream.drained(signal);
      }
      stream.end(DONE);
    } catch (error) {
      if (signal.aborted) return;
      if (stream.begun) stream.end(formatter.error(serviceError(error, this.#log)) + DONE);
      else sendError(response, error, this.#log);
    } finally {
      this.#streams.open.delete(stream);
    }
  }

  /** So that a client can tell a long prefill from an engine that is gone. */
  #keepAlive(): void {
    if ((this.#engine.health().lastStepAgeMs ?? 0) > STEP_AGE_MS) return;
    for (const stream of this.#streams.open) stream.keepAlive();
  }
}

/** All streams of a server. */
interface OpenStreams {
  readonly open: Set<EventStream>;
  readonly writes: WriteQueue;
}

/** One response as server-sent events. The status leaves with the first frame. */
class EventStream {
  readonly #response: ServerResponse;
  readonly #all: OpenStreams;
  #pending = '';
  #quiet = true;
  /** Whether the status has been decided: what fails later is told in the stream. */
  begun = false;
  /** Whether the connection takes no more until it has drained. */
  full = false;

  constructor(response: ServerResponse, all: OpenStreams) {
    this.#response = response;
    this.#all = all;
  }

  write(frames: string): void {
    if (!this.begun) {
      this.#begin();
      // The engine's word is due at once, even where no frame goes with it.
      if (frames === '') this.#response.flushHeaders();
    }
    if (frames === '') return;
    if (this.#pending === '') this.#all.writes.add(this);
    this.#pending += frames;
    if (this.#pending.length > PENDING_LIMIT) this.flush();
  }

  flush(): void {
    if (this.#pending === '' || this.#response.destroyed) return;
    this.full = !this.#response.write(this.#pending);
    this.#pending = '';
    this.#quiet = false;
  }

  end(frames: string): void {
    if (!this.begun) this.#begin();
    const last = this.#pending + frames;
    this.#pending = '';
    this.#response.end(last);
  }

  keepAlive(): void {
    if (this.#quiet) this.write(KEEP_ALIVE);
    this.#quiet = true;
  }

  /** Resolves when the connection takes more. Rejects when it is closed. */
  drained(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const response = this.#response;
      const settle = (): void => {
        response.off('drain', settle).off('close', settle);
        this.full = false;
        if (signal.aborted || response.destroyed) reject(new Error('the caller is gone'));
        else resolve();
      };
      response.on('drain', settle).on('close', settle);
    });
  }

  #begin(): void {
    this.begun = true;
    this.#response.writeHead(200, STREAM_HEADERS);
    this.#all.open.add(this);
  }
}
