import { setImmediate as nextTurn } from 'node:timers/promises';
import { ServiceError } from '../../errors.ts';
import type { GenerationRequest } from '../../generation.ts';
import type { NativeModel } from './binding.ts';
import type { TemplateSegment } from './template-markers.ts';
import type { ChatTemplate } from './template.ts';
import type { Vocabulary } from './vocabulary.ts';

export class PromptTokenizer {
  readonly #model: NativeModel;
  readonly #vocabulary: Vocabulary;
  readonly #template: ChatTemplate | null;
  readonly #slotTokens: number;

  constructor(model: NativeModel, vocabulary: Vocabulary, template: ChatTemplate | null, slotTokens: number) {
    this.#model = model;
    this.#vocabulary = vocabulary;
    this.#template = template;
    this.#slotTokens = slotTokens;
  }

  /**
   * Returns the tokens of each prompt, at least one. Throws 400 `context_length_exceeded` if a prompt leaves no room for
   * a completion, and 400 `unsupported_parameter` for a chat without a chat template.
   */
  async tokenize(request: GenerationRequest): Promise<Uint32Array[]> {
    if (request.kind === 'chat') {
      const { bos, segments } = this.#render(request.messages);
      return [await this.#tokenizePrompt(segments, bos, 'messages')];
    }
    const prompts: Uint32Array[] = [];
    for (const text of request.prompts) {
      // Text prompts may contain special tokens, as with other engines.
      prompts.push(await this.#tokenizePrompt([{ text, trusted: true }], false, 'prompt'));
    }
    return prompts;
  }

  #render(messages: Parameters<ChatTemplate['render']>[0]): ReturnType<ChatTemplate['render']> {
    if (this.#template !== null) return this.#template.render(messages);
    throw new ServiceError(
      'unsupported_parameter',
      'This model has no chat template, so it does not support chat completions. Use text completions.',
      { param: 'messages' },
    );
  }

  async #tokenizePrompt(
    segments: readonly TemplateSegment[],
    bos: boolean,
    param: 'messages' | 'prompt',
  ): Promise<Uint32Array> {
    const text = segments.map((segment) => segment.text).join('');
    await this.#checkLength(text, param);
    const tokens = this.#encode(text, segments, bos);
    if (tokens.length >= this.#slotTokens) throw this.#tooLong(`${tokens.length}`, param);
    return tokens;
  }

  #encode(text: string, segments: readonly TemplateSegment[], bos: boolean): Uint32Array {
    const parts: Uint32Array[] = [];
    const { bosToken } = this.#model;
    if (bosToken !== null && (bos || this.#model.addsBos)) parts.push(Uint32Array.of(bosToken));
    // If possible, tokenizes the whole text, because tokens can span segments, as in training.
    if (this.#hasForgedControls(text, segments))
      for (const segment of segments) parts.push(this.#model.tokenize(segment.text, segment.trusted));
    else parts.push(this.#model.tokenize(text, true));
    const tokens = concat(parts);
    if (tokens.length > 0) return withoutSecondBos(tokens, bosToken);
    // An empty prompt starts with the token that ends a text.
    return Uint32Array.of(bosToken ?? this.#model.eosToken ?? 0);
  }

  /** Whether the text has control tokens outside trusted segments. */
  #hasForgedControls(whole: string, segments: readonly TemplateSegment[]): boolean {
    const { controls } = this.#vocabulary;
    if (controls === null) return false;
    let offset = 0;
    const trustedOffsets: number[] = [];
    for (const { text, trusted } of segments) {
      if (trusted) for (const match of text.matchAll(controls)) trustedOffsets.push(offset + match.index);
      offset += text.length;
    }
    const found = Array.from(whole.matchAll(controls), (match) => match.index);
    return found.length !== trustedOffsets.length || found.some((at, i) => at !== trustedOffsets[i]);
  }

  /**
   * Throws if the text is too long. Tokenization is synchronous, about 1 ms per kilobyte, so this first checks the bytes
   * and then counts tokens in pieces, yielding to the event loop between them.
   */
  async #checkLength(text: string, param: 'messages' | 'prompt'): Promise<void> {
    if (text.length <= PIECE_CHARACTERS) return;
    const minimum = Math.ceil(Buffer.byteLength(text) / this.#vocabulary.longestBytes);
    if (minimum >= this.#slotTokens) throw this.#tooLong(`at least ${minimum}`, param);
    let tokens = 0;
    for (let from = 0, pieces = 1; from < text.length; pieces++) {
      const to = cutPosition(text, from + PIECE_CHARACTERS);
      tokens += this.#model.tokenize(text.slice(from, to), true).length;
      from = to;
      // A cut can split tokens, but not join them.
      const counted = tokens - SPLIT_TOKENS * pieces;
      if (counted >= this.#slotTokens) throw this.#tooLong(`at least ${counted}`, param);
      await nextTurn();
    }
  }

  #tooLong(amount: string, param: 'messages' | 'prompt'): ServiceError {
    const subject = param === 'messages' ? 'the messages have' : 'the prompt has';
    return new ServiceError(
      'context_length_exceeded',
      // Client libraries detect this error by the start of OpenAI's message.
      `This model's maximum context length is ${this.#slotTokens} tokens; ${subject} ${amount}, which leaves no room for a completion.`,
      { param },
    );
  }
}

/** Length of the pieces of a long text that is counted. */
const PIECE_CHARACTERS = 16_384;

/** Maximum additional tokens per cut. */
const SPLIT_TOKENS = 8;

/** Returns the last white space before `end`, or `end`, but not inside a surrogate pair. */
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

/** Removes one BOS if the prompt's text contains another. */
function withoutSecondBos(tokens: Uint32Array, bos: number | null): Uint32Array {
  return bos !== null && tokens[0] === bos && tokens[1] === bos ? tokens.subarray(1) : tokens;
}
