import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { ServiceError } from '../errors.ts';
import { estimatedPromptTokens, type GenerationEvent, type GenerationRequest } from '../generation.ts';
import { readAnswer } from '../openai/answer-reader.ts';
import { readErrorBody } from '../openai/error-body.ts';
import { StreamReader } from '../openai/stream-reader.ts';
import { UsageMeter } from '../openai/usage-meter.ts';
import { firstMaxTokens, lowerMaxTokens, type ContextBound } from './max-tokens.ts';
import { EngineCrashed, ReplicaRefused, type ReplicaEvent } from './engine.ts';
import type { QuietWatch, Watched } from './quiet-watch.ts';

/** Bytes that may lie unread by the consumer before the replica is made to wait. */
const UNREAD_BYTES = 262_144;

/** Largest whole answer, and largest part of an error's body that is read, in bytes. */
const ANSWER_BYTES = 64 * 1024 * 1024;
const ERROR_BYTES = 65_536;

/** How long the connection may take to close an answer that is complete, in milliseconds. */
const TAIL_MS = 1000;

/** What a stream needs of its replica. */
export interface ReplicaLine {
  dispatcher: Dispatcher;
  watch: QuietWatch;
  firstByteMs: number;
  silenceMs: number;
  /** The request as the replica's dialect wants it. */
  write(
    request: GenerationRequest,
    maxTokens: number | null,
  ): { path: string; headers: string[]; body: string };
  /** Whether this answer comes as a stream, and what says that it has begun. */
  streamed: boolean;
  startedBy: 'chunk' | 'headers';
  /** Whether `started` says that the request has a slot; else `sent` comes before it. */
  reportsSlot: boolean;
  /** Whether usage on a chunk of one choice is that choice's own. */
  usagePerChoice: boolean;
  /** Of an embedded engine, whose connections break only when its process ends: how often it was started so far. */
  starts: (() => number) | undefined;
  readonly bound: ContextBound;
}

/**
 * One request at one replica: the handler of its HTTP exchange and the iterator of its events in one object,
 * since both are on the path of every token. Nothing happens before the first `next()`.
 *
 * `ReplicaRefused` means that the replica did not take the request: no connection, or 503 or 429 as the response.
 * A connection that was lost after the request was sent is not that, even where nothing came back: the replica may
 * be generating. It is `engine_unavailable`, as are silence, unreadable bytes, and an end that comes too early.
 */
