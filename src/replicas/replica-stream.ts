import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import type { ConfigFile } from '../config/schema.ts';
import { ServiceError } from '../core/errors.ts';
import {
  CHARACTERS_PER_TOKEN,
  estimatedPromptTokens,
  tokenInputs,
  imagesOf,
  inputCount,
  isForText,
  promptTexts,
  totalChoices,
  type Dialect,
  type CompletionRequest,
  type GenerationKind,
  type GenerationRequest,
  echoedPrompts,
  toolsOf,
  UNKNOWN_CONTEXT,
  type EngineEvent,
  type GenerationEvent,
} from '../core/generation.ts';
import { LARGE_JSON, LARGE_LIST, readLargeResponse, writeLargeJson } from '../json/json-thread.ts';
import { readEmbeddings, readScores } from './wire/embedding-reader.ts';
import { invalidResponse } from '../core/invalid-response.ts';
import { readPackedResponse, readResponse, StreamReader } from './wire/response-reader.ts';
import {
  isAccessDenied,
  readErrorBody,
  readRefusedField,
  refusedFieldIn,
  type RefusableField,
} from './wire/replica-error.ts';
import { readPromptTokens } from '../core/error-body.ts';
import { EventTooLong, MAX_EVENT_BYTES } from '../support/sse.ts';
import { replicaKind } from './wire/replica-request.ts';
import { UsageMeter } from './wire/usage-meter.ts';
import type { DialectTraits } from './dialects.ts';
import { EventFrameReader } from './wire/event-frames.ts';
import type { ConnectionUser, ReplicaConnections } from './replica-connections.ts';
import {
  AccessDenied,
  ConnectionLost,
  EngineCrashed,
  noFreeSlot,
  ReplicaRefused,
  type ReplicaEvent,
  type SlotWait,
} from './replica.ts';

/** Unread bytes at which the connection is paused. */
const MAX_UNREAD_BYTES = 262_144;

/** Maximum size of a non-streaming response. Error bodies are read only up to `MAX_ERROR_BYTES`. */
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;
const MAX_ERROR_BYTES = 65_536;

/** Maximum size of a non-streaming response that is requested as a stream, which is several times as long. */
const MAX_COLLECTED_BYTES = 4 * MAX_RESPONSE_BYTES;

/**
 * Bounds of a stream, for each token that it may have. They only end streams that never stop: some servers split a token
 * into several chunks, and a token can be a long run of spaces.
 */
const MAX_PARTS_PER_TOKEN = 8;
const MAX_CHARACTERS_PER_TOKEN = 256;

/** Added to the tokens that a stream may have, because a short one may consist of unusual tokens. */
const EXTRA_TOKENS = 32;

/** Ticks without a response after which a lost connection was not stale: the replica may have worked on the request. */
const MAX_STALE_TICKS = 1;

/** Maximum time between the last event and the end of the HTTP response, in milliseconds. */
const CLOSE_TIMEOUT_MS = 1000;

export type ReplicaTimeouts = Pick<ConfigFile['engine'], 'firstByteMs' | 'responseMs' | 'silenceMs'>;

/** Settings shared by all streams of a replica. See `ReplicaOptions` for `starts`. */
export interface ReplicaStreamSettings extends ContextBound {
  dialect: Dialect;
  connections: ReplicaConnections;
  open: Set<ReplicaStream>;
  timeouts: ReplicaTimeouts;
  /** Only for embedded engines, whose connections break only when the process ends. */
  starts: (() => number) | undefined;
  traits: DialectTraits;
  /** Fields that the server has refused by name. Streams replace the set by a larger one. */
  refusedFields: ReadonlySet<RefusableField>;
  /** Formats the request for the replica's dialect. */
  format(
    request: GenerationRequest,
    streamed: boolean,
    maxTokens: number | null,
  ): { path: string; headers: string[]; body: object };
}

/**
 * One request on one replica. The class is both the HTTP handler and the iterator of events, because separate objects
 * would cost time for every token. The request is sent at the first `next()`. If its connection had been used before
 * and is lost at once, without a response, it is sent once more on a new one.
 *
 * Throws `ReplicaRefused` if it cannot connect and for the statuses 503 and 429, and `AccessDenied` for a refused key.
 * Throws `response_timeout` for a response that is not a stream and is not complete after `responseMs`, and
 * `response_too_large` for one, or an event, whose log probabilities exceed the maximum size. Throws
 * `engine_unavailable` for other timeouts, invalid data, a response that ends early or does not stop, and a connection
 * that is lost after the request was sent (the replica may be generating).
 */
