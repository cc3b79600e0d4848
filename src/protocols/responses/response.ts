import { type ErrorCode, ServiceError } from '../../core/errors.ts';
import {
  isCutOff,
  type FinishReason,
  type GenerationEvent,
  type TokenLogprob,
  type Usage,
} from '../../core/generation.ts';
import { CHARACTER_BYTES } from '../../json/json-heap.ts';
import { tokenLogprobs } from '../openai/logprobs.ts';
import type { ResponseStream, WholeResponse } from '../../core/protocol.ts';
import {
  CallItem,
  CustomCallItem,
  eventStart,
  MessageItem,
  ReasoningItem,
  type Emit,
  type Item,
} from './items.ts';
import type { ResponsesRequest } from './request.ts';

/** Builds a response that is not a stream. */
export class ResponseBuilder implements WholeResponse {
  readonly #writer: ResponseWriter;

  constructor(request: ResponsesRequest, requestId: string) {
    this.#writer = new ResponseWriter(request, requestId, null);
  }

  add(event: GenerationEvent): void {
    this.#writer.add(event);
  }

  get heldBytes(): number {
    return this.#writer.heldBytes;
  }

  body(): string {
    return this.#writer.ended;
  }
}

/** Formats the events of a response as server-sent events. Each has a sequence number. */
export class ResponseEvents implements ResponseStream {
  /** The last event has the whole response. */
  readonly end = '';
  readonly #writer: ResponseWriter;
  #frames = '';
  #sequence = 0;

  constructor(request: ResponsesRequest, requestId: string) {
    this.#writer = new ResponseWriter(request, requestId, (start, members) => {
      this.#frames += `${start}${this.#sequence++},${members}}\n\n`;
    });
  }

  get heldBytes(): number {
    return this.#writer.heldBytes;
  }

  format(event: GenerationEvent): string {
    this.#writer.add(event);
    return this.#take();
  }

  /** Timers of clients, such as Codex, are only reset by events. Clients ignore the type `keepalive`, as OpenAI sends it. */
  keepAlive(): string {
    if (!this.#writer.begun) this.#writer.begin();
    else this.#frames += frame('keepalive', { sequence_number: this.#sequence++ });
    return this.#take();
  }

  error(error: ServiceError, usage: Usage): string {
    this.#writer.fail(error, usage);
    return this.#take();
  }

  #take(): string {
    const frames = this.#frames;
    this.#frames = '';
    return frames;
  }
}

/** The beginning of the data of each event. */
const NUMBERED = /^data: \{"type":"[^"]*","sequence_number":(\d+)/gm;

/** Formats an error that belongs to no event of a response. `sent`: the last frames before it. */
export function errorFrame(error: ServiceError, sent: string): string {
  const { message, param } = error;
  const last = sent.matchAll(NUMBERED).toArray().at(-1)?.[1] ?? '-1';
  return frame('error', { sequence_number: Number(last) + 1, code: failureCode(error), message, param });
}

function frame(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}

/** Writes the response to one request: its events, and the response with the items so far. */
class ResponseWriter {
  /** The JSON of the complete response, after the event `end`. */
  ended = '';
  /** About how much memory the items take. */
  heldBytes = 0;
  #logprobCharacters = 0;
  readonly #request: ResponsesRequest;
  readonly #emit: Emit | null;
  readonly #hex: string;
  readonly #createdAt = Math.floor(Date.now() / 1000);
  /** The items that ended, as JSON. */
  readonly #items: string[] = [];
  #open: Item | null = null;
  #begun = false;
  #reason: FinishReason = 'stop';

  /** `emit` is null if the response is not a stream. */
  constructor(request: ResponsesRequest, requestId: string, emit: Emit | null) {
    this.#request = request;
    this.#emit = emit;
    this.#hex = requestId.replaceAll('-', '');
  }

  get begun(): boolean {
    return this.#begun;
  }

  /** Emits the first events, once. */
  begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    if (this.#emit === null) return;
    const response = this.#response('in_progress', null);
    this.#emitResponse('response.created', response);
    this.#emitResponse('response.in_progress', response);
  }

  add(event: GenerationEvent): void {
    switch (event.type) {
      case 'started':
        this.begin();
        break;
      case 'token':
        this.#addText(event.text, event.logprobs);
        break;
      case 'reasoning':
        if (event.text === '') break;
        this.#hold(event.text);
        this.#reasoning().add(event.text);
        break;
      case 'tool-call':
        this.#startCall(event.id, event.name);
        break;
      case 'tool-arguments':
        this.#hold(event.text);
        if (this.#open instanceof CallItem || this.#open instanceof CustomCallItem)
          this.#open.add(event.text);
        break;
      case 'finish':
        this.#reason = event.reason;
        break;
      case 'end':
        this.#end(event.usage);
        break;
      case 'embedding':
    }
  }

  /** Emits the last event of a response that failed. It has the items so far, the last one incomplete. */
  fail(error: ServiceError, usage: Usage): void {
    this.begin();
    const open = this.#open === null ? [] : [this.#open.json('incomplete')];
    const failure = { code: failureCode(error), message: error.message };
    this.#emitResponse('response.failed', this.#response('failed', usage, failure, open));
  }

  #addText(text: string, logprobs: readonly TokenLogprob[] | null): void {
    const { logprobs: alternatives } = this.#request.generation;
    if (alternatives === null || logprobs === null) {
      if (text === '') return;
      this.#hold(text);
      this.#message().add(text, '');
      return;
    }
    const items = JSON.stringify(tokenLogprobs(logprobs, alternatives)).slice(1, -1);
    this.#logprobCharacters += items.length;
    if (this.#logprobCharacters > MAX_LOGPROB_CHARACTERS) throw tooManyLogprobs();
    this.#hold(text);
    this.#hold(items);
    this.#message().add(text, items);
  }

  #hold(text: string): void {
    this.heldBytes += CHARACTER_BYTES * text.length;
  }

