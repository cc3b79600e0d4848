import { ServiceError } from '../../../core/errors.ts';
import { PREFILL_EVENT_MS } from '../../engine.ts';
import type {
  FinishReason,
  GenerationRequest,
  TextEvent,
  TokenLogprob,
  ToolEvent,
} from '../../../core/generation.ts';
import { createToolCallId } from '../../../core/tool-call-id.ts';
import type { NativeSampler } from '../native/sampler.ts';
import type { ChoiceOutput, ChoicePart } from '../output/choice-output.ts';
import type { Drafter } from './drafter.ts';
import { EventQueue } from '../output/event-queue.ts';
import type { OutputConstraint } from '../output/output-constraint.ts';
import type { Vocabulary } from '../prompt/vocabulary.ts';

/** Requests with the same scope share prefixes. A symbol is the scope of a single request, which shares none. */
export type CacheScope = string | symbol;

/** A request in the engine, with its token counts and events. */
export class Job {
  readonly events = new EventQueue();
  /** Changes if the scope is forgotten before all choices have a slot. */
  scope: CacheScope;
  /** Number of alternatives per token; null if log probabilities were not requested. */
  readonly logprobs: number | null;
  /** Whether events contain token IDs. */
  readonly tokenIds: boolean;
  /** Each prompt counts once, regardless of its choices. */
  readonly promptTokens: number;
  /** Prompt tokens that were reused from the prefix cache. */
  cachedTokens = 0;
  /** Tokens sampled so far, of all choices. */
  completionTokens = 0;
  reasoningTokens = 0;
  /** Aborted or failed. Its slots are freed before the next step. */
  dropped = false;
  /** Whether `started` was emitted. */
  started = false;
  #unfinished: number;
  /** Without cached tokens. */
  #computedTokens = 0;
  /** When the request got a slot, or emitted its last `prefill`. */
  #reportedAt = 0;

  constructor(
    {
      cacheScope,
      logprobs,
      choices,
      tokenIds,
    }: Pick<GenerationRequest, 'cacheScope' | 'logprobs' | 'choices' | 'tokenIds'>,
    prompts: readonly Uint32Array[],
  ) {
    this.scope = cacheScope ?? Symbol('not shared');
    this.logprobs = logprobs;
    this.tokenIds = tokenIds;
    this.promptTokens = prompts.reduce((sum, prompt) => sum + prompt.length, 0);
    this.#unfinished = prompts.length * choices;
  }

  /** Emits `started`. Called when a choice gets a slot; only the first call has an effect. */
  start(): void {
    if (this.started) return;
    this.started = true;
    this.#reportedAt = performance.now();
    const { promptTokens, cachedTokens } = this;
    this.events.push({ type: 'started', promptTokens, cachedTokens });
  }