export class ReplicaStream implements AsyncIterableIterator<ReplicaEvent>, ConnectionUser {
  readonly #settings: ReplicaStreamSettings;
  readonly #request: GenerationRequest;
  /** An estimate of its prompt tokens. */
  readonly #estimatedTokens: number;
  readonly #streamed: boolean;
  /** The `max_tokens` last sent; null if none was sent. */
  #maxTokens: number | null;
  /** Whether the response began with the refusal of a field that is now left out. The rest of it is ignored. */
  #isRefused = false;
  /** Fields that were left out of the request, because the server had refused them. */
  #leftOut: ReadonlySet<RefusableField>;
  /** Size of the request body. */
  #sentBytes = 0;
  readonly #signal: AbortSignal;
  readonly #wait: SlotWait | null;
  #controller: Dispatcher.DispatchController | null = null;
  /** Whether earlier requests have used the connection, so that the server may have closed it meanwhile. */
  #isReused = false;
  /** Whether the request was sent again because its connection was lost. */
  #sentAgain = false;
  /** Value of `starts` when the request was sent. */
  #starts = 0;

  #state: 'new' | 'open' | 'ended' = 'new';
  /** Thrown by `next` once the queue is empty. */
  #failure: { reason: unknown } | null = null;
  #queue: ReplicaEvent[] = [];
  #head = 0;
  #waiting: PromiseWithResolvers<IteratorResult<ReplicaEvent, undefined>> | null = null;

  /** Status of the response; 0 before it arrives. */
  #status = 0;
  #reader: StreamReader | EventFrameReader | null = null;
  #bodyParts: Buffer[] = [];
  #bodyBytes = 0;
  #retryAfterMs = 1000;
  #sentDelivered = false;
  #startedDelivered = false;
  #finishedChoices = 0;
  /** Whether `end` was received. The connection may still be open. */
  #complete = false;
  #unreadBytes = 0;

  /**
   * Ticks since the request was sent or the last progress, and since it was sent or the last event. There are no ticks
   * while this process is suspended.
   */
  #silentTicks = 0;
  #eventlessTicks = 0;
  #hasResponse = false;
  /** Most completion tokens that a stream has reported. */
  #tokens = 0;
  /** Its events, with chunks that only report more tokens, and the characters of its text. */
  #parts = 0;
  #characters = 0;
  /** Tokens that it may have. */
  #mostTokens: number;
  #hasReasoning = false;

