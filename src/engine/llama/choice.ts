import { ServiceError } from '../../errors.ts';
import type { FinishReason, TokenLogprob } from '../../generation.ts';
import type { NativeSampler } from './binding.ts';
import { Outbox } from './outbox.ts';
import type { TextStream } from './text-stream.ts';
import type { Vocabulary } from './vocabulary.ts';

/** Who may share a prefix: the caller's scope, or a symbol of its own for a request that shares with none. */
export type CacheScope = string | symbol;

/** A request in the engine: its choices, its counts, and where its events go. */
export class Job {
  readonly outbox = new Outbox();
  readonly scope: CacheScope;
  /** Alternatives listed beside each token; null: no log probabilities. */
  readonly logprobs: number | null;
  /** Of each prompt once, however many choices it has. */
  readonly promptTokens: number;
  /** Prompt tokens that were not computed anew, of `promptTokens`. */
  cachedTokens = 0;
  /** Tokens sampled so far, of all choices. */
  completionTokens = 0;
  /** Nobody wants the rest: set by whoever left, or by a failure. Its slots are freed before the next step. */
  cancelled = false;
  #started = false;
  #unfinished: number;

  constructor(options: {
    scope: CacheScope;
    logprobs: number | null;
    promptTokens: number;
    choices: number;
  }) {
    this.scope = options.scope;
    this.logprobs = options.logprobs;
    this.promptTokens = options.promptTokens;
    this.#unfinished = options.choices;
  }

  get started(): boolean {
    return this.#started;
  }

  /** Tells, once, that the request has a slot. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    const { promptTokens, cachedTokens } = this;
    this.outbox.push({ type: 'started', promptTokens, cachedTokens });
  }

  finish(choice: number, reason: FinishReason): void {
    this.outbox.push({ type: 'finish', choice, reason });
    if (--this.#unfinished > 0) return;
    const { promptTokens, cachedTokens, completionTokens } = this;
    this.outbox.push({
      type: 'end',
      usage: { promptTokens, cachedTokens, completionTokens },
      usageSource: 'engine',
    });
    this.outbox.close();
  }

  /** Ends the whole request: with `cause` where the caller may know it, else with `internal_error`. */
  fail(cause: unknown): void {
    this.cancelled = true;
    const message = 'The engine failed while generating this response.';
    this.outbox.fail(
      cause instanceof ServiceError ? cause : new ServiceError('internal_error', message, { cause }),
    );
  }
}

/** What a choice needs to be generated. */
export interface ChoiceOptions {
  job: Job;
  index: number;
  prompt: Uint32Array;
  /** Whether its cached tokens count: true for the first choice of each prompt. */
  first: boolean;
  /** Most tokens to sample, at least 1: what was asked for, and what the slot leaves. */
  limit: number;
  /** Text to put before the completion; empty: none. */
  echo: string;
  text: TextStream;
  /** Whether a grammar constrains it. */
  constrained: boolean;
  makeSampler(): NativeSampler;
}

/**
 * One choice of a request. Every token sampled for it counts as a completion token, that which ends the text
 * included.
 */
export class Choice {
  readonly job: Job;
  readonly index: number;
  readonly prompt: Uint32Array;
  readonly first: boolean;
  readonly limit: number;
  readonly constrained: boolean;
  /** Set while it waits for a prefix that another request computes: see `prefix-cache.ts`. */
  waitsFor: { leader: { choice: Choice | null; computed: number }; choice: Choice; until: number } | null =
    null;
  readonly #options: ChoiceOptions;
  #sampler: NativeSampler | null = null;
  #sampled = 0;
  /** Log probabilities of tokens whose text has not left, with where that text begins. */
  #held: { from: number; logprob: TokenLogprob }[] = [];
  #heldUntil = 0;
  #shown = 0;

  constructor(options: ChoiceOptions) {
    this.#options = options;
    this.job = options.job;
    this.index = options.index;
    this.prompt = options.prompt;
    this.first = options.first;
    this.limit = options.limit;
    this.constrained = options.constrained;
  }

  /** Whether the request whose prefix it waits for is still computing it. */
  get waiting(): boolean {
    const wait = this.waitsFor;
    return wait !== null && wait.leader.choice === wait.choice && wait.leader.computed < wait.until;
  }

  /** Its sampler, which exists from the first token on. */
  get sampler(): NativeSampler {
    return (this.#sampler ??= this.#options.makeSampler());
  }

  /** Writes what comes before the completion. */
  begin(): void {
    this.#emit(this.#options.echo, null);
  }

  /** Takes the next token, publishes what text may leave, and says whether, and why, the choice has ended. */
  accept(token: number, logprob: TokenLogprob | null, vocabulary: Vocabulary): FinishReason | null {
    const { text } = this.#options;
    this.#sampled++;
    this.job.completionTokens++;
    if (vocabulary.ends(token)) return this.#end(text.flush(), 'stop');
    if (logprob !== null) {
      this.#held.push({ from: this.#heldUntil, logprob });
      this.#heldUntil += vocabulary.tokenText(token).length;
    }
    const ready = text.push(token);
    if (text.stopped) return this.#end(ready, 'stop');
    if (this.#sampled >= this.limit) {
      const rest = text.flush();
      return this.#end(ready + rest, text.stopped ? 'stop' : 'length');
    }
    this.#publish(ready);
    return null;
  }

  dispose(): void {
    this.#sampler?.dispose();
    this.#sampler = null;
  }

  #end(text: string, reason: FinishReason): FinishReason {
    // A stop sequence takes the tokens that only it was made of; any other end shows all.
    if (!this.#options.text.stopped) this.#shown = Number.POSITIVE_INFINITY;
    this.#publish(text);
    this.job.finish(this.index, reason);
    return reason;
  }

  #publish(text: string): void {
    if (this.job.logprobs === null) return this.#emit(text, null);
    this.#shown += text.length;
    const due = this.#held.filter((held) => held.from < this.#shown);
    if (due.length > 0) this.#held = this.#held.slice(due.length);
    this.#emit(
      text,
      due.map((held) => held.logprob),
    );
  }

  #emit(text: string, logprobs: readonly TokenLogprob[] | null): void {
    if (text === '' && (logprobs === null || logprobs.length === 0)) return;
    this.job.outbox.push({
      type: 'token',
      choice: this.index,
      text,
      completionTokens: this.job.completionTokens,
      logprobs,
    });
  }
}
