import type { ServiceError } from '../../core/errors.ts';
import { estimatedPromptTokens, NO_USAGE, type FinishReason, type Usage } from '../../core/generation.ts';
import { PartWriter, type EventOf } from '../part-writer.ts';
import { CallBlock, frame, TextBlock, ThinkingBlock, type Block } from './blocks.ts';
import { errorFrame } from './errors.ts';
import type { MessagesRequest } from './request.ts';

/** Writes the response to one request, or its server-sent events. */
export class MessageWriter extends PartWriter<object, Block> {
  readonly #request: MessagesRequest;
  readonly #requestId: string;
  #usage: Readonly<Usage> = NO_USAGE;
  #stopReason: string | null = null;
  #stopSequence: string | null = null;

  constructor(request: MessagesRequest, requestId: string, isStream: boolean) {
    super(isStream);
    this.#request = request;
    this.#requestId = requestId;
  }

  body(): string {
    return JSON.stringify(this.#message);
  }

  /** An event that all clients ignore, even before the first one. */
  keepAlive(): string {
    return frame('ping', {});
  }

  error(error: ServiceError): string {
    return errorFrame(error, this.#requestId);
  }

  protected start({ promptTokens, cachedTokens }: EventOf<'started'>): void {
    this.#usage = {
      ...NO_USAGE,
      // Clients show how full the context is. Some servers report the count only at the end.
      promptTokens: promptTokens ?? estimatedPromptTokens(this.#request.generation),
      cachedTokens: cachedTokens ?? 0,
    };
    this.send?.(frame('message_start', { message: this.#message }));
  }

  protected textPart(): Block {
    if (this.open instanceof TextBlock) return this.open;
    return this.begin((index) => new TextBlock(this.send, index));
  }

  protected reasoningPart(): Block {
    if (this.open instanceof ThinkingBlock) return this.open;
    const { seal, omitsThinking } = this.#request;
    return this.begin((index) => new ThinkingBlock(this.send, index, seal, omitsThinking));
  }

  protected callPart(id: string, called: string): Block {
    const name = this.#request.tooling.known.get(called) ?? called;
    return this.begin((index) => new CallBlock(this.send, index, id, name));
  }

  protected finish({ reason, stopSequence }: EventOf<'finish'>): void {
    this.#stopReason = stopSequence === null ? STOP_REASONS[reason] : 'stop_sequence';
    this.#stopSequence = stopSequence;
  }

  protected complete(usage: Usage): void {
    this.endPart('completed');
    this.#usage = usage;
    const delta = { stop_reason: this.#stopReason, stop_sequence: this.#stopSequence, stop_details: null };
    this.send?.(frame('message_delta', { delta, usage: usageOf(usage) }));
    this.send?.(frame('message_stop', {}));
  }

  get #message(): object {
    return {
      id: `msg_${this.#requestId.replaceAll('-', '')}`,
      type: 'message',
      role: 'assistant',
      model: this.#request.generation.model,
      content: this.parts,
      stop_reason: this.#stopReason,
      stop_sequence: this.#stopSequence,
      stop_details: null,
      container: null,
      diagnostics: null,
      usage: {
        ...usageOf(this.#usage),
        cache_creation: null,
        inference_geo: null,
        service_tier: 'standard',
        speed: null,
      },
    };
  }
}

const STOP_REASONS: Readonly<Record<FinishReason, string>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
};

function usageOf({ promptTokens, completionTokens, cachedTokens, reasoningTokens }: Readonly<Usage>): object {
  return {
    input_tokens: promptTokens - cachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cachedTokens,
    output_tokens: completionTokens,
    output_tokens_details: { thinking_tokens: reasoningTokens },
    server_tool_use: null,
  };
}