  constructor(
    settings: ReplicaStreamSettings,
    request: GenerationRequest,
    streamed: boolean,
    signal: AbortSignal,
    wait: SlotWait | null = null,
  ) {
    this.#settings = settings;
    this.#request = request;
    this.#estimatedTokens = estimatedPromptTokens(request);
    this.#streamed = streamed;
    this.#maxTokens = firstMaxTokens(request, settings);
    this.#mostTokens = mostTokens(request, settings, request.maxTokens);
    this.#leftOut = settings.refusedFields;
    this.#signal = signal;
    this.#wait = wait;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Returns the next event if it has arrived already; null: `next` waits for it. */
  take(): IteratorYieldResult<ReplicaEvent> | null {
    if (this.#head === this.#queue.length) return null;
    const value = this.#queue[this.#head++] as ReplicaEvent;
    if (this.#head === this.#queue.length) {
      this.#unreadBytes = 0;
      if (this.#controller?.paused) this.#controller.resume();
    }
    return { value, done: false };
  }

  next(): Promise<IteratorResult<ReplicaEvent, undefined>> {
    const step = this.take();
    if (step !== null) return Promise.resolve(step);
    if (this.#state === 'new') this.#open();
    if (this.#failure) {
      const { reason } = this.#failure;
      this.#failure = null;
      // The reason of a signal can be any value.
      // oxlint-disable-next-line typescript/prefer-promise-reject-errors
      return Promise.reject(reason);
    }
    if (this.#state === 'ended' || this.#complete) return Promise.resolve({ value: undefined, done: true });
    this.#waiting = Promise.withResolvers();
    return this.#waiting.promise;
  }

  /** Closes the connection, which stops the generation. */
  return(): Promise<IteratorResult<ReplicaEvent, undefined>> {
    if (!this.#complete) this.#close(new Error('the response is no longer needed'));
    return Promise.resolve({ value: undefined, done: true });
  }

  /** Called when the signal is aborted. */
  handleEvent(): void {
    this.#fail(this.#signal.reason);
  }

  /** Counts a tick of `tickMs` milliseconds and enforces the timeouts. */
  onTick(tickMs: number): void {
    if (!this.#controller || this.#controller.paused) {
      this.#silentTicks = 0;
      return;
    }
    const { timeouts, traits } = this.#settings;
    const { firstByteMs, responseMs, silenceMs } = timeouts;
    const silentMs = ++this.#silentTicks * tickMs;
    const eventlessMs = ++this.#eventlessTicks * tickMs;
    // A response that is not a stream arrives when it is complete, so its first byte may take as long as the generation.
    const longestMs = this.#hasResponse ? silenceMs : this.#streamed ? firstByteMs : Infinity;
    if (this.#complete) {
      if (silentMs > CLOSE_TIMEOUT_MS) this.#close(new Error('the replica did not end its response'));
    } else if (silentMs > longestMs) {
      const isError = this.#status !== 0 && this.#status !== 200;
      this.#cutOff(
        isError ? this.#httpError() : unavailable(`the replica sent no output for ${silentMs} ms`),
      );
    } else if (!this.#streamed) {
      if (eventlessMs > responseMs) this.#fail(responseTimeout(this.#request, responseMs));
    } else if (traits.isEngine && this.#wait && !this.#startedDelivered) {
      // It waits for a slot in the engine. One that sends no keep-alive frames has failed, see above.
      const { waitedMs, maxWaitMs } = this.#wait;
      if (this.#hasResponse && waitedMs + eventlessMs > maxWaitMs) this.#fail(noFreeSlot(maxWaitMs));
    } else if (traits.isEngine && eventlessMs > Math.max(responseMs, firstByteMs)) {
      this.#cutOff(unavailable(`the engine sent no event for ${eventlessMs} ms`));
    }
  }

  onConnection(isReused: boolean): void {
    this.#isReused = isReused;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.#silentTicks = this.#eventlessTicks = 0;
    if (this.#state === 'ended') controller.abort(new Error('the request was canceled before it was sent'));
  }

  /** Called when the request has been written to a connection. */
  onRequestSent(): void {
    if (this.#settings.traits.isEngine || this.#sentDelivered) return;
    this.#sentDelivered = true;
    this.#deliver([{ type: 'sent', whole: !this.#streamed }]);
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    // An informational response. The final one follows.
    if (status < 200) return;
    this.#status = status;
    if (status !== 200) {
      this.#retryAfterMs = retryAfterMs(headers);
      // The whole body must arrive within `silenceMs`.
      this.#hasResponse = true;
      this.#silentTicks = 0;
    } else if (this.#streamed) {
      const { dialect, traits, contextTokens } = this.#settings;
      const maxBytes = maxEventBytes(this.#request, this.#sentBytes, contextTokens);
      this.#reader = traits.isEngine
        ? new EventFrameReader(maxBytes)
        : streamReader(this.#request, dialect, this.#usageMeter(), maxBytes);
      if (traits.startedBy === 'headers') {
        this.#deliver([{ type: 'started', promptTokens: null, cachedTokens: null }]);
      }
    }
  }

  /** If this throws, the dispatcher closes the connection and calls `onResponseError`. */
  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#status !== 200) {
      this.#bodyParts.push(chunk);
      this.#bodyBytes += chunk.length;
      if (this.#bodyBytes > MAX_ERROR_BYTES) this.#fail(this.#httpError());
      return;
    }
    if (this.#reader) {
      if (this.#complete || this.#isRefused) return;
      this.#limitCollected(chunk);
      this.#unreadBytes += chunk.length;
      try {
        this.#read(this.#reader, chunk);
      } catch (error) {
        // vLLM checks a streamed request after it has responded with 200.
        this.#isRefused =
          error instanceof ServiceError && this.#parts === 0 && this.#leaveOut(refusedFieldIn(error.message));
        if (!this.#isRefused) throw error;
        this.#unreadBytes = 0;
        return;
      }
      if (this.#unreadBytes > MAX_UNREAD_BYTES && this.#head < this.#queue.length) controller.pause();
      return;
    }
    this.#silentTicks = 0;
    this.#hasResponse = true;
    this.#limitBody(chunk, MAX_RESPONSE_BYTES);
    this.#bodyParts.push(chunk);
  }

  /** Limits the size of a non-streaming response that arrives as events, because they are collected in memory. */
  #limitCollected(chunk: Buffer): void {
    const { stream } = this.#request;
    if (!isForText(this.#request)) this.#limitBody(chunk, MAX_RESPONSE_BYTES);
    // The service's own engines end texts at the context length.
    else if (!stream && !this.#settings.traits.isEngine) this.#limitBody(chunk, MAX_COLLECTED_BYTES);
  }

  /** Counts the bytes of a body. Throws if there are more than `most`. */
  #limitBody(chunk: Buffer, most: number): void {
    this.#bodyBytes += chunk.length;
    if (this.#bodyBytes <= most) return;
    throw tooLarge(this.#request, most);
  }

  onResponseEnd(): void {
    if (this.#isRefused) return this.#sendAgain();
    try {
      if (this.#reader) this.#read(this.#reader, null);
      else if (this.#status === 200) {
        if (this.#readWhole()) return;
      } else {
        const error = this.#httpError();
        if (this.#retryWithFewerTokens(error) || this.#retryWithoutRefusedField()) return;
        this.#fail(error);
      }
      if (this.#state !== 'ended' && !this.#complete) throw unavailable('the response ended too early');
    } catch (error) {
      this.#fail(error);
    }
    this.#finish();
  }

  /** Delivers the events of a whole response. Returns whether they are read in the background. */
  #readWhole(): boolean {
    const request = this.#request;
    if (request.kind === 'embedding') {
      void this.#readInBackground((body) => readEmbeddings(request, body));
      return true;
    }
    if (request.kind === 'rerank') {
      void this.#readInBackground((body) => readScores(request, body));
      return true;
    }
    const meter = this.#usageMeter();
    if (this.#bodyBytes >= LARGE_LIST) {
      void this.#readInBackground((body) => readLarge(request, body, meter));
      return true;
    }
    this.#deliver(readResponse(request.kind, this.#body(), meter, totalChoices(request)));
    return false;
  }

  #usageMeter(): UsageMeter {
    return new UsageMeter({
      promptTokens: this.#estimatedTokens,
      echo: echoedPrompts(this.#request).length > 0,
      perChoice: this.#settings.traits.usagePerChoice,
      earlier: this.#request.continuation?.usage ?? null,
    });
  }

  async #readInBackground(read: (body: Buffer<ArrayBuffer>) => Promise<GenerationEvent[]>): Promise<void> {
    try {
      this.#deliver(await read(Buffer.concat(this.#bodyParts.splice(0))));
    } catch (error) {
      this.#fail(error);
    }
    this.#finish();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (error instanceof ServiceError) this.#fail(error);
    // Without a controller, the request was never sent.
    else if (!this.#controller && !this.#sentAgain) this.#fail(new ReplicaRefused(error));
    else if (this.#settings.starts) this.#fail(new EngineCrashed(this.#starts, error));
    else if (this.#state === 'open' && this.#wasStale) {
      this.#sentAgain = true;
      this.#sendAgain();
      return;
    } else {
      const reason = this.#status === 0 ? 'no response received' : 'the response was cut off';
      this.#cutOff(new ConnectionLost(new Error(reason, { cause: error })));
    }
    this.#finish();
  }

  get #allFinished(): boolean {
    return this.#finishedChoices === totalChoices(this.#request);
  }

  /** Ends the iteration: with the usage so far if only the usage can be missing, otherwise with an error. */
  #cutOff(error: ServiceError): void {
    try {
      if (this.#reader && this.#allFinished) this.#read(this.#reader, null);
    } catch {
      // The service's own engines send the end with the usage.
    }
    if (this.#complete) this.#close(error);
    else this.#fail(error);
  }

  /** Whether the server had probably closed the connection while it was idle, so that it has not seen the request. */
  get #wasStale(): boolean {
    return this.#isReused && this.#status === 0 && this.#silentTicks <= MAX_STALE_TICKS;
  }

  #open(): void {
    if (this.#signal.aborted) {
      this.#fail(this.#signal.reason);
      return;
    }
    this.#state = 'open';
    this.#signal.addEventListener('abort', this);
    this.#settings.open.add(this);
    this.#send();
  }

  #send(): void {
    this.#leftOut = this.#settings.refusedFields;
    const { path, headers, body } = this.#settings.format(this.#request, this.#streamed, this.#maxTokens);
    const dispatch = (bytes: Uint8Array): void => {
      // The stream may have been closed meanwhile.
      if (this.#state !== 'open') return;
      this.#starts = this.#settings.starts?.() ?? 0;
      this.#sentBytes = bytes.length;
      const options = { method: 'POST', path, headers, body: bytes } as const;
      if (this.#sentAgain) this.#settings.connections.dispatchOnNew(options, this);
      else this.#settings.connections.dispatch(options, this);
    };
    if (!hasLargeBody(this.#request, this.#estimatedTokens)) {
      dispatch(Buffer.from(JSON.stringify(body)));
    } else {
      writeLargeJson(body)
        .then(dispatch)
        .catch((error: unknown) => this.#fail(error));
    }
  }

  /**
   * Sends the request again with a lower `max_tokens` if the server refused it as too long for the context. Returns
   * whether the request was sent again.
   */
  #retryWithFewerTokens(error: ServiceError): boolean {
    if (this.#state !== 'open') return false;
    const maxTokens = lowerMaxTokens(this.#request, this.#maxTokens, error, this.#settings);
    if (maxTokens === undefined) return false;
    this.#maxTokens = maxTokens;
    this.#sendAgain();
    return true;
  }

  /**
   * Sends the request again without a field that the server refused by name. Returns whether the request was sent
   * again.
   */
  #retryWithoutRefusedField(): boolean {
    if (this.#settings.traits.adaptsFields.length === 0) return false;
    if (!this.#leaveOut(readRefusedField(this.#status, this.#body()))) return false;
    this.#sendAgain();
    return true;
  }

  /** Leaves a field out of all later requests. Returns false if the server may not refuse it, or it was left out already. */
  #leaveOut(field: RefusableField | null): boolean {
    const settings = this.#settings;
    if (this.#state !== 'open' || field === null || this.#leftOut.has(field)) return false;
    if (!settings.traits.adaptsFields.includes(field)) return false;
    settings.refusedFields = new Set([...settings.refusedFields, field]);
    return true;
  }

  #sendAgain(): void {
    this.#controller = null;
    this.#status = 0;
    this.#reader = null;
    this.#isRefused = false;
    this.#bodyParts = [];
    this.#bodyBytes = 0;
    this.#hasResponse = false;
    this.#send();
  }

  /**
   * Parses a chunk, or the end of the response if `chunk` is null, and delivers the events. If parsing throws, the
   * events before the error are still delivered. Throws if the response does not stop.
   */
  #read(reader: StreamReader | EventFrameReader, chunk: Buffer | null): void {
    const events: EngineEvent[] = [];
    const wasFinished = this.#allFinished;
    try {
      if (chunk) reader.push(chunk, events);
      else if (!this.#complete) reader.end(events);
    } catch (error) {
      throw this.#request.logprobs !== null && isTooLong(error) ? eventTooLarge() : error;
    } finally {
      this.#deliver(events);
    }
    // After the last choice, only the usage may follow.
    if (!wasFinished) this.#recordProgress(reader.completionTokens, events);
  }

  /**
   * Comments and empty chunks are no progress: some servers send them forever. More tokens without an event are, because
   * servers hold back parts of a call. The service's own engines send keep-alive frames only while they make steps.
   */
  #recordProgress(tokens: number, events: readonly EngineEvent[]): void {
    if (events.length > 0) this.#eventlessTicks = 0;
    const isPrefill = events.at(-1)?.type === 'prefill';
    if (isPrefill) this.#silentTicks = 0;
    const parts = isPrefill ? 0 : Math.max(events.length, Number(tokens > this.#tokens));
    if (parts === 0 && !this.#settings.traits.isEngine) return;
    this.#silentTicks = 0;
    this.#hasResponse = true;
    this.#tokens = Math.max(this.#tokens, tokens);
    this.#parts += parts;
    const most = this.#mostTokens;
    if (this.#parts > MAX_PARTS_PER_TOKEN * most || this.#characters > MAX_CHARACTERS_PER_TOKEN * most) {
      throw endless(`${this.#parts} parts with ${this.#characters} characters received`);
    }
  }

  #observe(event: ReplicaEvent): void {
    switch (event.type) {
      case 'finish':
        this.#finishedChoices++;
        // Servers also report sequences of their own settings here.
        if (!this.#request.stop.some((sequence) => sequence === event.stopSequence))
          event.stopSequence = null;
        return;
      case 'reasoning':
        // Some providers do not count reasoning against `max_tokens`.
        if (!this.#hasReasoning) this.#mostTokens = mostTokens(this.#request, this.#settings, null);
        this.#hasReasoning = true;
        this.#characters += event.text.length;
        return;
      case 'token':
      case 'tool-arguments':
        this.#characters += event.text.length;
        return;
      case 'sent':
      case 'started':
      case 'prefill':
      case 'tool-call':
      case 'embedding':
      case 'score':
      case 'end':
    }
  }

  #deliver(events: ReplicaEvent[]): void {
    if (this.#state === 'ended' || events.length === 0) return;
    let from = 0;
    if (events[0]?.type === 'started') {
      if (this.#startedDelivered) from = 1;
      this.#startedDelivered = true;
    }
    // The iterator of an array would allocate memory for each event.
    for (let index = 0; index < events.length; index++) this.#observe(events[index] as ReplicaEvent);
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

  /** Ends the iteration with an error. Queued events are delivered first, unless the signal was aborted. */
  #fail(reason: unknown): void {
    if (this.#state === 'ended' || this.#complete) return;
    if (this.#signal.aborted) this.#queue.length = this.#head = 0;
    if (this.#waiting) this.#waiting.reject(reason);
    else this.#failure = { reason };
    this.#waiting = null;
    this.#close(reason instanceof Error ? reason : new Error('the signal was aborted', { cause: reason }));
  }

  /** Closes the connection if it is open, and ends the iteration. */
  #close(reason: Error): void {
    const wasOpen = this.#state === 'open';
    this.#finish();
    if (wasOpen) this.#controller?.abort(reason);
    this.#waiting?.resolve({ value: undefined, done: true });
    this.#waiting = null;
  }

  /** Marks the stream as ended and removes all references to it. */
  #finish(): void {
    this.#state = 'ended';
    this.#signal.removeEventListener('abort', this);
    this.#settings.open.delete(this);
  }

  #body(): string {
    return Buffer.concat(this.#bodyParts).toString('utf8');
  }

  #httpError(): ServiceError {
    const body = this.#body();
    const read = readErrorBody(this.#status, body);
    // The service's own engines take token IDs.
    const error = this.#settings.traits.isEngine ? read : explained(this.#request, read);
    if (isAccessDenied(this.#status, body)) return new AccessDenied(error);
    const rateLimited = this.#status === 429;
    if (!rateLimited && this.#status !== 503) return error;
    return new ReplicaRefused(error, { retryAfterMs: this.#retryAfterMs, rateLimited });
  }
}

/** Reads a whole response on a thread. Throws `engine_unavailable`. */
async function readLarge(
  request: CompletionRequest,
  body: Uint8Array<ArrayBuffer>,
  meter: UsageMeter,
): Promise<GenerationEvent[]> {
  const packed = await readLargeResponse(body).catch((cause: unknown) => {
    throw invalidResponse(cause);
  });
  return readPackedResponse(request.kind, packed, meter, totalChoices(request));
}

/** Whether the body of a request is so large that it must be written on a thread. */
export function hasLargeBody(
  request: GenerationRequest,
  estimatedTokens = estimatedPromptTokens(request),
): boolean {
  const characters = imagesOf(request).reduce(
    (sum, { url }) => sum + url.length,
    estimatedTokens * CHARACTERS_PER_TOKEN,
  );
  return characters >= LARGE_JSON;
}

/** Adds what to do if a server takes only texts: the message of such a server does not say it. */
function explained(request: GenerationRequest, error: ServiceError): ServiceError {
  if (error.code !== 'invalid_value' || tokenInputs(request).length === 0) return error;
  const message = `${error.message} If the server of this model takes only texts, send texts instead of token IDs. In LangChain, set \`check_embedding_ctx_length=False\`.`;
  return new ServiceError(error.code, message, { param: 'input', cause: error.cause });
}

function unavailable(reason: string, cause?: unknown): ServiceError {
  return new ServiceError('engine_unavailable', 'The replica of this model failed to respond.', {
    cause: new Error(reason, { cause }),
    retryAfterMs: 1000,
  });
}

function endless(reason: string): ServiceError {
  return new ServiceError(
    'engine_unavailable',
    'The replica of this model did not stop at the maximum length of the response.',
    { cause: new Error(reason), retryAfterMs: 1000 },
  );
}

/** The request may need this long on any replica, so it is not retried. */
function responseTimeout(request: GenerationRequest, responseMs: number): ServiceError {
  const advice = isForText(request)
    ? 'Set `stream` to true, or lower `max_tokens`.'
    : 'Send fewer inputs in a request.';
  return new ServiceError(
    'response_timeout',
    `The response was not complete after ${Math.ceil(responseMs / 1000)} s. ${advice}`,
  );
}

/** Log probabilities and vectors can make a valid response this long, and it would be as long on any replica. */
function tooLarge(request: GenerationRequest, most: number): ServiceError {
  const forText = isForText(request);
  if (forText && request.logprobs === null) return unavailable(`the response has more than ${most} bytes`);
  const advice = forText
    ? 'Set `stream` to true, or request fewer log probabilities, choices or tokens.'
    : 'Send fewer inputs in a request.';
  const size = `The response has more than ${most / 1_048_576} MiB.`;
  return new ServiceError('response_too_large', `${size} ${advice}`);
}

/** vLLM joins the tokens that it could not send, because the stream was read slowly, into one event. */
function eventTooLarge(): ServiceError {
  return new ServiceError(
    'response_too_large',
    'The log probabilities of tokens that were not read in time are too large. Read the stream faster, or request fewer log probabilities.',
  );
}

function isTooLong(error: unknown): boolean {
  return error instanceof ServiceError && error.cause instanceof EventTooLong;
}

/** Returns the time after which to retry, in milliseconds: 1 s by default, at most a minute. */
function retryAfterMs(headers: IncomingHttpHeaders): number {
  const after = headers['retry-after'] ?? '';
  // `Retry-After` is a number of seconds or a date.
  const afterMs = /^[\d.]+$/.test(after) ? Number(after) * 1000 : Date.parse(after) - Date.now();
  const valid = [Number(headers['retry-after-ms']), afterMs].find((ms) => ms > 0);
  return Math.min(valid ?? 1000, 60_000);
}

/**
 * Returns the maximum size of one event of a replica, in bytes. An event may repeat the whole prompt (`echo`), or have
 * the IDs of all tokens of the prompt (vLLM), or of the completion, if its text was held back. `sentBytes`: size of the
 * request. `contextTokens`: null if it is not known.
 */
function maxEventBytes(request: GenerationRequest, sentBytes: number, contextTokens: number | null): number {
  // A token has at least one byte.
  const tokens = Math.max(sentBytes, contextTokens ?? 0);
  const { logprobs } = request;
  const repeatsLogprobs = logprobs !== null && echoedPrompts(request).length > 0;
  return MAX_EVENT_BYTES + tokens * (repeatsLogprobs ? LOGPROB_BYTES * (logprobs + 2) : TOKEN_BYTES);
}

/** Maximum size of a token ID with its comma, or of one byte of text in JSON. */
const TOKEN_BYTES = 8;

/** Maximum size of a log probability with its short token. A token has its own, and those of its alternatives. */
const LOGPROB_BYTES = 64;

/** Creates the reader of a replica's server-sent events. `maxBytes`: maximum size of an event. */
function streamReader(
  request: GenerationRequest,
  dialect: Dialect,
  meter: UsageMeter,
  maxBytes: number,
): StreamReader {
  const offered = toolsOf(request).map(({ name }) => name);
  return new StreamReader(replicaKind(request, dialect), meter, offered, maxBytes, totalChoices(request));
}

/** Returns how many tokens, vectors or scores a response may have, over all choices, including repeated prompts and some more. */
function mostTokens(
  request: GenerationRequest,
  { contextTokens }: Pick<ContextBound, 'contextTokens'>,
  maxTokens: number | null,
): number {
  const context = contextTokens ?? UNKNOWN_CONTEXT;
  const repeated = echoedPrompts(request).reduce((sum, prompt) => sum + prompt.length, 0);
  const choices = Math.min(maxTokens ?? context, context) * totalChoices(request);
  return choices + repeated * request.choices + inputCount(request) + EXTRA_TOKENS;
}

/** The properties of a replica that determine the `max_tokens` sent to it. */
interface ContextBound {
  traits: Pick<DialectTraits, 'needsMaxTokens' | 'defaultsToFullContext' | 'reservedTokens' | 'continues'>;
  /** The replica's context length; null if it is not known. */
  contextTokens: number | null;
}

/**
 * Returns the `max_tokens` to send in the first attempt, or null to send none. The caller's value is reduced to the
 * context length. If the caller sent none, returns the context length for servers that would otherwise apply a limit of
 * their own.
 */
function firstMaxTokens(
  { kind, maxTokens: maximum, continuation }: GenerationRequest,
  { traits, contextTokens }: ContextBound,
): number | null {
  let maxTokens = maximum;
  // A server that continues from token IDs counts the earlier tokens as part of the prompt.
  if (continuation !== null && traits.continues === 'tokens') {
    const earlier = continuation.tokenIds.length;
    const prompt = (continuation.promptTokenIds?.length ?? 0) + earlier;
    const remaining = Math.min((maxTokens ?? Infinity) - earlier, (contextTokens ?? Infinity) - prompt);
    return remaining === Infinity ? null : Math.max(1, remaining);
  }
  if (continuation !== null && traits.continues === 'text' && maxTokens !== null) {
    maxTokens = Math.max(1, maxTokens - continuation.usage.completionTokens);
  }
  if (maxTokens !== null) return Math.min(maxTokens, contextTokens ?? Infinity);
  return traits.needsMaxTokens.includes(kind) ? contextTokens : null;
}

/**
 * Returns the `max_tokens` to send in the next attempt, after the server refused `sent` as too large for the context.
 * If the error reports the prompt's exact token count, returns the number of tokens left in the context. Null means to
 * send none, and undefined means not to retry. A number is always smaller than `sent`, so retries end.
 */
function lowerMaxTokens(
  request: GenerationRequest,
  sent: number | null,
  refusal: ServiceError,
  { traits, contextTokens }: ContextBound,
): number | null | undefined {
  if (refusal.code !== 'context_length_exceeded' || sent === null) return undefined;
  // The prompt is known in tokens, so the first attempt asked for no more than what is left in the context.
  if (request.continuation !== null && traits.continues === 'tokens') return undefined;
  const prompt = readPromptTokens(refusal);
  if (prompt !== null && contextTokens !== null) {
    const remaining = contextTokens - prompt.tokens - traits.reservedTokens;
    if (remaining < 1) return undefined;
    if (prompt.exact) return remaining < sent ? remaining : undefined;
  }
  if (traits.defaultsToFullContext.includes(request.kind)) return null;
  if (!HAS_CLOSE_BOUND[request.kind] || contextTokens === null) return undefined;
  // A token has at least one byte, and the server may add one token before the text.
  const longest = Math.max(...promptTexts(request).map((prompt) => Buffer.byteLength(prompt))) + 1;
  const remaining = contextTokens - longest - traits.reservedTokens;
  return remaining >= 1 && remaining < sent ? remaining : undefined;
}

/** Whether the texts of the prompts bound their tokens. Templates add to those of a chat. */
const HAS_CLOSE_BOUND: Readonly<Record<GenerationKind, boolean>> = {
  chat: false,
  text: true,
  embedding: false,
  rerank: false,
};
