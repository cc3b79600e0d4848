import {
  NO_USAGE,
  totalChoices,
  type FinishReason,
  type GenerationEvent,
  type CompletionRequest,
  type TokenLogprob,
  type ToolCall,
  type Usage,
  type CompletionKind,
  type TextEvent,
  type ToolEvent,
} from '../../core/generation.ts';
import type { WholeResponse, ResponseStream } from '../../core/protocol.ts';
import { ServiceError } from '../../core/errors.ts';
import { flatten, KEEP_ALIVE } from '../../support/event-stream.ts';
import { chatLogprobs, ChoiceLogprobs, textLogprobs, codePoints } from './logprobs.ts';
import { CHARACTER_BYTES } from '../../json/json-heap.ts';
import { usageJson } from './usage.ts';
import { errorJson } from '../../core/error-body.ts';

interface ResponseChoice {
  text: string;
  reasoning: string;
  calls: ToolCall[];
  /** Null if the request asks for none. */
  logprobs: ChoiceLogprobs | null;
  reason: FinishReason;
}

/** Maximum size of the log probabilities of a response that is not a stream, in bytes. */
const MAX_LOGPROB_BYTES = 64 * 1024 * 1024;

/** Builds a non-streaming JSON response from the events of one generation. */
export class ResponseBuilder implements WholeResponse {
  readonly #identity: ResponseIdentity;
  readonly #request: CompletionRequest;
  readonly #choices: ResponseChoice[] = [];
  #usage: Usage = NO_USAGE;
  #textBytes = 0;
  #logprobBytes = 0;

