import { ServiceError } from '../../../src/core/errors.ts';
import { outputOf, refuseOtherKind } from '../../../src/core/features.ts';
import {
  countTokens,
  NO_USAGE,
  type EmbeddingRequest,
  type RerankRequest,
  type GenerationRequest,
  type TextEvent,
  type ToolEvent,
  type Usage,
  echoedPrompts,
  type GenerationKind,
  promptTexts,
  type EngineEvent,
  type GenerationEvent,
} from '../../../src/core/generation.ts';
import type { ModelDescription, Engine, EngineHealth } from '../../../src/engine/engine.ts';
import {
  planCompletions,
  tokenId,
  type Completion,
  type PlannedToken,
  countPromptTokens,
  fakeLogprobs,
  fakeVector,
  wordShare,
  hash,
} from './completion.ts';
import { parseDirective, type Directive } from './directive.ts';
import { SCRIPTED_DEFAULTS, type ScriptedOptions } from './options.ts';
import { asError, messageOf } from '../../../src/support/thrown.ts';

/** Tokens after which the event loop gets a turn. */
const MAX_BURST_TOKENS = 16;

/**
 * An engine without a model. Equal requests get equal texts. Supports slots, limits, stop sequences, choices, log
 * probabilities, JSON formats, tool calls and reasoning, and the faults that a directive in the request asks for
 * (`scripted:{…}`, see `Directive`).
 */