  #message(): MessageItem {
    if (this.#open instanceof MessageItem) return this.#open;
    return this.#start((emit, index) => new MessageItem(emit, this.#id('msg', index), index));
  }

  #reasoning(): ReasoningItem {
    if (this.#open instanceof ReasoningItem) return this.#open;
    return this.#start(
      (emit, index) => new ReasoningItem(emit, this.#id('rs', index), index, this.#request.seal),
    );
  }

  #startCall(callId: string, name: string): void {
    const identity = this.#request.tooling.identities.get(name) ?? {
      type: 'function',
      name,
      namespace: null,
    };
    this.#start<Item>((emit, index) =>
      identity.type === 'custom'
        ? new CustomCallItem(emit, this.#id('ctc', index), index, callId, identity)
        : new CallItem(emit, this.#id('fc', index), index, callId, identity),
    );
  }

  /** Ends the open item and begins the next one. */
  #start<I extends Item>(create: (emit: Emit | null, index: number) => I): I {
    this.#close('completed');
    const item = create(this.#emit, this.#items.length);
    this.#open = item;
    item.begin();
    return item;
  }

  #close(status: 'completed' | 'incomplete'): void {
    if (this.#open === null) return;
    this.#items.push(this.#open.end(status));
    this.#open = null;
  }

  #end(usage: Usage): void {
    // A response without any output is an empty message, as in chats.
    if (this.#items.length === 0 && this.#open === null) this.#message();
    const cutOff = isCutOff(this.#reason);
    this.#close(cutOff ? 'incomplete' : 'completed');
    const status = cutOff ? 'incomplete' : 'completed';
    this.ended = this.#response(status, usage);
    this.#emitResponse(`response.${status}`, this.ended);
  }

  #id(prefix: string, index: number): string {
    return `${prefix}_${this.#hex}${index}`;
  }

  #emitResponse(type: string, response: string): void {
    this.#emit?.(eventStart(type), `"response":${response}`);
  }

  /** Returns the response so far as JSON. `open`: items that did not end. */
  #response(
    status: string,
    usage: Usage | null,
    error: object | null = null,
    open: readonly string[] = [],
  ): string {
    const completedAt = status === 'completed' ? Math.floor(Date.now() / 1000) : null;
    const incomplete = status === 'incomplete' ? `{"reason":"${incompleteReason(this.#reason)}"}` : null;
    return (
      `{"id":"resp_${this.#hex}","object":"response","created_at":${this.#createdAt},"completed_at":${completedAt},` +
      `"status":"${status}","error":${JSON.stringify(error)},"incomplete_details":${incomplete},` +
      `"model":${JSON.stringify(this.#request.generation.model)},"output":[${[...this.#items, ...open].join(',')}],` +
      `${this.#request.echo.json},"usage":${usage === null ? null : usageJson(usage)}}`
    );
  }
}

/**
 * Maximum length of all log probabilities, in characters: about 5,000 tokens with 20 alternatives. The last events of a
 * stream repeat them four times.
 */
const MAX_LOGPROB_CHARACTERS = 8 * 1024 * 1024;

function tooManyLogprobs(): ServiceError {
  return new ServiceError(
    'response_too_large',
    `The log probabilities have more than ${MAX_LOGPROB_CHARACTERS / 1_048_576} MiB. Request fewer log probabilities or tokens.`,
  );
}

function incompleteReason(reason: FinishReason): string {
  return reason === 'content_filter' ? reason : 'max_output_tokens';
}

function usageJson({ promptTokens, completionTokens, cachedTokens, reasoningTokens }: Usage): string {
  return (
    `{"input_tokens":${promptTokens},"input_tokens_details":{"cached_tokens":${cachedTokens}},` +
    `"output_tokens":${completionTokens},"output_tokens_details":{"reasoning_tokens":${reasoningTokens}},` +
    `"total_tokens":${promptTokens + completionTokens}}`
  );
}

/** The codes of OpenAI's API for errors of a stream. Clients decide by them whether to try again. */
const FAILURES: Partial<Record<ErrorCode, string>> = {
  context_length_exceeded: 'context_length_exceeded',
  insufficient_quota: 'insufficient_quota',
  requests_per_minute: 'rate_limit_exceeded',
  tokens_per_minute: 'rate_limit_exceeded',
  concurrent_requests: 'rate_limit_exceeded',
  overloaded: 'server_is_overloaded',
  queue_full: 'server_is_overloaded',
};

function failureCode({ code, status }: ServiceError): string {
  if (status >= 500) return FAILURES[code] ?? 'server_error';
  return FAILURES[code] ?? (status === 400 ? 'invalid_prompt' : code);
}
