import type { FinishReason, GenerationEvent, GenerationRequest, TokenLogprob, Usage } from '../generation.ts';
import type { ServiceError } from '../errors.ts';
import type { AnswerIdentity } from './answer.ts';
import { errorJson } from './error-body.ts';
import { chatLogprobs, codePoints, textLogprobs } from './logprobs.ts';
import { usageJson } from './usage.ts';

/** The last frame of every stream, after the closing chunk or the error frame. */
export const DONE = 'data: [DONE]\n\n';

type TextEvent = Extract<GenerationEvent, { type: 'token' | 'reasoning' }>;

/**
 * Writes the events of one generation as SSE frames. What is constant in a chunk is written once, and a token
 * costs one `JSON.stringify` of its text: this runs once a token of every stream.
 *
 * Unless `include_usage` is true the last finish is held until `end`, because it carries the usage too.
 */
export class StreamFormatter {
  readonly #request: GenerationRequest;
  /** Up to and including `"choices":[`. */
  readonly #head: string;
  /** For each choice, everything before the text of a token. */
  readonly #beforeText: readonly string[];
  /** The same before the text of reasoning. */
  readonly #beforeReasoning: readonly string[];
  readonly #afterText: string;
  /** The same with what closes a chunk that tells no usage. */
  readonly #afterTextAlone: string;
  /** What closes a chunk that tells no usage. */
  readonly #close: string;
  /** For each choice of a text with log probabilities: code points so far. */
  readonly #offsets: number[];
  #held: string | null = null;
  #promptTokens: number | null = null;
  #cachedTokens = 0;
  #completionTokens = 0;

  constructor(identity: AnswerIdentity, request: GenerationRequest) {
    const { id, created, model } = identity;
    const chat = request.kind === 'chat';
    const constant = JSON.stringify({
      id,
      object: chat ? 'chat.completion.chunk' : 'text_completion',
      created,
      model,
    });
    const count = chat ? request.choices : request.prompts.length * request.choices;
    this.#request = request;
    this.#head = `data: ${constant.slice(0, -1)},"choices":[`;
    const before = (key: string): readonly string[] =>
      Array.from({ length: count }, (_, index) => flat(`${this.#head}{"index":${index},${key}`));
    this.#beforeText = before(chat ? '"delta":{"content":' : '"text":');
    this.#beforeReasoning = before('"delta":{"reasoning_content":');
    this.#close = request.includeUsage === true ? '],"usage":null}\n\n' : ']}\n\n';
    this.#afterText = chat ? '},"finish_reason":null}' : ',"logprobs":null,"finish_reason":null}';
    this.#afterTextAlone = flat(this.#afterText + this.#close);
    this.#offsets = Array.from({ length: count }, () => 0);
  }

  /** The frames that are due after this event, whole; '' when none is. `end` gives the closing chunk without `[DONE]`. */
  format(event: GenerationEvent): string {
    switch (event.type) {
      case 'token':
        return this.#text(this.#beforeText[event.choice], event);
      case 'reasoning':
        return this.#text(this.#beforeReasoning[event.choice], event);
      case 'started':
        this.#promptTokens = event.promptTokens;
        this.#cachedTokens = event.cachedTokens ?? 0;
        return this.#opening();
      case 'finish':
        return this.#finish(event.choice, event.reason);
      case 'end':
        return this.#end(event.usage);
    }
  }

  /**
   * The framed error without `[DONE]`, with the usage so far: that of the last event, where the caller has no better
   * count. Finishes that were held come before it.
   */
  error(error: ServiceError, usage: Usage = this.#lastUsage()): string {
    return `${this.#release()}data: {"error":${errorJson(error)},"usage":${usageJson(usage)}}\n\n`;
  }

  #lastUsage(): Usage {
    return {
      promptTokens: this.#promptTokens ?? 0,
      completionTokens: this.#completionTokens,
      cachedTokens: this.#cachedTokens,
    };
  }

  /** A chat's role chunks; for a text, a chunk only where it has usage to tell. */
  #opening(): string {
    const close = this.#closing(0);
    if (this.#request.kind === 'chat') {
      return this.#beforeText
        .map(
          (_, index) =>
            `${this.#head}{"index":${index},"delta":{"role":"assistant","content":""},"finish_reason":null}${close}`,
        )
        .join('');
    }
    if (close === this.#close) return '';
    return `${this.#head}{"index":0,"text":"","logprobs":null,"finish_reason":null}${close}`;
  }

  #text(before: string | undefined, { choice, text, completionTokens, logprobs }: TextEvent): string {
    this.#completionTokens = completionTokens;
    if (before === undefined) return '';
    if (logprobs !== null && this.#request.logprobs !== null) {
      const told = this.#withLogprobs(choice, text, logprobs);
      return this.#release() + before + told + this.#closing(completionTokens);
    }
    if (text === '') return '';
    const after = this.#request.continuousUsage
      ? this.#afterText + this.#closing(completionTokens)
      : this.#afterTextAlone;
    return this.#release() + before + JSON.stringify(text) + after;
  }

  #withLogprobs(choice: number, text: string, logprobs: readonly TokenLogprob[]): string {
    const wanted = this.#request.logprobs ?? 0;
    if (this.#request.kind === 'chat') {
      const list = JSON.stringify(chatLogprobs(logprobs, wanted));
      return `${JSON.stringify(text)}},"logprobs":${list},"finish_reason":null}`;
    }
    const offset = this.#offsets[choice] ?? 0;
    this.#offsets[choice] = logprobs.reduce((sum, { token }) => sum + codePoints(token), offset);
    const list = JSON.stringify(textLogprobs(logprobs, wanted, offset));
    return `${JSON.stringify(text)},"logprobs":${list},"finish_reason":null}`;
  }

  #finish(choice: number, reason: FinishReason): string {
    const body = this.#request.kind === 'chat' ? '"delta":{},' : '"text":"","logprobs":null,';
    const chunk = `${this.#head}{"index":${choice},${body}"finish_reason":"${reason}"}`;
    const released = this.#release();
    if (this.#request.includeUsage === true) {
      return released + chunk + this.#closing(this.#completionTokens);
    }
    this.#held = chunk;
    return released;
  }

  #end(usage: Usage): string {
    const chunk = this.#held ?? this.#head;
    this.#held = null;
    return `${chunk}],"usage":${usageJson(usage)}}\n\n`;
  }

  /** The finish that was held back, now that it turns out not to be the last chunk. */
  #release(): string {
    if (this.#held === null) return '';
    const chunk = this.#held + this.#closing(this.#completionTokens);
    this.#held = null;
    return chunk;
  }

  /** What closes a chunk, with the usage so far where it is asked for and known. */
  #closing(completionTokens: number): string {
    if (!this.#request.continuousUsage || this.#promptTokens === null) return this.#close;
    const usage = { promptTokens: this.#promptTokens, completionTokens, cachedTokens: this.#cachedTokens };
    return `],"usage":${usageJson(usage)}}\n\n`;
  }
}

/** The same text as one piece: V8 keeps what was put together as a tree, which each write of a chunk would walk. */
function flat(text: string): string {
  return Buffer.from(text).toString();
}
