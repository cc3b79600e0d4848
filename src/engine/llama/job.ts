import { ServiceError } from '../../errors.ts';
import type { FinishReason, GenerationRequest, TokenLogprob } from '../../generation.ts';
import { createToolCallId } from '../../openai/tool-call-id.ts';
import type { NativeSampler } from './binding.ts';
import type { ChatOutput } from './chat-output.ts';
import { HeldLogprobs } from './held-logprobs.ts';
import { Outbox } from './outbox.ts';
import type { OutputConstraint } from './output-constraint.ts';
import type { TextStream } from './text-stream.ts';
import type { OutputPart } from './tool-calls/part-collector.ts';
import type { Vocabulary } from './vocabulary.ts';

/** Requests with the same scope share prefixes. A symbol is the scope of a single request, which shares none. */
export type CacheScope = string | symbol;

/** A request in the engine, with its token counts and events. */
export class Job {
  readonly outbox = new Outbox();
  readonly scope: CacheScope;
  /** Number of alternatives per token; null if log probabilities were not requested. */
  readonly logprobs: number | null;
  /** Each prompt counts once, regardless of its choices. */
  readonly promptTokens: number;
  /** Prompt tokens that were reused from the prefix cache. */
  cachedTokens = 0;
  /** Tokens sampled so far, of all choices. */
  completionTokens = 0;
  reasoningTokens = 0;
  /** Aborted or failed. Its slots are freed before the next step. */
  cancelled = false;
  /** Whether `started` was emitted. */
  started = false;
  #unfinished: number;

  constructor(
    { cacheScope, logprobs, choices }: Pick<GenerationRequest, 'cacheScope' | 'logprobs' | 'choices'>,
    prompts: readonly Uint32Array[],
  ) {
    this.scope = cacheScope ?? Symbol('not shared');
    this.logprobs = logprobs;
    this.promptTokens = prompts.reduce((sum, prompt) => sum + prompt.length, 0);
    this.#unfinished = prompts.length * choices;
  }

  /** Emits `started`. Called when a choice gets a slot; only the first call has an effect. */
  start(): void {
    if (this.started) return;
    this.started = true;
    const { promptTokens, cachedTokens } = this;
    this.outbox.push({ type: 'started', promptTokens, cachedTokens });
  }

  finish(choice: number, reason: FinishReason): void {
    this.outbox.push({ type: 'finish', choice, reason });
    if (--this.#unfinished > 0) return;
    const { promptTokens, cachedTokens, completionTokens, reasoningTokens } = this;
    this.outbox.push({
      type: 'end',
      usage: { promptTokens, cachedTokens, completionTokens, reasoningTokens },
      usageSource: 'engine',
    });
    this.outbox.close();
  }

  /** Ends the request with `cause` if it is a `ServiceError`, otherwise with `internal_error`. */
  fail(cause: unknown): void {
    this.cancelled = true;
    const message = 'The engine failed while generating this response.';
    this.outbox.fail(
      cause instanceof ServiceError ? cause : new ServiceError('internal_error', message, { cause }),
    );
  }
}

export type GrammarField = 'response_format' | 'tools';

export interface JobChoiceOptions {
  job: Job;
  index: number;
  prompt: Uint32Array;
  /** Whether it is the first choice of its prompt. Only the cached tokens of the first choice are counted. */
  first: boolean;
  /** Maximum tokens to sample, at least 1. */
  limit: number;
  /** The echoed prompt, which is sent before the completion; empty if it is not echoed. */
  echo: string;
  text: TextStream;
  /**
   * The parser and grammar of a chat with tools or reasoning; otherwise null. If set, `text` includes control tokens,
   * and `output` applies the stop sequences.
   */
  chat: { output: ChatOutput; constraint: OutputConstraint } | null;
  /**
   * The request field that the grammar comes from; null if there is no grammar. Without `chat`, the grammar constrains
   * all text.
   */
  grammarField: GrammarField | null;
  createSampler(): NativeSampler;
}

/** One choice of a request. Every sampled token counts as a completion token, including the one that ends the text. */
export class JobChoice {
  readonly job: Job;
  readonly prompt: Uint32Array;
  readonly first: boolean;
  /**
   * A slot that is computing a prefix of this prompt, the choice in it, and the number of tokens to wait for (see
   * `prefix-cache.ts`).
   */
  prefixWait: {
    leader: { choice: JobChoice | null; computed: number };
    choice: JobChoice;
    until: number;
  } | null = null;
  readonly #options: JobChoiceOptions;
  #sampler: NativeSampler | null = null;
  #sampled = 0;
  #calls = 0;
  /** Log probabilities of tokens whose text is held back, with the position of that text. */
  #pendingLogprobs: { from: number; logprob: TokenLogprob }[] = [];
  #pendingEnd = 0;
  #releasedLength = 0;
  /** Used instead of `#pendingLogprobs` in chats with tools or reasoning. */
  readonly #heldLogprobs = new HeldLogprobs();

  constructor(options: JobChoiceOptions) {
    this.#options = options;
    this.job = options.job;
    this.prompt = options.prompt;
    this.first = options.first;
  }

  /** The request field whose grammar constrains the next token; null if no grammar does. */
  get constrainedBy(): GrammarField | null {
    const { chat, grammarField } = this.#options;
    return chat === null || chat.constraint.active ? grammarField : null;
  }

