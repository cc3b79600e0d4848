import { setImmediate as nextTurn } from 'node:timers/promises';
import { ServiceError } from '../../errors.ts';
import type { ChatRequest, GenerationRequest } from '../../generation.ts';
import type { Log } from '../../log.ts';
import type { NativeModel } from './binding.ts';
import type { LoadedModel } from './load-model.ts';
import type { TemplateSegment } from './template-markers.ts';
import type { ChatTemplate, RenderedPrompt } from './template.ts';
import type { PromptReasoning } from './tool-calls/reasoning.ts';
import { anyOf, type Vocabulary } from './vocabulary.ts';

export interface TokenizedPrompts {
  /** The tokens of each prompt. No prompt is empty. */
  prompts: Uint32Array[];
  /** See `RenderedPrompt`. */
  reasoning: PromptReasoning;
}

export class PromptTokenizer {
  readonly #model: NativeModel;
  readonly #vocabulary: Vocabulary;
  readonly #template: ChatTemplate | null;
  readonly #slotTokens: number;
  readonly #log: Log;
  #reportedFailure = false;
  /**
   * Matches the user-defined tokens that contain a delimiter and occur in the chat template, such as `<tool_call>`.
   * Null if there are none.
   */
  readonly #reserved: RegExp | null;

  constructor(
    { model, vocabulary, template }: Pick<LoadedModel, 'model' | 'vocabulary' | 'template'>,
    slotTokens: number,
    log: Log,
  ) {
    this.#model = model;
    this.#vocabulary = vocabulary;
    this.#template = template;
    this.#slotTokens = slotTokens;
    this.#log = log;
    this.#reserved = anyOf(
      vocabulary.userDefined.filter((text) => /[<[|｜]/.test(text) && template?.mentions(text)),
    );
  }