export class ScriptedEngine implements Engine {
  readonly #options: ScriptedOptions;
  readonly #slots: SlotQueue;
  /** Limits prompt processing to one request at a time. */
  readonly #processor = new SlotQueue(1, Infinity);
  readonly #prefixCache: ScriptedPrefixCache;
  /** Prompt tokens of the requests in slots. */
  #heldTokens = 0;
  /** When `hangAfter` took effect, in `performance.now()` milliseconds; null if the engine is not stuck. */
  #stuckSinceMs: number | null = null;
  readonly #tokens = {
    promptTokens: 0,
    cachedTokens: 0,
    completionTokens: 0,
    draftTokens: 0,
    acceptedDraftTokens: 0,
  };

  constructor(options: Partial<ScriptedOptions> = {}) {
    this.#options = { ...SCRIPTED_DEFAULTS, ...options };
    if (!(this.#options.slots >= 1)) throw new RangeError('slots: expected at least 1');
    this.#slots = new SlotQueue(this.#options.slots, this.#options.queue);
    this.#prefixCache = new ScriptedPrefixCache(this.#options.cacheTokens);
  }

  async *generate(request: GenerationRequest, signal: AbortSignal): AsyncGenerator<EngineEvent> {
    signal.throwIfAborted();
    refuseOtherKind(request, outputOf(this.describe().modality ?? ''));
    const directive = readDirective(request);
    if (directive.error)
      throw new ServiceError(
        directive.error,
        'A directive in the request makes the scripted engine refuse it.',
      );
    const { total, longest } = this.#countPrompts(request);
    const availableTokens = this.#options.contextTokens - longest;
    const completions = planCompletions(request, directive, this.#options, availableTokens);
    const continued = continuedUsage(request, completions);
    using pause = new Pause(signal);
    await this.#slots.acquire(pause);
    this.#heldTokens += total;
    try {
      await pause.forMs(directive.startMs ?? 0);
      const processed = await this.#processPrompt(request, total, pause);
      const cachedTokens = Math.min(directive.cachedTokens ?? processed, total);
      this.#tokens.promptTokens += total;
      this.#tokens.cachedTokens += cachedTokens;
      yield { type: 'started', promptTokens: total, cachedTokens };
      if (directive.prefillTokens !== undefined)
        yield { type: 'prefill', promptTokens: total, doneTokens: Math.min(directive.prefillTokens, total) };
      await pause.forMs(directive.prefillMs ?? this.#options.prefillMs);
      const usage = { ...continued, promptTokens: total, cachedTokens };
      switch (request.kind) {
        case 'chat':
        case 'text':
          yield* this.#emitTokens(request, directive, completions, pause, usage);
          this.#prefixCache.add(request, textOf(completions));
          break;
        case 'embedding':
          yield* this.#emitVectors(request, directive, pause);
          break;
        case 'rerank':
          yield* this.#emitScores(request, directive, pause);
      }
      yield { type: 'end', usage, usageSource: 'engine' };
    } finally {
      this.#heldTokens -= total;
      this.#slots.release();
    }
  }

  countPromptTokens(request: GenerationRequest): Promise<number> {
    return Promise.try(() => this.#countPrompts(request).total);
  }

  /** Throws 400 `context_length_exceeded` if a prompt leaves no room for a completion. */
  #countPrompts(request: GenerationRequest): { total: number; longest: number } {
    const counts = countPromptTokens(request);
    const longest = Math.max(...counts);
    const { contextTokens } = this.#options;
    if (longest >= contextTokens) throw tooLong(request, longest, contextTokens);
    return { total: counts.reduce((sum, count) => sum + count, 0), longest };
  }

  /** The prompt tokens of the requests in slots, as a share of the simulated cache: 0 to 1. */
  get cacheUsage(): number {
    return this.#heldTokens === 0 ? 0 : Math.min(1, this.#heldTokens / this.#options.cacheTokens);
  }

  forget(cacheScope: string): void {
    this.#prefixCache.forget(cacheScope);
  }

  health(): EngineHealth {
    const { slots, tokenMs } = this.#options;
    const { inUse, queued } = this.#slots;
    const stuckMs = this.#stuckSinceMs === null ? 0 : performance.now() - this.#stuckSinceMs;
    return {
      slots,
      slotsInUse: inUse,
      queued,
      lastStepAgeMs: inUse > 0 ? Math.round(stuckMs) : null,
      expectedStepMs: tokenMs,
      ...this.#tokens,
      conversations: { entries: 0, bytes: 0, saves: 0, loads: 0, loadMs: 0 },
    };
  }

  describe(): ModelDescription {
    return {
      contextTokens: this.#options.contextTokens,
      maxCompletionTokens: this.#options.contextTokens,
      quantization: 'none',
      tokenizer: 'scripted',
      instructType: null,
      ...(this.#options.dimensions > 0 && { modality: 'text->embedding' }),
      ...(this.#options.ranks && { modality: 'text->rerank' }),
    };
  }

  /** Processes a prompt in simulated time, then adds it to the cache. Returns how many tokens were cached. */
  async #processPrompt(request: GenerationRequest, promptTokens: number, pause: Pause): Promise<number> {
    await this.#processor.acquire(pause);
    try {
      // An engine computes at least the last token of a prompt.
      const cachedTokens = Math.min(this.#prefixCache.cachedTokens(request), promptTokens - 1);
      await pause.forMs((promptTokens - cachedTokens) * this.#options.promptTokenMs);
      this.#prefixCache.add(request, '');
      return cachedTokens;
    } finally {
      this.#processor.release();
    }
  }

  /** Emits one token of each choice per step, and counts them in `usage`. */
  async *#emitTokens(
    request: GenerationRequest,
    directive: Directive,
    completions: readonly Completion[],
    pause: Pause,
    usage: Usage,
  ): AsyncGenerator<GenerationEvent> {
    const from = usage.completionTokens;
    const longest = Math.max(from + 1, ...completions.map(({ tokens }) => tokens.length));
    yield* echo(echoedPrompts(request), request.choices);
    for (let step = from; step < longest; step++) {
      const tokenMs = this.#tokenMs(directive);
      if (step > from && tokenMs > 0) await pause.forMs(tokenMs);
      else if (step % MAX_BURST_TOKENS === MAX_BURST_TOKENS - 1) await pause.yieldToEventLoop();
      for (const { choice, tokens, reason, stopSequence } of completions) {
        const token = tokens[step];
        if (token !== undefined) {
          await this.#injectFault(directive, usage.completionTokens, pause);
          this.#tokens.completionTokens++;
          const event = eventOf(token, choice, usage.completionTokens + 1, request.logprobs);
          if (request.tokenIds) event.tokenIds = [tokenId(token)];
          countTokens(usage, event);
          yield event;
        }
        if (step === Math.max(from, tokens.length - 1)) {
          yield { type: 'finish', choice, reason, stopSequence };
        }
      }
    }
    await this.#injectFault(directive, usage.completionTokens, pause);
  }

  /** Emits the vectors. Faults count them instead of tokens. */
  async *#emitVectors(
    { inputs, dimensions }: EmbeddingRequest,
    directive: Directive,
    pause: Pause,
  ): AsyncGenerator<GenerationEvent> {
    for (const [index, input] of inputs.entries()) {
      await this.#injectFault(directive, index, pause);
      if (index > 0) await pause.forMs(this.#tokenMs(directive));
      yield { type: 'embedding', index, vector: fakeVector(input, dimensions ?? this.#options.dimensions) };
    }
    await this.#injectFault(directive, inputs.length, pause);
  }

  /** Emits the scores, as `#emitVectors` emits vectors. */
  async *#emitScores(
    { query, documents }: RerankRequest,
    directive: Directive,
    pause: Pause,
  ): AsyncGenerator<GenerationEvent> {
    for (const [index, document] of documents.entries()) {
      await this.#injectFault(directive, index, pause);
      if (index > 0) await pause.forMs(this.#tokenMs(directive));
      yield { type: 'score', index, score: wordShare(query, document) };
    }
    await this.#injectFault(directive, documents.length, pause);
  }

  #tokenMs(directive: Directive): number {
    const { tokenMs, tokenMsPerRequest } = this.#options;
    return (directive.tokenMs ?? tokenMs) + tokenMsPerRequest * (this.#slots.inUse - 1);
  }

  /** Injects the faults that are due after `emitted` tokens. */
  async #injectFault(directive: Directive, emitted: number, pause: Pause): Promise<void> {
    if (directive.hangAfter === emitted) this.#stuckSinceMs ??= performance.now();
    if (this.#stuckSinceMs !== null) await pause.untilAborted();
    // Earlier tokens must reach the client first.
    if (directive.dieAfter === emitted || directive.freezeAfter === emitted) {
      // The first turn flushes the streams, the second writes to the sockets.
      await pause.yieldToEventLoop();
      await pause.yieldToEventLoop();
    }
    if (directive.dieAfter === emitted) process.kill(process.pid, 'SIGKILL');
    if (directive.freezeAfter === emitted) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    if (directive.errorAfter === emitted)
      throw new ServiceError('internal_error', 'The scripted engine failed.');
  }
}

/** Returns the text of the first choice. */
function textOf([completion]: readonly Completion[]): string {
  return (completion?.tokens ?? []).map((token) => (token.type === 'token' ? token.text : '')).join('');
}

/**
 * Returns the usage of the tokens that the request continues. Throws 400 `invalid_value` if the completion does not
 * start with these tokens.
 */
function continuedUsage({ continuation }: GenerationRequest, [completion]: readonly Completion[]): Usage {
  const usage = { ...NO_USAGE };
  for (const [index, id] of (continuation?.tokenIds ?? []).entries()) {
    const token = completion?.tokens[index];
    if (token === undefined || tokenId(token) !== id) {
      const param = `continuation.tokenIds[${index}]`;
      throw new ServiceError('invalid_value', `\`${param}\` is not the next token.`, { param });
    }
    usage.completionTokens++;
    if (token.type === 'reasoning') usage.reasoningTokens++;
  }
  return usage;
}

function eventOf(
  token: PlannedToken,
  choice: number,
  completionTokens: number,
  alternatives: number | null,
): TextEvent | ToolEvent {
  if (token.type === 'tool-call' || token.type === 'tool-arguments') {
    return { ...token, choice, completionTokens };
  }
  const { type, text } = token;
  const logprobs = alternatives === null ? null : fakeLogprobs(text, alternatives);
  return { type, choice, text, completionTokens, logprobs };
}

function* echo(prompts: readonly string[], choices: number): Generator<GenerationEvent> {
  for (const [prompt, text] of prompts.entries()) {
    for (let index = 0; index < choices; index++) {
      const choice = prompt * choices + index;
      yield { type: 'token', choice, text, completionTokens: 0, logprobs: null };
    }
  }
}

function readDirective(request: GenerationRequest): Directive {
  try {
    return parseDirective(request);
  } catch (error) {
    const reason = messageOf(error);
    throw new ServiceError('invalid_value', `The scripted directive is invalid: ${reason}`);
  }
}

const PROMPT_FIELDS: Readonly<Record<GenerationKind, string>> = {
  chat: 'messages',
  text: 'prompt',
  embedding: 'input',
  rerank: 'documents',
};

function tooLong(request: GenerationRequest, promptTokens: number, contextTokens: number): ServiceError {
  return new ServiceError(
    'context_length_exceeded',
    `This model's maximum context length is ${contextTokens} tokens; the prompt has ${promptTokens}, which leaves no room for a completion.`,
    { param: PROMPT_FIELDS[request.kind] },
  );
}

/** Slots, assigned in the order of requests. */
export class SlotQueue {
  readonly #maxWaiting: number;
  #free: number;
  readonly #slots: number;
  readonly #waiting = new Set<() => void>();

  constructor(slots: number, maxWaiting: number) {
    this.#slots = slots;
    this.#free = slots;
    this.#maxWaiting = maxWaiting;
  }

  get inUse(): number {
    return this.#slots - this.#free;
  }

  get queued(): number {
    return this.#waiting.size;
  }

  /** Waits for a slot, which is in use until `release()`. Throws `queue_full`. */
  async acquire(pause: Pause): Promise<void> {
    if (this.#free > 0) {
      this.#free--;
      return;
    }
    if (this.#waiting.size >= this.#maxWaiting) {
      throw new ServiceError(
        'queue_full',
        `The queue of this model is full: ${this.#waiting.size} requests are waiting. Try again later.`,
        { retryAfterMs: 1000 },
      );
    }
    await pause.until((done) => {
      this.#waiting.add(done);
      return () => this.#waiting.delete(done);
    });
  }

  release(): void {
    const [next] = this.#waiting;
    if (!next) this.#free++;
    else {
      this.#waiting.delete(next);
      next();
    }
  }
}

/** Size of a block, in tokens and in characters. */
const BLOCK_TOKENS = 16;
const BLOCK_CHARACTERS = 64;

/** A simulated prefix cache, which keeps the most recently used blocks of tokens. */
export class ScriptedPrefixCache {
  readonly #maxBlocks: number;
  /** The hashes of prefixes that end with a block, with their scopes, in the order of their last use. */
  readonly #blocks = new Map<number, string | null>();

  /** `maxTokens` is the size of the cache; 0 turns it off. */
  constructor(maxTokens: number) {
    this.#maxBlocks = Math.floor(maxTokens / BLOCK_TOKENS);
  }

  /** Returns the number of cached tokens at the start of the prompt. */
  cachedTokens(request: GenerationRequest): number {
    const blocks = this.#blocksOf(request, '');
    const missing = blocks.findIndex((block) => !this.#blocks.has(block));
    return (missing === -1 ? blocks.length : missing) * BLOCK_TOKENS;
  }

  /** Adds the prompt, followed by the text of the completion. */
  add(request: GenerationRequest, completion: string): void {
    // The first block comes last, so that it is evicted last.
    for (const block of this.#blocksOf(request, completion).reverse()) {
      this.#blocks.delete(block);
      this.#blocks.set(block, request.cacheScope);
    }
    for (const block of this.#blocks.keys()) {
      if (this.#blocks.size <= this.#maxBlocks) break;
      this.#blocks.delete(block);
    }
  }

  forget(cacheScope: string): void {
    for (const [block, scope] of this.#blocks) if (scope === cacheScope) this.#blocks.delete(block);
  }

  #blocksOf(request: GenerationRequest, completion: string): number[] {
    if (this.#maxBlocks === 0 || request.cacheScope === null) return [];
    const text = [...promptTexts(request), completion].join('\n');
    let last = hash(request.cacheScope);
    return Array.from({ length: Math.floor(text.length / BLOCK_CHARACTERS) }, (_, block) => {
      const start = block * BLOCK_CHARACTERS;
      last = hash(`${last} ${text.slice(start, start + BLOCK_CHARACTERS)}`);
      return last;
    });
  }
}

/**
 * The pauses of one request. They reject when the signal is aborted. The class adds one listener per request instead of
 * one per token.
 */
export class Pause implements Disposable {
  readonly #signal: AbortSignal;
  #reject: ((reason: unknown) => void) | null = null;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    signal.addEventListener('abort', this);
  }

  handleEvent(): void {
    this.#reject?.(this.#signal.reason);
  }

  forMs(ms: number): Promise<void> {
    if (ms === 0) return Promise.resolve();
    return this.until((done) => {
      const timer = setTimeout(done, ms);
      return () => clearTimeout(timer);
    });
  }

  yieldToEventLoop(): Promise<void> {
    return this.until((done) => {
      const turn = setImmediate(done);
      return () => clearImmediate(turn);
    });
  }

  untilAborted(): Promise<void> {
    return this.until(() => () => {});
  }

  /** `start` receives a function that ends the wait, and returns one that cancels it. */
  until(start: (done: () => void) => () => void): Promise<void> {
    if (this.#signal.aborted) return Promise.reject(asError(this.#signal.reason));
    return new Promise((resolve, reject) => {
      const cancel = start(() => {
        this.#reject = null;
        resolve();
      });
      this.#reject = (reason) => {
        cancel();
        reject(asError(reason));
      };
    });
  }

  [Symbol.dispose](): void {
    this.#signal.removeEventListener('abort', this);
  }
}