  /** Counts tokens of a prompt, of which one choice computes each. Emits `prefill` if the last event is old enough. */
  promptComputed(tokens: number, now: number): void {
    const { promptTokens, cachedTokens } = this;
    this.#computedTokens += tokens;
    const done = cachedTokens + this.#computedTokens;
    // The tokens of the completion, and of one that is continued, follow.
    if (done >= promptTokens || now - this.#reportedAt < PREFILL_EVENT_MS) return;
    this.#reportedAt = now;
    this.events.push({ type: 'prefill', promptTokens, doneTokens: done });
  }

  finish(choice: number, reason: FinishReason, stopSequence: string | null): void {
    // A continued generation that had already ended never gets a slot.
    this.start();
    this.events.push({ type: 'finish', choice, reason, stopSequence });
    if (--this.#unfinished > 0) return;
    const { promptTokens, cachedTokens, completionTokens, reasoningTokens } = this;
    this.events.push({
      type: 'end',
      usage: { promptTokens, cachedTokens, completionTokens, reasoningTokens },
      usageSource: 'engine',
    });
    this.events.close();
  }

  /** Ends the request with `cause` if it is a `ServiceError`, otherwise with `internal_error`. */
  fail(cause: unknown): void {
    this.dropped = true;
    const message = 'The engine failed while generating this response.';
    this.events.fail(
      cause instanceof ServiceError ? cause : new ServiceError('internal_error', message, { cause }),
    );
  }
}

export type GrammarField = 'response_format' | 'tools';

export interface JobChoiceOptions {
  job: Job;
  index: number;
  /** The tokens to compute before the first one is sampled: the prompt, and the tokens of `replay`. */
  prompt: Uint32Array;
  /** Whether it is the first choice of its prompt. Only the cached tokens of the first choice are counted. */
  first: boolean;
  /** Maximum tokens to sample, at least 1. */
  limit: number;
  /** The echoed prompt, which is sent before the completion; empty if it is not echoed. */
  echo: string;
  output: ChoiceOutput;
  constraint: OutputConstraint;
  /** Returns the tokens of a text of the model, in which control tokens are recognized. */
  readonly tokenize: (text: string) => readonly number[];
  /** The tokens that end the reasoning; empty if the model does not reason. */
  closing: readonly number[];
  /** The tokens that then begin the answer, if the model would reason again otherwise. */
  opensAnswer: readonly number[];
  /** Number of reasoning tokens after which the reasoning is ended. */
  reasoningBudget: number;
  /** The request field that the grammars come from, if there are any. */
  grammarField: GrammarField;
  createSampler(): NativeSampler;
}

/** One choice of a request. Every sampled token counts as a completion token, including the one that ends the text. */
export class JobChoice {
  readonly job: Job;
  readonly prompt: Uint32Array;
  readonly first: boolean;
  /**
   * `leader`: a slot that is computing a prefix of this prompt. `choice`: the choice for which it does so. `until`: the
   * number of tokens to wait for (see `slots.ts`).
   */
  prefixWait: {
    leader: { choice: JobChoice | null; computed: number };
    choice: JobChoice;
    until: number;
  } | null = null;
  /** Created with the first draft. */
  drafter: Drafter | null = null;
  readonly #options: JobChoiceOptions;
  #sampler: NativeSampler | null = null;
  #sampled = 0;
  #calls = 0;
  #reasoningTokens = 0;
  /** Whether the budget has ended the reasoning. */
  #isBudgetUsed = false;
  /** IDs of the tokens since the last event; null if events have none. */
  #tokenIds: number[] | null;
  /** Whether the current token was sampled by another engine, which has sent its events. */
  #isReplaying = false;

  constructor(options: JobChoiceOptions) {
    this.#options = options;
    this.job = options.job;
    this.prompt = options.prompt;
    this.first = options.first;
    this.#tokenIds = options.job.tokenIds ? [] : null;
  }

  /** The request field whose grammar constrains the next token; null if no grammar does. */
  get constrainedBy(): GrammarField | null {
    const { constraint, grammarField } = this.#options;
    return constraint.active ? grammarField : null;
  }

  /** Number of tokens that may still be sampled. */
  get remaining(): number {
    return this.#options.limit - this.#sampled;
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
    const { echo, index } = this.#options;
    if (echo === '') return;
    const { completionTokens } = this.job;
    this.#send({ type: 'token', choice: index, text: echo, completionTokens, logprobs: null }, true);
  }

  /**
   * Returns the tokens to `accept` for a sampled one. This is the token itself, unless the budget of the reasoning is used
   * up, or a call or an answer in a format is required after it. At the end of the budget, or if the token would end the
   * output inside the reasoning, the tokens that end the reasoning take its place. If it would also begin an answer that has
   * a grammar, only the text before remains.
   */
  tokensFor(token: number, vocabulary: Vocabulary): readonly number[] {
    const { output, constraint, closing, opensAnswer, reasoningBudget, tokenize } = this.#options;
    if (output.state !== 'reasoning') return [token];
    if (this.#reasoningTokens >= reasoningBudget) {
      if (this.#isBudgetUsed) return [...closing, ...opensAnswer];
      this.#isBudgetUsed = true;
      return closing;
    }
    if (!constraint.requiresAnswer) return [token];
    if (vocabulary.ends(token)) return closing;
    const end = output.endOfReasoning(token);
    return end === null ? [token] : tokenize(end);
  }

  /**
   * Processes a token that another engine has sampled. Does not emit its text. Returns the finish reason if the choice
   * ends with this token. Throws 400 `invalid_value` if the grammar does not allow the token.
   */
  replay(token: number, vocabulary: Vocabulary): FinishReason | null {
    if (!vocabulary.ends(token) && !this.#options.constraint.advance(token)) {
      const message = 'The format of the response does not allow the tokens in `continuation`.';
      throw new ServiceError('invalid_value', message, { param: 'continuation.tokenIds' });
    }
    this.#isReplaying = true;
    const reason = this.accept(token, null, vocabulary);
    this.#isReplaying = false;
    return reason;
  }

  /**
   * Processes the next token and emits the text that is complete. Returns the finish reason, or null if the choice has
   * not ended.
   */
  accept(token: number, logprob: TokenLogprob | null, vocabulary: Vocabulary): FinishReason | null {
    const { output, constraint, limit } = this.#options;
    this.#sampled++;
    this.job.completionTokens++;
    if (!this.#isReplaying) this.#tokenIds?.push(token);
    if (vocabulary.ends(token)) {
      this.#emit(output.flush());
      return this.#finish(output.stopSequence !== null || output.calls === 0 ? 'stop' : 'tool_calls');
    }
    const before = output.state;
    constraint.push(token);
    const parts = output.push(token, logprob);
    // The tokens that begin and end the reasoning count as reasoning tokens.
    if (before === 'reasoning' || output.state === 'reasoning') {
      this.#reasoningTokens++;
      this.job.reasoningTokens++;
    }
    let reason = output.finishReason;
    if (reason === null && this.#sampled >= limit) {
      parts.push(...output.flush());
      reason = output.stopSequence === null ? 'length' : 'stop';
    }
    this.#emit(parts);
    if (reason !== null) return this.#finish(reason);
    constraint.update(output, this.#isReplaying ? null : this.sampler);
    return null;
  }

  dispose(): void {
    this.#sampler?.dispose();
    this.#sampler = null;
  }

  #finish(reason: FinishReason): FinishReason {
    const { index, output } = this.#options;
    this.job.finish(index, reason, output.stopSequence);
    return reason;
  }

  #emit(parts: readonly ChoicePart[]): void {
    const choice = this.#options.index;
    const { completionTokens } = this.job;
    for (const [index, part] of parts.entries()) {
      const isLast = index === parts.length - 1;
      switch (part.type) {
        case 'text': {
          const logprobs = this.job.logprobs === null ? null : part.logprobs;
          this.#send({ type: 'token', choice, text: part.text, completionTokens, logprobs }, isLast);
          break;
        }
        case 'reasoning':
          this.#send(
            { type: 'reasoning', choice, text: part.text, completionTokens, logprobs: null },
            isLast,
          );
          break;
        case 'call': {
          const call = this.#calls++;
          const id = createToolCallId();
          this.#send({ type: 'tool-call', choice, call, id, name: part.name, completionTokens }, isLast);
          break;
        }
        case 'arguments': {
          const call = this.#calls - 1;
          this.#send({ type: 'tool-arguments', choice, call, text: part.text, completionTokens }, isLast);
        }
      }
    }
  }

  /**
   * Sends an event. Only the last event of a token has the IDs, because the generation cannot be continued between two
   * events of one token.
   */
  #send(event: TextEvent | ToolEvent, isLast: boolean): void {
    if (this.#isReplaying) return;
    if (isLast && this.#tokenIds !== null) {
      event.tokenIds = this.#tokenIds;
      this.#tokenIds = [];
    }
    this.job.events.push(event);
  }
}