  /** Whether the prefix that the choice waits for is still being computed. */
  get isWaiting(): boolean {
    const wait = this.prefixWait;
    return wait !== null && wait.leader.choice === wait.choice && wait.leader.computed < wait.until;
  }

  /** The sampler, created when it is first used. */
  get sampler(): NativeSampler {
    return (this.#sampler ??= this.#options.createSampler());
  }

  /** Emits the echoed prompt. */
  begin(): void {
    this.#emit(this.#options.echo, null);
  }

  /**
   * Processes the next token and emits the text that is complete. Returns the finish reason, or null if the choice has
   * not ended.
   */
  accept(token: number, logprob: TokenLogprob | null, vocabulary: Vocabulary): FinishReason | null {
    const { text, limit } = this.#options;
    this.#sampled++;
    this.job.completionTokens++;
    const { chat } = this.#options;
    if (chat !== null) return this.#acceptChat(chat, token, logprob, vocabulary);
    if (vocabulary.ends(token)) return this.#end(text.flush(), 'stop');
    if (logprob !== null) {
      this.#pendingLogprobs.push({ from: this.#pendingEnd, logprob });
      this.#pendingEnd += vocabulary.tokenText(token).length;
    }
    const ready = text.push(token);
    if (text.stopped) return this.#end(ready, 'stop');
    if (this.#sampled >= limit) {
      const rest = text.flush();
      return this.#end(ready + rest, text.stopped ? 'stop' : 'length');
    }
    this.#publish(ready);
    return null;
  }

  #acceptChat(
    { output, constraint }: NonNullable<JobChoiceOptions['chat']>,
    token: number,
    logprob: TokenLogprob | null,
    vocabulary: Vocabulary,
  ): FinishReason | null {
    const { text, limit, index } = this.#options;
    if (vocabulary.ends(token)) {
      this.#emitParts([...output.push(text.flush()), ...output.flush()]);
      const reason = output.stopped || output.calls === 0 ? 'stop' : 'tool_calls';
      this.job.finish(index, reason);
      return reason;
    }
    const before = output.state;
    const isControl = vocabulary.isControl(token);
    const ready = text.push(token);
    if (logprob !== null && !isControl) this.#heldLogprobs.add(ready, logprob);
    const parts = output.push(ready, isControl);
    // The tokens that begin and end the reasoning count as reasoning tokens.
    if (before === 'reasoning' || output.state === 'reasoning') this.job.reasoningTokens++;
    let reason = output.finishReason;
    if (reason === null && this.#sampled >= limit) {
      parts.push(...output.push(text.flush()), ...output.flush());
      reason = output.stopped ? 'stop' : 'length';
    }
    this.#emitParts(parts);
    if (before === 'call' && output.state !== 'call') this.#heldLogprobs.clear();
    if (reason !== null) this.job.finish(index, reason);
    else constraint.update(token, output, this.sampler);
    return reason;
  }

  dispose(): void {
    this.#sampler?.dispose();
    this.#sampler = null;
  }

  #end(text: string, reason: FinishReason): FinishReason {
    // Release all log probabilities, except those of tokens that belong only to a stop sequence.
    if (!this.#options.text.stopped) this.#releasedLength = Number.POSITIVE_INFINITY;
    this.#publish(text);
    this.job.finish(this.#options.index, reason);
    return reason;
  }

  /** Emits parts. Only text has log probabilities, as with OpenAI. */
  #emitParts(parts: readonly OutputPart[]): void {
    const choice = this.#options.index;
    const { completionTokens } = this.job;
    for (const part of parts) {
      if (part.type !== 'text') this.#heldLogprobs.clear();
      switch (part.type) {
        case 'text':
          this.#emit(part.text, this.job.logprobs === null ? null : this.#heldLogprobs.release(part.text));
          break;
        case 'reasoning':
          this.job.outbox.push({
            type: 'reasoning',
            choice,
            text: part.text,
            completionTokens,
            logprobs: null,
          });
          break;
        case 'call':
          this.#calls++;
          this.job.outbox.push({
            type: 'tool-call',
            choice,
            call: this.#calls - 1,
            id: createToolCallId(),
            name: part.name,
            completionTokens,
          });
          break;
        case 'arguments':
          this.job.outbox.push({
            type: 'tool-arguments',
            choice,
            call: this.#calls - 1,
            text: part.text,
            completionTokens,
          });
      }
    }
  }

  #publish(text: string): void {
    if (this.job.logprobs === null) return this.#emit(text, null);
    this.#releasedLength += text.length;
    const due = this.#pendingLogprobs.filter((pending) => pending.from < this.#releasedLength);
    if (due.length > 0) this.#pendingLogprobs = this.#pendingLogprobs.slice(due.length);
    this.#emit(
      text,
      due.map((pending) => pending.logprob),
    );
  }

  #emit(text: string, logprobs: readonly TokenLogprob[] | null): void {
    if (text === '' && (logprobs === null || logprobs.length === 0)) return;
    this.job.outbox.push({
      type: 'token',
      choice: this.#options.index,
      text,
      completionTokens: this.job.completionTokens,
      logprobs,
    });
  }
}