export class ReplicaStream
  implements AsyncIterableIterator<ReplicaEvent>, Dispatcher.DispatchHandler, Watched
{
  readonly #line: ReplicaLine;
  readonly #request: GenerationRequest;
  /** The `max_tokens` last sent; null: none. */
  #maxTokens: number | null;
  readonly #signal: AbortSignal;
  #controller: Dispatcher.DispatchController | null = null;
  /** Of an embedded engine, when the request was sent. */
  #starts = 0;

  #state: 'new' | 'open' | 'over' = 'new';
  /** What `next` throws once the queue is empty; only of a stream that is over. */
  #failure: { reason: unknown } | null = null;
  #queue: ReplicaEvent[] = [];
  #head = 0;
  #waiting: PromiseWithResolvers<IteratorResult<ReplicaEvent, undefined>> | null = null;

  /** Status of the answer; 0 before it. */
  #status = 0;
  #reader: StreamReader | null = null;
  #parts: Buffer[] = [];
  #partBytes = 0;
  #retryAfterMs = 1000;
  #sent = false;
  #started = false;
  /** Whether `end` has been seen: the generation is complete, whatever the connection still does. */
  #complete = false;
  #unreadBytes = 0;

  quietTicks = 0;
  #heard = false;

  constructor(line: ReplicaLine, request: GenerationRequest, signal: AbortSignal) {
    this.#line = line;
    this.#request = request;
    this.#maxTokens = firstMaxTokens(request, line.bound);
    this.#signal = signal;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<ReplicaEvent, undefined>> {
    if (this.#head < this.#queue.length) {
      // The head is below the length.
      const value = this.#queue[this.#head++] as ReplicaEvent;
      if (this.#head === this.#queue.length) this.#drained();
      return Promise.resolve({ value, done: false });
    }
    if (this.#state === 'new') this.#open();
    if (this.#failure) {
      const { reason } = this.#failure;
      this.#failure = null;
      // A signal's reason can be anything; it is passed on as it is.
      // oxlint-disable-next-line typescript/prefer-promise-reject-errors
      return Promise.reject(reason);
    }
    if (this.#state === 'over' || this.#complete) return Promise.resolve({ value: undefined, done: true });
    this.#waiting = Promise.withResolvers();
    return this.#waiting.promise;
  }

  /** Ends the iteration early and closes the connection, which stops the generation. */
  return(): Promise<IteratorResult<ReplicaEvent, undefined>> {
    if (!this.#complete) this.#abandon(new Error('the response is no longer needed'));
    return Promise.resolve({ value: undefined, done: true });
  }

  /** The signal was aborted. */
  handleEvent(): void {
    this.#fail(this.#signal.reason);
  }

  onTick(tickMs: number): void {
    const quietMs = this.quietTicks * tickMs;
    if (!this.#controller || this.#controller.paused) this.quietTicks = 0;
    else if (this.#complete) {
      if (quietMs > TAIL_MS) this.#abandon(new Error('the connection did not close the response'));
    } else if (quietMs > (this.#heard ? this.#line.silenceMs : this.#line.firstByteMs)) {
      this.#fail(unavailable(`the replica sent no data for ${quietMs} ms`));
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.quietTicks = 0;
    if (this.#state === 'over') controller.abort(new Error('the request was canceled before it was sent'));
  }

  /** The connection is accepted and the whole request is written to it. */
  onRequestSent(): void {
    if (this.#line.reportsSlot || this.#sent) return;
    this.#sent = true;
    this.#deliver([{ type: 'sent', whole: !this.#line.streamed }]);
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    // An informational answer: the one that counts follows.
    if (status < 200) return;
    this.#status = status;
    if (status !== 200) {
      this.#retryAfterMs = retryAfterMs(headers);
    } else if (this.#line.streamed) {
      this.#reader = new StreamReader(this.#request.kind, this.#meter());
      if (this.#line.startedBy === 'headers') {
        this.#deliver([{ type: 'started', promptTokens: null, cachedTokens: null }]);
      }
    }
  }

  /** What the reader throws reaches `onResponseError` through the dispatcher, which closes the connection. */
  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.quietTicks = 0;
    this.#heard = true;
    if (this.#reader) {
      if (this.#complete) return;
      this.#unreadBytes += chunk.length;
      this.#read(this.#reader, chunk);
      if (this.#unreadBytes > UNREAD_BYTES && this.#head < this.#queue.length) controller.pause();
      return;
    }
    this.#partBytes += chunk.length;
    if (this.#partBytes <= (this.#status === 200 ? ANSWER_BYTES : ERROR_BYTES)) this.#parts.push(chunk);
    else if (this.#status === 200) throw unavailable(`the response has more than ${ANSWER_BYTES} bytes`);
  }

  onResponseEnd(): void {
    try {
      if (this.#reader) this.#read(this.#reader, null);
      else if (this.#status === 200)
        this.#deliver(readAnswer(this.#request.kind, this.#body(), this.#meter()));
      else {
        const fault = this.#refusal();
        if (this.#askForLess(fault)) return;
        this.#fail(fault);
      }
      if (this.#state !== 'over' && !this.#complete) throw unavailable('the response ended too early');
    } catch (error) {
      this.#fail(error);
    }
    this.#finish();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (error instanceof ServiceError) this.#fail(error);
    // Without a controller the request has never been on a connection.
    else if (!this.#controller) this.#fail(new ReplicaRefused(error));
    else if (this.#line.starts) this.#fail(new EngineCrashed(this.#starts, error));
    else
      this.#fail(
        unavailable(this.#status === 0 ? 'no response received' : 'the response was cut off', error),
      );
    this.#finish();
  }

  #open(): void {
    if (this.#signal.aborted) {
      this.#fail(this.#signal.reason);
      return;
    }
    this.#state = 'open';
    this.#signal.addEventListener('abort', this);
    this.#line.watch.add(this);
    this.#ask();
  }

  #ask(): void {
    this.#starts = this.#line.starts?.() ?? 0;
    const { path, headers, body } = this.#line.write(this.#request, this.#maxTokens);
    this.#line.dispatcher.dispatch({ method: 'POST', path, headers, body }, this);
  }

  /** Asks again with a lower `max_tokens` where the replica refused it as more than the prompt leaves of the context. */
  #askForLess(fault: ServiceError): boolean {
    if (this.#state !== 'open') return false;
    const maxTokens = lowerMaxTokens(this.#request, this.#maxTokens, fault, this.#line.bound);
    if (maxTokens === undefined) return false;
    this.#maxTokens = maxTokens;
    this.#controller = null;
    this.#status = 0;
    this.#parts = [];
    this.#partBytes = 0;
    this.#heard = false;
    this.#ask();
    return true;
  }

  /** Delivers what the bytes tell, or the end of them; what came before a fault counts, and then the fault. */
  #read(reader: StreamReader, chunk: Buffer | null): void {
    const events: GenerationEvent[] = [];
    try {
      if (chunk) reader.push(chunk, events);
      else if (!this.#complete) reader.end(events);
    } finally {
      this.#deliver(events);
    }
  }

  #deliver(events: ReplicaEvent[]): void {
    if (this.#state === 'over' || events.length === 0) return;
    let from = 0;
    if (events[0]?.type === 'started') {
      if (this.#started) from = 1;
      this.#started = true;
    }
    if (events.at(-1)?.type === 'end') {
      this.#complete = true;
      this.#signal.removeEventListener('abort', this);
    }
    if (this.#head < this.#queue.length) {
      for (let index = from; index < events.length; index++) this.#queue.push(events[index] as ReplicaEvent);
      return;
    }
    this.#queue = events;
    this.#head = from;
    if (this.#waiting && from < events.length) {
      const { resolve } = this.#waiting;
      this.#waiting = null;
      resolve({ value: events[this.#head++] as ReplicaEvent, done: false });
      if (this.#head === events.length) this.#unreadBytes = 0;
    }
  }

  /** The consumer has all there was: the replica may go on. */
  #drained(): void {
    this.#unreadBytes = 0;
    if (this.#controller?.paused) this.#controller.resume();
  }

  /** Ends the iteration with a reason, after the events that are queued unless the caller gave it up. */
  #fail(reason: unknown): void {
    if (this.#state === 'over' || this.#complete) return;
    if (this.#signal.aborted) this.#queue.length = this.#head = 0;
    if (this.#waiting) this.#waiting.reject(reason);
    else this.#failure = { reason };
    this.#waiting = null;
    this.#abandon(reason instanceof Error ? reason : new Error('the signal was aborted', { cause: reason }));
  }

  /** Closes the connection, unless the exchange is over anyway. */
  #abandon(why: Error): void {
    const exchanging = this.#state === 'open';
    this.#finish();
    if (exchanging) this.#controller?.abort(why);
    this.#waiting?.resolve({ value: undefined, done: true });
    this.#waiting = null;
  }

  /** The exchange is over: lets go of all that knows this stream. */
  #finish(): void {
    this.#state = 'over';
    this.#signal.removeEventListener('abort', this);
    this.#line.watch.delete(this);
  }

  #meter(): UsageMeter {
    const request = this.#request;
    return new UsageMeter({
      promptTokens: estimatedPromptTokens(request),
      echo: request.kind === 'text' && request.echo,
      perChoice: this.#line.usagePerChoice,
    });
  }

  #body(): string {
    return Buffer.concat(this.#parts).toString('utf8');
  }

  #refusal(): ServiceError {
    const fault = readErrorBody(this.#status, this.#body());
    const rateLimited = this.#status === 429;
    if (!rateLimited && this.#status !== 503) return fault;
    return new ReplicaRefused(fault, { retryAfterMs: this.#retryAfterMs, rateLimited });
  }
}

function unavailable(why: string, cause?: unknown): ServiceError {
  return new ServiceError('engine_unavailable', 'The replica of this model failed to respond.', {
    cause: new Error(why, { cause }),
    retryAfterMs: 1000,
  });
}

/** How long a replica asks to be left alone, in milliseconds: 1 s where it does not say, a minute at most. */
function retryAfterMs(headers: IncomingHttpHeaders): number {
  const ms = Number(headers['retry-after-ms'] ?? Number(headers['retry-after']) * 1000);
  return Number.isFinite(ms) && ms > 0 ? Math.min(ms, 60_000) : 1000;
}
