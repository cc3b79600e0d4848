import { setImmediate as turn } from 'node:timers/promises';
import { ServiceError } from '../../errors.ts';
import type { GenerationRequest } from '../../generation.ts';
import type { NativeModel } from './binding.ts';
import type { TemplateSegment } from './template-markers.ts';
import type { ChatTemplate } from './template.ts';
import type { Vocabulary } from './vocabulary.ts';

/** Turns what was asked into tokens, and refuses what no slot can hold. */
export class PromptReader {
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
   * The request's prompts in tokens, none empty. 400 `context_length_exceeded` at `messages` or `prompt` where one
   * leaves no room for an answer of one token, 400 `unsupported_parameter` where the model takes no chats.
   */
  async read(request: GenerationRequest): Promise<Uint32Array[]> {
    if (request.kind === 'chat') {
      const { bos, segments } = this.#render(request.messages);
      return [await this.#fitting(segments, bos, 'messages')];
    }
    const prompts: Uint32Array[] = [];
    for (const text of request.prompts) {
      // Whoever writes the whole prompt writes its special tokens too, as with every engine.
      prompts.push(await this.#fitting([{ text, trusted: true }], false, 'prompt'));
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

  async #fitting(
    segments: readonly TemplateSegment[],
    bos: boolean,
    param: 'messages' | 'prompt',
  ): Promise<Uint32Array> {
    await this.#refuseTooLong(segments.map((segment) => segment.text).join(''), param);
    const tokens = this.#tokenize(segments, bos);
    if (tokens.length >= this.#slotTokens) throw this.#tooLong(`${tokens.length}`, param);
    return tokens;
  }

  #tokenize(segments: readonly TemplateSegment[], bos: boolean): Uint32Array {
    const parts: Uint32Array[] = [];
    const { bosToken } = this.#model;
    if (bosToken !== null && (bos || this.#model.addsBos)) parts.push(Uint32Array.of(bosToken));
    // Of one piece a text becomes the tokens that the model was trained on: they may reach over the borders.
    if (this.#forgeable(segments))
      for (const segment of segments) parts.push(this.#model.tokenize(segment.text, segment.trusted));
    else parts.push(this.#model.tokenize(segments.map((segment) => segment.text).join(''), true));
    const tokens = joined(parts);
    if (tokens.length > 0) return withoutSecondBos(tokens, bosToken);
    // An empty prompt: the model begins with what ends a text.
    return Uint32Array.of(bosToken ?? this.#model.eosToken ?? 0);
  }

  /** Whether control tokens stand anywhere in the text but where the template itself put them. */
  #forgeable(segments: readonly TemplateSegment[]): boolean {
    const { controls } = this.#vocabulary;
    if (controls === null) return false;
    let offset = 0;
    const own: number[] = [];
    for (const { text, trusted } of segments) {
      if (trusted) for (const match of text.matchAll(controls)) own.push(offset + match.index);
      offset += text.length;
    }
    const found = segments
      .map((segment) => segment.text)
      .join('')
      .matchAll(controls)
      .map((match) => match.index)
      .toArray();
    return found.length !== own.length || found.some((at, i) => at !== own[i]);
  }

  /**
   * Tokenizing is synchronous, a millisecond a kilobyte: a text that cannot fit is refused by its bytes, and a
   * long one is counted in pieces first, with a turn of the event loop between them, until it is too long.
   */
  async #refuseTooLong(text: string, param: 'messages' | 'prompt'): Promise<void> {
    if (text.length <= PIECE) return;
    const least = Math.ceil(Buffer.byteLength(text) / this.#vocabulary.longestBytes);
    if (least >= this.#slotTokens) throw this.#tooLong(`at least ${least}`, param);
    let tokens = 0;
    for (let from = 0, pieces = 1; from < text.length; pieces++) {
      const to = cut(text, from + PIECE);
      tokens += this.#model.tokenize(text.slice(from, to), true).length;
      from = to;
      // A cut can split a few tokens, never join them.
      const counted = tokens - SPLIT_TOKENS * pieces;
      if (counted >= this.#slotTokens) throw this.#tooLong(`at least ${counted}`, param);
      await turn();
    }
  }

  #tooLong(amount: string, param: 'messages' | 'prompt'): ServiceError {
    const what = param === 'messages' ? 'the messages have' : 'the prompt has';
    return new ServiceError(
      'context_length_exceeded',
      // It begins as OpenAI's does: there are libraries that tell this fault by these words.
      `This model's maximum context length is ${this.#slotTokens} tokens; ${what} ${amount}, which leaves no room for a completion.`,
      { param },
    );
  }
}

/** Characters that are tokenized in one go while only counting. */
const PIECE = 16_384;

/** Tokens that one cut can make out of one. */
const SPLIT_TOKENS = 8;

/** The last white space before `end`, or `end` itself, not between the halves of a surrogate pair. */
function cut(text: string, end: number): number {
  if (end >= text.length) return text.length;
  for (let at = end; at > end - 256; at--) if (text.charCodeAt(at) <= 0x20) return at;
  const code = text.charCodeAt(end);
  return code >= 0xdc00 && code <= 0xdfff ? end - 1 : end;
}

function joined(parts: readonly Uint32Array[]): Uint32Array {
  if (parts.length === 1 && parts[0] !== undefined) return parts[0];
  const tokens = new Uint32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    tokens.set(part, at);
    at += part.length;
  }
  return tokens;
}

/** A prompt that spells out its own begin token keeps one of the two. */
function withoutSecondBos(tokens: Uint32Array, bos: number | null): Uint32Array {
  return bos !== null && tokens[0] === bos && tokens[1] === bos ? tokens.subarray(1) : tokens;
}
