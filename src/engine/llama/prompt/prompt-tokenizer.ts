import { setImmediate as nextTurn } from 'node:timers/promises';
import { ServiceError } from '../../../core/errors.ts';
import type { ChatRequest, CompletionRequest } from '../../../core/generation.ts';
import type { Log } from '../../../support/log.ts';
import type { GgufInfo } from '../../../models/gguf.ts';
import type { NativeModel } from '../native/model.ts';
import { type PromptText, promptText, type ReservedTokens, trustedText } from './prompt-text.ts';
import { RenderingWork } from './template-environment.ts';
import { type RenderedText, TemplateThread } from './template-thread.ts';
import type { ChatTemplate } from './template.ts';
import type { PromptReasoning } from '../tool-calls/reasoning.ts';
import { BYTE_PAIR } from './text-cuts.ts';
import { anyOf, type Vocabulary } from './vocabulary.ts';

interface TokenizedPrompts {
  /** The tokens of each prompt. No prompt is empty. */
  prompts: Uint32Array[];
  /** See `RenderedPrompt`. */
  reasoning: PromptReasoning;
}

export class PromptTokenizer implements AsyncDisposable {
  readonly #model: NativeModel;
  readonly #vocabulary: Vocabulary;
  readonly #template: ChatTemplate | null;
  readonly #slotTokens: number;
  /** Context length that the model was trained with. */
  readonly #ownTokens: number;
  /** Length of the pieces in which a text is tokenized, in UTF-16 code units. */
  readonly #pieceLength: number;
  /** Maximum length of a text that cannot be cut, in UTF-16 code units. */
  readonly #maxRun: number;
  readonly #log: Log;
  #reportedFailure = false;
  /** Characters to tokenize before the event loop gets a turn. */
  #untilTurn: number;
  readonly #reserved: ReservedTokens;
  /** Null if there is no template. */
  readonly #thread: TemplateThread | null;

