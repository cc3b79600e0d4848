import {
  totalChoices,
  type FinishReason,
  type GenerationEvent,
  type GenerationKind,
  type GenerationRequest,
  type TextEvent,
  type ToolEvent,
  type TokenLogprob,
  type Usage,
} from '../generation.ts';
import type { ServiceError } from '../errors.ts';
import type { ResponseStream } from '../protocol.ts';
import { SHAPES, type ResponseIdentity } from './shape.ts';
import { errorJson } from './error-body.ts';
import { chatLogprobs, codePoints, textLogprobs } from './logprobs.ts';
import { usageJson } from './usage.ts';

/** The last frame of every stream. */
const DONE = 'data: [DONE]\n\n';

/**
 * Formats the events of one generation as SSE frames. The constant parts of chunks are created once, so that a token
 * costs one `JSON.stringify` of its text.
 *
 * Unless `include_usage` is true, the last finish chunk also has the final usage, so it is held back until `end`.
 */
export class StreamFormatter implements ResponseStream {
  readonly end = DONE;
  readonly #request: GenerationRequest;
  /** Up to and including `"choices":[`. */
  readonly #head: string;
  /** By choice: everything before the text of a token. */
  readonly #beforeText: readonly string[];
  /** By choice: everything before the text of reasoning; empty: the kind has no reasoning. */
  readonly #beforeReasoning: readonly string[];
  /** By choice: everything before the index of a tool call; empty: the kind has no calls. */
  readonly #beforeCall: readonly string[];
  /** The end of a chunk without usage. */
  readonly #close: string;
  readonly #afterTextAndClose: string;
  /** By choice: code points of text so far, for log probabilities of text completions. */
  readonly #offsets: number[];
  /** A finish chunk that waits for `end`. */
  #pendingFinish: string | null = null;

  constructor(identity: ResponseIdentity, request: GenerationRequest) {
    const { id, created, model } = identity;
    const shape = SHAPES[request.kind];
    const constant = JSON.stringify({ id, object: shape.chunkObject, created, model });
    const count = totalChoices(request);
    this.#request = request;
    this.#head = `data: ${constant.slice(0, -1)},"choices":[`;
    const before = (part: string | null): readonly string[] =>
      Array.from({ length: part === null ? 0 : count }, (_, index) =>
        flatten(`${this.#head}{"index":${index},${part}`),
      );
    this.#beforeText = before(shape.beforeText);
    this.#beforeReasoning = before(shape.beforeReasoning);
    this.#beforeCall = before(shape.beforeCall);
    this.#close = request.includeUsage === true ? '],"usage":null}\n\n' : ']}\n\n';
    this.#afterTextAndClose = flatten(shape.afterText + this.#close);
    this.#offsets = Array.from({ length: count }, () => 0);
  }

  /** Returns the frames to send for this event, or ''. */
  format(event: GenerationEvent): string {
    switch (event.type) {
      case 'token':
        return this.#formatText(this.#beforeText[event.choice], event);
      case 'reasoning':
        return this.#formatText(this.#beforeReasoning[event.choice], event);
      case 'tool-call': {
        const name = JSON.stringify(event.name);
        const start = `"id":${JSON.stringify(event.id)},"type":"function","function":{"name":${name},"arguments":""`;
        return this.#formatCall(event, start);
      }
      case 'tool-arguments':
        if (event.text === '') return '';
        return this.#formatCall(event, `"function":{"arguments":${JSON.stringify(event.text)}`);
      case 'started':
        return this.#formatStart();
      case 'finish':
        return this.#formatFinish(event.choice, event.reason);
      case 'end':
        return this.#formatEnd(event.usage);
    }
  }

  /** Returns the frames that end the stream with an error. A pending finish comes first. */
  error(error: ServiceError, usage: Usage): string {
    return this.#takePendingFinish() + errorFrames(this.#request.kind, error, usage);
  }

  /** Returns the role chunks of a chat. A text completion has none. */
  #formatStart(): string {
    switch (this.#request.kind) {
      case 'chat': {
        // Starts with null, so that the content that a client joins from the deltas is null if there are only calls.
        const content = this.#request.tools.length > 0 ? 'null' : '""';
        return this.#beforeText
          .map(
            (_, index) =>
              `${this.#head}{"index":${index},"delta":{"role":"assistant","content":${content}},"finish_reason":null}${this.#close}`,
          )
          .join('');
      }
      case 'text':
        return '';
    }
  }

  #formatText(before: string | undefined, { choice, text, logprobs }: TextEvent): string {
    if (before === undefined) return '';
    if (logprobs !== null && this.#request.logprobs !== null) {
      const rest = this.#formatLogprobs(choice, text, logprobs);
      return this.#takePendingFinish() + before + rest + this.#close;
    }
    if (text === '') return '';
    return this.#takePendingFinish() + before + JSON.stringify(text) + this.#afterTextAndClose;
  }

  /**
   * Returns a chunk with a part of a call. `fields` is JSON that ends inside the `function` object, before its closing
   * brace.
   */
  #formatCall({ choice, call }: ToolEvent, fields: string): string {
    const before = this.#beforeCall[choice];
    if (before === undefined) return '';
    return `${this.#takePendingFinish()}${before}${call},${fields}}}]},"finish_reason":null}${this.#close}`;
  }

  #formatLogprobs(choice: number, text: string, logprobs: readonly TokenLogprob[]): string {
    const alternatives = this.#request.logprobs ?? 0;
    switch (this.#request.kind) {
      case 'chat': {
        const list = JSON.stringify(chatLogprobs(logprobs, alternatives));
        return `${JSON.stringify(text)}},"logprobs":${list},"finish_reason":null}`;
      }
      case 'text': {
        const offset = this.#offsets[choice] ?? 0;
        this.#offsets[choice] = logprobs.reduce((sum, token) => sum + codePoints(token), offset);
        const list = JSON.stringify(textLogprobs(logprobs, alternatives, offset));
        return `${JSON.stringify(text)},"logprobs":${list},"finish_reason":null}`;
      }
    }
  }

  #formatFinish(choice: number, reason: FinishReason): string {
    const { empty } = SHAPES[this.#request.kind];
    const chunk = `${this.#head}{"index":${choice},${empty}"finish_reason":"${reason}"}`;
    const earlier = this.#takePendingFinish();
    if (this.#request.includeUsage === true) {
      return earlier + chunk + this.#close;
    }
    this.#pendingFinish = chunk;
    return earlier;
  }

  #formatEnd(usage: Usage): string {
    const chunk = this.#pendingFinish ?? this.#head;
    this.#pendingFinish = null;
    return `${chunk}],"usage":${usageJson(this.#request.kind, usage)}}\n\n`;
  }

  /** Returns the pending finish chunk without the final usage, because another chunk follows it. */
  #takePendingFinish(): string {
    if (this.#pendingFinish === null) return '';
    const chunk = this.#pendingFinish + this.#close;
    this.#pendingFinish = null;
    return chunk;
  }
}

/** Returns the frames that end a stream with an error. */
export function errorFrames(kind: GenerationKind, error: ServiceError, usage: Usage): string {
  return `data: {"error":${errorJson(error)},"usage":${usageJson(kind, usage)}}\n\n${DONE}`;
}

/** Copies a concatenated string: V8 keeps it as a tree, which every write of a chunk would traverse. */
function flatten(text: string): string {
  return Buffer.from(text).toString();
}
