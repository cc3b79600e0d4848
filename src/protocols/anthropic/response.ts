import type { ServiceError } from '../../core/errors.ts';
import {
  estimatedPromptTokens,
  NO_USAGE,
  type FinishReason,
  type GenerationEvent,
  type Usage,
} from '../../core/generation.ts';
import { CHARACTER_BYTES } from '../../json/json-heap.ts';
import type { ResponseStream, WholeResponse } from '../../core/protocol.ts';
import { CallBlock, frame, TextBlock, ThinkingBlock, type Block, type Emit } from './blocks.ts';
import { errorFrame } from './errors.ts';
import type { MessagesRequest } from './request.ts';

/** Builds a response that is not a stream. */
export class MessageBuilder implements WholeResponse {
  readonly #writer: MessageWriter;

  constructor(request: MessagesRequest, requestId: string) {
    this.#writer = new MessageWriter(request, requestId, null);
  }

  add(event: GenerationEvent): void {
    this.#writer.add(event);
  }

  get heldBytes(): number {
    return this.#writer.heldBytes;
  }

  body(): string {
    return JSON.stringify(this.#writer.message);
  }
}

/** Formats the events of a response as server-sent events. */
export class MessageEvents implements ResponseStream {
  /** The last event is `message_stop`. */
  readonly end = '';
  readonly #writer: MessageWriter;
  readonly #requestId: string;
  #frames = '';

  get heldBytes(): number {
    return this.#writer.heldBytes;
  }

  constructor(request: MessagesRequest, requestId: string) {
    this.#requestId = requestId;
    this.#writer = new MessageWriter(request, requestId, (frames) => {
      this.#frames += frames;
    });
  }

  format(event: GenerationEvent): string {
    this.#writer.add(event);
    const frames = this.#frames;
    this.#frames = '';
    return frames;
  }

  /** An event that all clients ignore, even before the first one. */
  keepAlive(): string {
    return frame('ping', {});
  }

  error(error: ServiceError): string {
    return errorFrame(error, this.#requestId);
  }
}

/** Writes the response to one request: its events, and the message with the blocks so far. */
class MessageWriter {
  readonly #request: MessagesRequest;
  readonly #id: string;
  readonly #emit: Emit | null;
  /** About how much memory the blocks take. */
  heldBytes = 0;
  readonly #blocks: object[] = [];
  #open: Block | null = null;
  #usage: Readonly<Usage> = NO_USAGE;
  #stopReason: string | null = null;
  #stopSequence: string | null = null;

  /** `emit` is null if the response is not a stream. */
  constructor(request: MessagesRequest, requestId: string, emit: Emit | null) {
    this.#request = request;
    this.#id = `msg_${requestId.replaceAll('-', '')}`;
    this.#emit = emit;
  }

  add(event: GenerationEvent): void {
    switch (event.type) {
      case 'started': {
        const { promptTokens, cachedTokens } = event;
        this.#usage = {
          ...NO_USAGE,
          // Clients show how full the context is. Some servers report the count only at the end.
          promptTokens: promptTokens ?? estimatedPromptTokens(this.#request.generation),
          cachedTokens: cachedTokens ?? 0,
        };
        this.#emit?.(frame('message_start', { message: this.message }));
        break;
      }
      case 'token':
        if (event.text !== '') this.#add(this.#text(), event.text);
        break;
      case 'reasoning':
        if (event.text !== '') this.#add(this.#thinking(), event.text);
        break;
      case 'tool-call': {
        const name = this.#request.tooling.names.get(event.name) ?? event.name;
        this.#start((emit, index) => new CallBlock(emit, index, event.id, name));
        break;
      }
      case 'tool-arguments':
        if (this.#open instanceof CallBlock) this.#add(this.#open, event.text);
        break;
      case 'finish':
        this.#stopReason = event.stopSequence === null ? STOP_REASONS[event.reason] : 'stop_sequence';
        this.#stopSequence = event.stopSequence;
        break;
      case 'end':
        this.#end(event.usage);
        break;
      case 'embedding':
    }
  }

  get message(): object {
    return {
      id: this.#id,
      type: 'message',
      role: 'assistant',
      model: this.#request.generation.model,
      content: this.#blocks,
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

  #add(block: Block, text: string): void {
    this.heldBytes += CHARACTER_BYTES * text.length;
    block.add(text);
  }

  #text(): TextBlock {
    if (this.#open instanceof TextBlock) return this.#open;
    return this.#start((emit, index) => new TextBlock(emit, index));
  }

  #thinking(): ThinkingBlock {
    if (this.#open instanceof ThinkingBlock) return this.#open;
    const { seal, omitsThinking } = this.#request;
    return this.#start((emit, index) => new ThinkingBlock(emit, index, seal, omitsThinking));
  }

  /** Ends the open block and begins the next one. */
  #start<B extends Block>(create: (emit: Emit | null, index: number) => B): B {
    this.#close();
    const block = create(this.#emit, this.#blocks.length);
    this.#open = block;
    block.begin();
    return block;
  }

  #close(): void {
    if (this.#open === null) return;
    this.#blocks.push(this.#open.end());
    this.#open = null;
  }

  #end(usage: Usage): void {
    this.#close();
    this.#usage = usage;
    const delta = { stop_reason: this.#stopReason, stop_sequence: this.#stopSequence, stop_details: null };
    this.#emit?.(frame('message_delta', { delta, usage: usageOf(usage) }));
    this.#emit?.(frame('message_stop', {}));
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