  constructor(identity: ResponseIdentity, request: CompletionRequest) {
    const { kind, logprobs } = request;
    this.#identity = identity;
    this.#request = request;
    for (let left = totalChoices(request); left > 0; left--)
      this.#choices.push({
        text: '',
        reasoning: '',
        calls: [],
        logprobs: logprobs === null ? null : new ChoiceLogprobs(kind, logprobs),
        reason: 'stop',
      });
  }

  get heldBytes(): number {
    return this.#textBytes + this.#logprobBytes;
  }

  /** Adds the next event. Ignores events of choices that were not requested. Throws `response_too_large`. */
  add(event: GenerationEvent): void {
    switch (event.type) {
      case 'started':
        break;
      case 'token':
      case 'reasoning': {
        const choice = this.#choices[event.choice];
        if (choice === undefined) break;
        choice[event.type === 'token' ? 'text' : 'reasoning'] += event.text;
        this.#textBytes += CHARACTER_BYTES * event.text.length;
        if (choice.logprobs !== null && event.logprobs !== null)
          this.#addLogprobs(choice.logprobs, event.logprobs);
        break;
      }
      case 'tool-call':
        this.#choices[event.choice]?.calls.push({ id: event.id, name: event.name, arguments: '' });
        break;
      case 'tool-arguments': {
        // Calls do not overlap.
        const call = this.#choices[event.choice]?.calls.at(-1);
        if (call !== undefined) call.arguments += event.text;
        this.#textBytes += CHARACTER_BYTES * event.text.length;
        break;
      }
      case 'finish': {
        const choice = this.#choices[event.choice];
        if (choice !== undefined) choice.reason = event.reason;
        break;
      }
      case 'end':
        this.#usage = event.usage;
        break;
      case 'embedding':
      case 'score':
    }
  }

  body(): string | readonly Buffer[] {
    const { id, created, model } = this.#identity;
    const { object } = SHAPES[this.#request.kind];
    const head = `{"id":"${id}","object":"${object}","created":${created},"model":${JSON.stringify(model)},"choices":[`;
    const end = `],"usage":${usageJson(this.#request.kind, this.#usage)}}`;
    const choices = this.#choices.map((choice, index) => this.#choice(choice, index));
    if (this.#request.logprobs === null)
      return `${head}${choices.map((parts) => parts.join('null')).join(',')}${end}`;
    const parts = choices.flatMap(([before, after], index) => [
      Buffer.from(index === 0 ? before : `,${before}`),
      ...(this.#choices[index]?.logprobs?.parts() ?? []),
      Buffer.from(after),
    ]);
    return [Buffer.from(head), ...parts, Buffer.from(end)];
  }

  #addLogprobs(logprobs: ChoiceLogprobs, tokens: readonly TokenLogprob[]): void {
    this.#logprobBytes -= logprobs.heldBytes;
    logprobs.add(tokens);
    this.#logprobBytes += logprobs.heldBytes;
    if (this.#logprobBytes <= MAX_LOGPROB_BYTES) return;
    throw new ServiceError(
      'response_too_large',
      `The log probabilities have more than ${MAX_LOGPROB_BYTES / 1_048_576} MiB. Set \`stream\` to true, or request fewer log probabilities, choices or tokens.`,
    );
  }

  /** Returns the JSON of a choice before and after its log probabilities. */
  #choice(
    { text, reasoning, calls, reason }: ResponseChoice,
    index: number,
  ): [before: string, after: string] {
    const after = `,"finish_reason":"${reason}"}`;
    switch (this.#request.kind) {
      case 'chat': {
        const content = text === '' && calls.length > 0 ? null : JSON.stringify(text);
        const reasoningField = reasoning === '' ? '' : `"reasoning_content":${JSON.stringify(reasoning)},`;
        const callsField = calls.length === 0 ? '' : `"tool_calls":${JSON.stringify(calls.map(toolCall))},`;
        const message = `{"role":"assistant","content":${content},${reasoningField}${callsField}"refusal":null}`;
        return [`{"index":${index},"message":${message},"logprobs":`, after];
      }
      case 'text':
        return [`{"index":${index},"text":${JSON.stringify(text)},"logprobs":`, after];
    }
  }
}

/** Formats a call of a message. */
function toolCall({ id, name, arguments: text }: ToolCall): object {
  return { id, type: 'function', function: { name, arguments: text } };
}

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
  readonly heldBytes = 0;
  readonly #request: CompletionRequest;
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

  constructor(identity: ResponseIdentity, request: CompletionRequest) {
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
      case 'embedding':
      case 'score':
        return '';
    }
  }

  keepAlive(): string {
    return KEEP_ALIVE;
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
export function errorFrames(kind: CompletionKind, error: ServiceError, usage: Usage): string {
  return `data: {"error":${errorJson(error)},"usage":${usageJson(kind, usage)}}\n\n${DONE}`;
}

/** The fields that are the same in a response and in every chunk of a stream. */
interface ResponseIdentity {
  /** `chatcmpl-…` or `cmpl-…`. */
  id: string;
  /** Unix seconds. */
  created: number;
  /** The model ID of the request. */
  model: string;
}

/** The parts of responses and chunks that differ between chats and text completions. */
interface Shape {
  /** The start of response IDs. */
  idPrefix: string;
  /** `object` of responses. */
  object: string;
  /** `object` of chunks. */
  chunkObject: string;
  /** Around the text in a choice of a chunk. */
  beforeText: string;
  afterText: string;
  /** Before reasoning and before the index of a call. Null: there are no such chunks. */
  beforeReasoning: string | null;
  beforeCall: string | null;
  /** The fields of a choice without text. */
  empty: string;
}

const SHAPES: Readonly<Record<CompletionKind, Shape>> = {
  chat: {
    idPrefix: 'chatcmpl-',
    object: 'chat.completion',
    chunkObject: 'chat.completion.chunk',
    beforeText: '"delta":{"content":',
    afterText: '},"finish_reason":null}',
    beforeReasoning: '"delta":{"reasoning_content":',
    beforeCall: '"delta":{"tool_calls":[{"index":',
    empty: '"delta":{},',
  },
  text: {
    idPrefix: 'cmpl-',
    object: 'text_completion',
    chunkObject: 'text_completion',
    beforeText: '"text":',
    afterText: ',"logprobs":null,"finish_reason":null}',
    beforeReasoning: null,
    beforeCall: null,
    empty: '"text":"","logprobs":null,',
  },
};

/** Returns the fields that identify the response to a request, which is created now. */
export function responseIdentity(kind: CompletionKind, requestId: string, model: string): ResponseIdentity {
  const created = Math.floor(Date.now() / 1000);
  return { id: SHAPES[kind].idPrefix + withoutHyphens(requestId), created, model };
}

/** Returns the digits of a UUID. Faster than `replaceAll`. */
function withoutHyphens(id: string): string {
  return id.slice(0, 8) + id.slice(9, 13) + id.slice(14, 18) + id.slice(19, 23) + id.slice(24);
}