  /**
   * Tokenizes the prompts. Throws 400 `context_length_exceeded` if a prompt leaves no room for a completion, and 400
   * `unsupported_parameter` for a chat without a chat template.
   */
  async tokenize(request: GenerationRequest): Promise<TokenizedPrompts> {
    switch (request.kind) {
      case 'chat': {
        const { bos, segments, reasoning } = this.#render(request);
        const subject = request.tools.length > 0 ? 'the messages and tools have' : 'the messages have';
        return { prompts: [await this.#tokenizePrompt(segments, bos, subject)], reasoning };
      }
      case 'text': {
        const prompts: Uint32Array[] = [];
        for (const text of request.prompts) {
          // Text prompts may contain special tokens, as with other engines.
          prompts.push(await this.#tokenizePrompt([{ text, trusted: true }], false, 'the prompt has'));
        }
        return { prompts, reasoning: 'closed' };
      }
    }
  }

  #render(request: ChatRequest): RenderedPrompt {
    if (this.#template === null)
      throw new ServiceError(
        'unsupported_parameter',
        'This model has no chat template, so it does not support chat completions. Use text completions.',
        { param: 'messages' },
      );
    try {
      return this.#template.render(request);
    } catch (error) {
      this.#reportFailure(error);
      throw error;
    }
  }

  /** Logs the first failure of the template, because the template may be faulty. Messages that it refuses are not logged. */
  #reportFailure(error: unknown): void {
    if (this.#reportedFailure || !(error instanceof Error) || !(error.cause instanceof Error)) return;
    this.#reportedFailure = true;
    this.#log.warn('the chat template failed; further failures are not logged', {
      error: error.cause.message,
    });
  }

  async #tokenizePrompt(
    segments: readonly TemplateSegment[],
    bos: boolean,
    subject: LengthSubject,
  ): Promise<Uint32Array> {
    const text = segments.map((segment) => segment.text).join('');
    await this.#checkLength(text, subject);
    const tokens = this.#encode(text, segments, bos);
    if (tokens.length >= this.#slotTokens) throw this.#tooLong(`${tokens.length}`, subject);
    return tokens;
  }

  #encode(text: string, segments: readonly TemplateSegment[], bos: boolean): Uint32Array {
    const parts: Uint32Array[] = [];
    const { bosToken } = this.#model;
    if (bosToken !== null && (bos || this.#model.addsBos)) parts.push(Uint32Array.of(bosToken));
    // If no token is forged, tokenize the whole text at once. Tokens can then span segments, as they do in training.
    if (!this.#hasForgedTokens(text, segments)) parts.push(this.#model.tokenize(text, true));
    else {
      for (const segment of segments) {
        if (segment.trusted) parts.push(this.#model.tokenize(segment.text, true));
        else
          for (const plain of this.#plainParts(segment.text)) parts.push(this.#model.tokenize(plain, false));
      }
    }
    const tokens = concat(parts);
    if (tokens.length > 0) return withoutSecondBos(tokens, bosToken);
    // An empty prompt becomes a single token.
    return Uint32Array.of(bosToken ?? this.#model.eosToken ?? 0);
  }

  /** Whether the text has control tokens or reserved tokens outside trusted segments. */
  #hasForgedTokens(whole: string, segments: readonly TemplateSegment[]): boolean {
    return [this.#vocabulary.controls, this.#reserved].some(
      (pattern) => pattern !== null && hasUntrusted(pattern, whole, segments),
    );
  }

  /**
   * Cuts an untrusted text after the first character of each reserved token, because llama.cpp recognizes user-defined
   * tokens in every text.
   */
  #plainParts(text: string): string[] {
    if (this.#reserved === null) return [text];
    const parts: string[] = [];
    let from = 0;
    for (const { index } of text.matchAll(this.#reserved)) {
      const to = index + String.fromCodePoint(text.codePointAt(index) ?? 0).length;
      parts.push(text.slice(from, to));
      from = to;
    }
    return [...parts, text.slice(from)].filter((part) => part !== '');
  }

  /**
   * Throws if the text is too long. Tokenization is synchronous, about 1 ms per kilobyte, so this first checks the bytes
   * and then counts tokens in pieces, yielding to the event loop between them.
   */
  async #checkLength(text: string, subject: LengthSubject): Promise<void> {
    if (text.length <= PIECE_CHARACTERS) return;
    const minimum = Math.ceil(Buffer.byteLength(text) / this.#vocabulary.longestBytes);
    if (minimum >= this.#slotTokens) throw this.#tooLong(`at least ${minimum}`, subject);
    let tokens = 0;
    for (let from = 0, pieces = 1; from < text.length; pieces++) {
      const to = cutPosition(text, from + PIECE_CHARACTERS);
      tokens += this.#model.tokenize(text.slice(from, to), true).length;
      from = to;
      // A cut can only add tokens, because it splits tokens but never joins them.
      const counted = tokens - SPLIT_TOKENS * pieces;
      if (counted >= this.#slotTokens) throw this.#tooLong(`at least ${counted}`, subject);
      await nextTurn();
    }
  }

  #tooLong(amount: string, subject: LengthSubject): ServiceError {
    return new ServiceError(
      'context_length_exceeded',
      // Client libraries detect this error by the start of OpenAI's message.
      `This model's maximum context length is ${this.#slotTokens} tokens; ${subject} ${amount}, which leaves no room for a completion.`,
      { param: subject === 'the prompt has' ? 'prompt' : 'messages' },
    );
  }
}

/** Whether the pattern matches outside trusted segments. */
function hasUntrusted(pattern: RegExp, whole: string, segments: readonly TemplateSegment[]): boolean {
  let offset = 0;
  const trustedOffsets: number[] = [];
  for (const { text, trusted } of segments) {
    if (trusted) for (const match of text.matchAll(pattern)) trustedOffsets.push(offset + match.index);
    offset += text.length;
  }
  const found = Array.from(whole.matchAll(pattern), (match) => match.index);
  return found.length !== trustedOffsets.length || found.some((at, i) => at !== trustedOffsets[i]);
}

/** The words before the number of tokens in the error message. */
type LengthSubject = 'the messages have' | 'the messages and tools have' | 'the prompt has';

/** Length of the pieces in which the tokens of a long text are counted, in UTF-16 code units. */
const PIECE_CHARACTERS = 16_384;

/** Maximum number of tokens that a cut adds. */
const SPLIT_TOKENS = 8;

/**
 * Returns the position of the last white space up to `end`. If there is none nearby, returns `end`, or `end - 1` inside
 * a surrogate pair.
 */
function cutPosition(text: string, end: number): number {
  if (end >= text.length) return text.length;
  for (let at = end; at > end - 256; at--) if (text.charCodeAt(at) <= 0x20) return at;
  const code = text.charCodeAt(end);
  return code >= 0xdc00 && code <= 0xdfff ? end - 1 : end;
}

function concat(parts: readonly Uint32Array[]): Uint32Array {
  if (parts.length === 1 && parts[0] !== undefined) return parts[0];
  const tokens = new Uint32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    tokens.set(part, at);
    at += part.length;
  }
  return tokens;
}

/** Removes a BOS if the prompt starts with two. */
function withoutSecondBos(tokens: Uint32Array, bos: number | null): Uint32Array {
  return bos !== null && tokens[0] === bos && tokens[1] === bos ? tokens.subarray(1) : tokens;
}
