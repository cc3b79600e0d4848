import { ServiceError } from '../../errors.ts';
import type { GenerationEvent, GenerationRequest } from '../../generation.ts';
import type { EngineDescription, LocalEngine, LocalEngineHealth } from '../engine.ts';
import { planCompletions, type Completion } from './completion.ts';
import { directiveOf, SCRIPTED_DEFAULTS, type Directive, type ScriptedOptions } from './options.ts';
import { Pause } from './pause.ts';
import { SlotQueue } from './slot-queue.ts';
import { countPromptTokens, logprobsOf } from './words.ts';

/** How many tokens without a pause before the event loop gets a turn. */
const BURST_TOKENS = 16;

/**
 * An engine without a model: the same request gives the same text. It keeps slots, limits, stop sequences,
 * choices, log probabilities and JSON formats as a real one does, and fails as a request tells it to
 * (`scripted:{…}` in its last message, see `Directive`).
 */
export class ScriptedEngine implements LocalEngine {
  readonly #options: ScriptedOptions;
  readonly #slots: SlotQueue;
  /** When it was told to hang, `performance.now()` milliseconds; null: it makes steps. */
  #hungAtMs: number | null = null;
  readonly #tokens = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };

  constructor(options: Partial<ScriptedOptions> = {}) {
    this.#options = { ...SCRIPTED_DEFAULTS, ...options };
    if (!(this.#options.slots >= 1)) throw new RangeError('slots: expected at least 1');
    this.#slots = new SlotQueue(this.#options.slots, this.#options.queue);
  }

  async *generate(request: GenerationRequest, signal: AbortSignal): AsyncGenerator<GenerationEvent> {
    signal.throwIfAborted();
    const directive = read(request);
    if (directive.error)
      throw new ServiceError(
        directive.error,
        'The scripted engine refused the request, as the request asked.',
      );
    const promptTokens = countPromptTokens(request);
    const roomTokens = this.#options.contextTokens - Math.max(...promptTokens);
    if (roomTokens < 1) throw tooLong(request, Math.max(...promptTokens), this.#options.contextTokens);
    using pause = new Pause(signal);
    await this.#slots.take(pause);
    try {
      await pause.forMs(directive.startMs ?? 0);
      const total = promptTokens.reduce((sum, count) => sum + count, 0);
      const cachedTokens = Math.min(directive.cachedTokens ?? 0, total);
      this.#tokens.promptTokens += total;
      this.#tokens.cachedTokens += cachedTokens;
      yield { type: 'started', promptTokens: total, cachedTokens };
      await pause.forMs(directive.prefillMs ?? this.#options.prefillMs);
      const completions = planCompletions(request, directive, this.#options, roomTokens);
      const completionTokens = yield* this.#say(request, directive, completions, pause);
      const usage = { promptTokens: total, completionTokens, cachedTokens };
      yield { type: 'end', usage, usageSource: 'engine' };
    } finally {
      this.#slots.give();
    }
  }

  health(): Omit<LocalEngineHealth, 'memoryBytes'> {
    const { slots, tokenMs } = this.#options;
    const { inUse, queued } = this.#slots;
    const stuckMs = this.#hungAtMs === null ? 0 : performance.now() - this.#hungAtMs;
    return {
      slots,
      slotsInUse: inUse,
      queued,
      lastStepAgeMs: inUse > 0 ? Math.round(stuckMs) : null,
      medianStepMs: tokenMs,
      ...this.#tokens,
    };
  }

  describe(): EngineDescription {
    return {
      contextTokens: this.#options.contextTokens,
      maxCompletionTokens: this.#options.contextTokens,
      quantization: 'none',
      tokenizer: 'scripted',
      instructType: null,
    };
  }

  /** All choices in turn, one token each a step, as a batch would. Returns how many tokens it said. */
  async *#say(
    request: GenerationRequest,
    directive: Directive,
    completions: readonly Completion[],
    pause: Pause,
  ): AsyncGenerator<GenerationEvent, number> {
    const tokenMs = directive.tokenMs ?? this.#options.tokenMs;
    const longest = Math.max(1, ...completions.map(({ tokens }) => tokens.length));
    let said = 0;
    if (request.kind === 'text' && request.echo) yield* echo(request.prompts, request.choices);
    for (let step = 0; step < longest; step++) {
      if (step > 0 && tokenMs > 0) await pause.forMs(tokenMs);
      else if (step % BURST_TOKENS === BURST_TOKENS - 1) await pause.forATurn();
      for (const { choice, tokens, reason } of completions) {
        const text = tokens[step];
        if (text !== undefined) {
          await this.#fail(directive, said, pause);
          const logprobs = request.logprobs === null ? null : logprobsOf(text, request.logprobs);
          this.#tokens.completionTokens++;
          yield { type: 'token', choice, text, completionTokens: ++said, logprobs };
        }
        if (step === Math.max(0, tokens.length - 1)) yield { type: 'finish', choice, reason };
      }
    }
    await this.#fail(directive, said, pause);
    return said;
  }

  /** The faults that are due after so many tokens. */
  async #fail(directive: Directive, said: number, pause: Pause): Promise<void> {
    if (directive.hangAfter === said) this.#hungAtMs ??= performance.now();
    if (this.#hungAtMs !== null) await pause.forEver();
    // What was said before is let out first: the faults are those of a stream, not of its first byte.
    if (directive.dieAfter === said || directive.freezeAfter === said) {
      // The first turn flushes the streams, the second has it written to their sockets.
      await pause.forATurn();
      await pause.forATurn();
    }
    if (directive.dieAfter === said) process.kill(process.pid, 'SIGKILL');
    if (directive.freezeAfter === said) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    if (directive.errorAfter === said)
      throw new ServiceError('internal_error', 'The scripted engine failed.');
  }
}

function* echo(prompts: readonly string[], choices: number): Generator<GenerationEvent> {
  for (const [prompt, text] of prompts.entries()) {
    for (let index = 0; index < choices; index++) {
      const choice = prompt * choices + index;
      yield { type: 'token', choice, text, completionTokens: 0, logprobs: null };
    }
  }
}

function read(request: GenerationRequest): Directive {
  try {
    return directiveOf(request);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ServiceError('invalid_value', `The scripted directive is invalid: ${reason}`);
  }
}

function tooLong(request: GenerationRequest, promptTokens: number, contextTokens: number): ServiceError {
  return new ServiceError(
    'context_length_exceeded',
    `This model's maximum context length is ${contextTokens} tokens; the prompt has ${promptTokens}, which leaves no room for a completion.`,
    { param: request.kind === 'text' ? 'prompt' : 'messages' },
  );
}
