import { type ErrorCode, ServiceError } from '../../core/errors.ts';
import { isCutOff, type FinishReason, type TextEvent, type Usage } from '../../core/generation.ts';
import { CHARACTER_BYTES } from '../../json/json-heap.ts';
import { tokenLogprobs } from '../openai/logprobs.ts';
import { PartWriter } from '../part-writer.ts';
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

/** Writes the response to one request, or its server-sent events. Each has a sequence number. */
export class ResponseWriter extends PartWriter<string, Item> {
  readonly #request: ResponsesRequest;
  readonly #hex: string;
  readonly #createdAt = Math.floor(Date.now() / 1000);
  readonly #emit: Emit | null;
  /** The JSON of the complete response, after the event `end`. */
  #body = '';
  #sequence = 0;
  #logprobCharacters = 0;
  #begun = false;
  #reason: FinishReason = 'stop';

  constructor(request: ResponsesRequest, requestId: string, isStream: boolean) {
    super(isStream);
    this.#request = request;
    this.#hex = requestId.replaceAll('-', '');
    const { send } = this;
    this.#emit = send && ((start, members) => send(`${start}${this.#sequence++},${members}}\n\n`));
  }

  body(): string {
    return this.#body;
  }

  /** Timers of clients, such as Codex, are only reset by events. Clients ignore the type `keepalive`, as OpenAI sends it. */
  keepAlive(): string {
    if (this.#begun) this.send?.(frame('keepalive', { sequence_number: this.#sequence++ }));
    else this.start();
    return this.takeFrames();
  }

  /** Returns the last event of a response that failed. It has the items so far, the last one incomplete. */
  error(error: ServiceError, usage: Usage): string {
    this.start();
    const open = this.open === null ? [] : [this.open.json('incomplete')];
    const failure = { code: failureCode(error), message: error.message };
    this.#emitResponse('response.failed', this.#response('failed', usage, failure, open));
    return this.takeFrames();
  }

  /** Emits the first events, once. */
  protected start(): void {
    if (this.#begun) return;
    this.#begun = true;
    if (this.#emit === null) return;
    const response = this.#response('in_progress', null);
    this.#emitResponse('response.created', response);
    this.#emitResponse('response.in_progress', response);
  }

  protected override addText(event: TextEvent): void {
    const { text, logprobs } = event;
    const { logprobs: alternatives } = this.#request.generation;
    if (alternatives === null || logprobs === null) return super.addText(event);
    const items = JSON.stringify(tokenLogprobs(logprobs, alternatives)).slice(1, -1);
    this.#logprobCharacters += items.length;
    if (this.#logprobCharacters > MAX_LOGPROB_CHARACTERS) throw tooManyLogprobs();
    this.heldBytes += CHARACTER_BYTES * (text.length + items.length);
    this.textPart().add(text, items);
  }

  protected textPart(): MessageItem {
    if (this.open instanceof MessageItem) return this.open;
    return this.begin((index) => new MessageItem(this.#emit, this.#id('msg', index), index));
  }

  protected reasoningPart(): ReasoningItem {
    if (this.open instanceof ReasoningItem) return this.open;
    const { seal } = this.#request;
    return this.begin((index) => new ReasoningItem(this.#emit, this.#id('rs', index), index, seal));
  }

  protected callPart(callId: string, name: string): Item {
    const { known } = this.#request.tooling;
    const tool = known.get(name) ?? { type: 'function', name, namespace: null };
    return this.begin<Item>((index) =>
      tool.type === 'custom'
        ? new CustomCallItem(this.#emit, this.#id('ctc', index), index, callId, tool)
        : new CallItem(this.#emit, this.#id('fc', index), index, callId, tool),
    );
  }

  protected finish({ reason }: { reason: FinishReason }): void {
    this.#reason = reason;
  }

  protected complete(usage: Usage): void {
    // A response without any output is an empty message, as in chats.
    if (this.parts.length === 0 && this.open === null) this.textPart();
    const status = isCutOff(this.#reason) ? 'incomplete' : 'completed';
    this.endPart(status);
    this.#body = this.#response(status, usage);
    this.#emitResponse(`response.${status}`, this.#body);
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
      `"model":${JSON.stringify(this.#request.generation.model)},"output":[${[...this.parts, ...open].join(',')}],` +
      `${this.#request.echo.json},"usage":${usage === null ? null : usageJson(usage)}}`
    );
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