  constructor(
    {
      model,
      vocabulary,
      template,
      info,
    }: {
      model: NativeModel;
      vocabulary: Vocabulary;
      template: ChatTemplate | null;
      info: Pick<GgufInfo, 'preTokenizer' | 'contextTokens'>;
    },
    slotTokens: number,
    log: Log,
  ) {
    this.#model = model;
    this.#vocabulary = vocabulary;
    this.#template = template;
    this.#slotTokens = slotTokens;
    this.#ownTokens = info.contextTokens;
    const { pieceLength, maxRun } = pieceLimits(model, vocabulary, info.preTokenizer);
    this.#pieceLength = pieceLength;
    this.#untilTurn = pieceLength;
    this.#maxRun = maxRun;
    this.#log = log;
    const userDefined = anyOf(
      vocabulary.userDefined.filter((text) => /[<[|｜]/.test(text) && template?.mentions(text)),
    );
    const reserved = { controls: vocabulary.controls, userDefined };
    this.#reserved = reserved;
    this.#thread =
      template && new TemplateThread({ source: template.source, special: template.special, reserved });
  }

  /**
   * Tokenizes the prompts. Throws 400 `context_length_exceeded` if a prompt leaves no room for a completion, and 400
   * `unsupported_parameter` for a chat without a chat template. Throws the reason of the signal between two pieces of a
   * long text, and while a large chat waits to be rendered.
   */
  async tokenize(request: CompletionRequest, signal: AbortSignal): Promise<TokenizedPrompts> {
    switch (request.kind) {
      case 'chat': {
        const subject = request.tools.length > 0 ? 'the messages and tools have' : 'the messages have';
        this.#refuseLongMessages(request, subject);
        const rendered = await this.#render(request, signal);
        const prompt = await this.#tokenizePrompt(rendered, rendered.bos, subject, signal);
        return { prompts: [prompt], reasoning: rendered.reasoning };
      }
      case 'text': {
        const prompts: Uint32Array[] = [];
        for (const text of request.prompts) {
          prompts.push(await this.#tokenizePrompt(trustedText(text), false, 'the prompt has', signal));
        }
        return { prompts, reasoning: 'closed' };
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#thread?.[Symbol.asyncDispose]();
  }

  /**
   * Refuses messages that are certainly too long for a slot before they are rendered, which takes much longer. Templates
   * write at least one token for each message, and include the whole content of those that are not of the assistant.
   */
  #refuseLongMessages({ messages }: ChatRequest, subject: LengthSubject): void {
    let count = 0;
    let bytes = 0;
    for (const { role, content } of messages) {
      const size = role === 'assistant' ? 0 : Buffer.byteLength(content.trim());
      if (size > 0) count++;
      bytes += size;
    }
    const minimum = Math.max(count, Math.ceil(bytes / this.#vocabulary.longestBytes));
    if (minimum >= this.#slotTokens) throw this.#tooLong(`at least ${minimum}`, subject);
  }

  async #render(request: ChatRequest, signal: AbortSignal): Promise<RenderedText> {
    const [template, thread] = [this.#template, this.#thread];
    if (template === null || thread === null)
      throw new ServiceError(
        'unsupported_parameter',
        'This model has no chat template, so it does not support chat completions. Use text completions.',
        { param: 'messages' },
      );
    try {
      const rendered = isLarge(request) ? null : this.#renderHere(template, request);
      return rendered ?? (await thread.render(request, request.cacheScope, signal));
    } catch (error) {
      this.#reportFailure(error);
      throw error;
    }
  }

  /** Renders a chat in this thread, or returns null if that would take too long. */
  #renderHere(template: ChatTemplate, request: ChatRequest): RenderedText | null {
    const work = new RenderingWork(MAX_WORK_HERE);
    try {
      const { bos, reasoning, segments } = template.render(request, work);
      return { bos, reasoning, ...promptText(segments, this.#reserved) };
    } catch (error) {
      if (work.isExceeded) return null;
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
    { text, ends, special }: PromptText,
    bos: boolean,
    subject: LengthSubject,
    signal: AbortSignal,
  ): Promise<Uint32Array> {
    const minimum = Math.ceil(Buffer.byteLength(text) / this.#vocabulary.longestBytes);
    if (minimum >= this.#slotTokens) throw this.#tooLong(`at least ${minimum}`, subject);
    const { bosToken } = this.#model;
    const parts: Uint32Array[] = [];
    if (bosToken !== null && (bos || this.#model.addsBos)) parts.push(Uint32Array.of(bosToken));
    let count = parts.length;
    let start = 0;
    for (const [index, end] of ends.entries()) {
      const part = text.slice(start, end);
      start = end;
      for (const piece of this.#vocabulary.cuts.pieces(part, this.#pieceLength)) {
        await this.#checkPiece(piece, count, subject, signal);
        const tokens = this.#model.tokenize(piece, special[index] === 1);
        parts.push(tokens);
        count += tokens.length;
        await this.#giveTurn(piece.length);
        signal.throwIfAborted();
        if (piece.length < text.length && count >= this.#slotTokens)
          throw this.#tooLong(`at least ${count}`, subject);
      }
    }
    const tokens = withoutSecondBos(concat(parts), bosToken);
    if (tokens.length >= this.#slotTokens) throw this.#tooLong(`${tokens.length}`, subject);
    // An empty prompt becomes a single token.
    return tokens.length > 0 ? tokens : Uint32Array.of(bosToken ?? this.#model.eosToken ?? 0);
  }

  /** Gives the event loop a turn if enough text was tokenized since the last one: that takes about 1 ms per kilobyte. */
  async #giveTurn(characters: number): Promise<void> {
    this.#untilTurn -= characters + CALL_CHARACTERS;
    if (this.#untilTurn > 0) return;
    this.#untilTurn = this.#pieceLength;
    await nextTurn();
  }

  /**
   * Refuses a piece that could overflow the stack, and one that is certainly too long for the slot after `count` tokens.
   * Counts the tokens of a long piece in smaller ones first, because a piece is tokenized without interruption.
   */
  async #checkPiece(
    piece: string,
    count: number,
    subject: LengthSubject,
    signal: AbortSignal,
  ): Promise<void> {
    if (piece.length > this.#maxRun) throw tooLongRun(piece, this.#maxRun, paramOf(subject));
    if (piece.length <= 2 * this.#pieceLength) return;
    let tokens = count;
    for (let from = 0; from < piece.length; from += this.#pieceLength) {
      const part = piece.slice(from, from + this.#pieceLength);
      tokens += this.#model.tokenize(part, true).length - SPLIT_TOKENS;
      if (tokens >= this.#slotTokens) throw this.#tooLong(`at least ${tokens}`, subject);
      await nextTurn();
      signal.throwIfAborted();
    }
  }

  #tooLong(amount: string, subject: LengthSubject): ServiceError {
    const cause =
      this.#slotTokens >= this.#ownTokens
        ? "This is the model's own limit."
        : 'The model itself supports more: the operator of this service can raise its `engine.contextTokens`.';
    return new ServiceError(
      'context_length_exceeded',
      // Client libraries detect this error by the start of OpenAI's message. For Anthropic's, the largest number is read.
      `This model's maximum context length is ${this.#slotTokens} tokens; ${subject} ${amount}, which leaves no room for a completion. ${cause}`,
      { param: paramOf(subject) },
    );
  }
}

/** Lengths in UTF-16 code units: of the pieces in which a text is tokenized, and the maximum of one that cannot be cut. */
export function pieceLimits(
  model: NativeModel,
  vocabulary: Vocabulary,
  preTokenizer: string | null,
): { pieceLength: number; maxRun: number } {
  const isBytePair = model.vocabularyType === BYTE_PAIR;
  const byStack = isBytePair ? Math.floor(stackBytes() / STACK_BYTES_PER_CHARACTER) : Infinity;
  const byTime = SLOW_PRE_TOKENIZERS.get(preTokenizer ?? '') ?? PIECE_CHARACTERS;
  const pieceLength = Math.min(byTime, Math.floor(byStack / 2));
  return { pieceLength, maxRun: isBytePair && vocabulary.cuts.available ? 2 * pieceLength : byStack };
}

export function tooLongRun(piece: string, maxRun: number, param: string): ServiceError {
  return new ServiceError(
    'invalid_value',
    `\`${param}\` must not have more than ${maxRun} characters in a row without a word boundary, such as a long run of one character; got ${piece.length}.`,
    { param },
  );
}

/** Whether a chat is rendered on the thread because of its size. */
function isLarge({ messages, tools, templateVariables }: ChatRequest): boolean {
  if (messages.length > MAX_MESSAGES_HERE) return true;
  let characters = 0;
  for (const message of messages) {
    characters += message.content?.length ?? 0;
    if (message.role !== 'assistant') continue;
    characters += message.reasoning?.length ?? 0;
    for (const call of message.toolCalls) characters += call.arguments.length + CALL_CHARACTERS;
  }
  // Last, because a long conversation is large without its tools.
  return (
    characters > MAX_CHARACTERS_HERE ||
    characters + JSON.stringify([tools, templateVariables]).length > MAX_CHARACTERS_HERE
  );
}

/** Bounds for a chat that is rendered in the thread that samples, where it takes at most about 10 ms. */
const MAX_MESSAGES_HERE = 256;
const MAX_CHARACTERS_HERE = 65_536;
const MAX_WORK_HERE = 20_000;

/** The work of a tool call, and of a call of the tokenizer, in addition to its text. */
const CALL_CHARACTERS = 64;

/** The words before the number of tokens in the error message. */
type LengthSubject = 'the messages have' | 'the messages and tools have' | 'the prompt has';

function paramOf(subject: LengthSubject): string {
  return subject === 'the prompt has' ? 'prompt' : 'messages';
}

/** Maximum length of the pieces of a long text that can be cut, in UTF-16 code units. Each takes about 10 ms. */
const PIECE_CHARACTERS = 8192;

/**
 * The lengths for pre-tokenizers whose time grows with the square of a run: that of SuperBPE looks at all digits after
 * each three, which takes 40 ms for 1,024 digits and 10 s for 16,384.
 */
const SLOW_PRE_TOKENIZERS: ReadonlyMap<string, number> = new Map([['superbpe', 512]]);

/**
 * The stack that llama.cpp's byte-pair tokenizers are given per character. They match words with regular expressions
 * that recurse, and need up to 512 bytes for each character of a word.
 */
const STACK_BYTES_PER_CHARACTER = 1024;

/** The stack that every system gives a program. */
const MIN_STACK_BYTES = 1024 * 1024;

/** The stack of the process of an engine. */
const MAX_STACK_BYTES = 64 * 1024 * 1024;

/** Returns the size to which the stack of this process may grow. It is at most the one that the tests use. */
function stackBytes(): number {
  const report = process.report.getReport() as { userLimits?: { stack_size_bytes?: { soft: unknown } } };
  const limit = report.userLimits?.stack_size_bytes?.soft;
  if (limit === undefined) return MIN_STACK_BYTES;
  return typeof limit === 'number' ? Math.min(limit, MAX_STACK_BYTES) : MAX_STACK_BYTES;
}

/** Maximum number of tokens that a cut adds. */
const SPLIT_TOKENS = 8;

export function concat(parts: readonly Uint32Array[]): Uint32Array {
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
