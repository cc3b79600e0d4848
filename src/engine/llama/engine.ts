import { randomInt } from 'node:crypto';
import { ServiceError } from '../../errors.ts';
import type { GenerationEvent, GenerationRequest } from '../../generation.ts';
import type { Log } from '../../log.ts';
import type { EngineDescription, LocalEngine, LocalEngineHealth } from '../engine.ts';
import { Choice, Job } from './choice.ts';
import { GrammarCache } from './grammar-cache.ts';
import { loadModel, type LlamaOptions, type LoadedModel } from './load.ts';
import { PromptReader } from './prompt.ts';
import { checkLogitBias, samplerConfig } from './sampling.ts';
import { Scheduler } from './scheduler.ts';
import { TextStream } from './text-stream.ts';

export type { LlamaOptions } from './load.ts';

/** What is told while an engine loads. */
export interface LoadHooks {
  /** Fractions of the model loaded, 0 to 1, in order. */
  onProgress(fraction: number): void;
  log: Log;
  /** Gives up loading. */
  signal?: AbortSignal;
}

/**
 * llama.cpp in this process: one model, one context, a slot for each choice that generates. `UV_THREADPOOL_SIZE`
 * should be 1 in its environment: decodes then stay on one thread, which is a quarter faster.
 */
export class LlamaEngine implements LocalEngine, AsyncDisposable {
  /** What it computes with: `cuda`, `metal`, `vulkan` or `cpu`, and how many threads. */
  readonly backend: string;
  readonly slots: number;
  /** Rejects if the step loop ever fails, which leaves nothing to do but to end the process. */
  readonly failed: Promise<void>;
  readonly #loaded: LoadedModel;
  readonly #scheduler: Scheduler;
  readonly #prompts: PromptReader;
  readonly #grammars: GrammarCache;

  private constructor(loaded: LoadedModel, log: Log) {
    const { model, context, vocabulary, template } = loaded;
    this.#loaded = loaded;
    this.backend = loaded.backend;
    this.slots = context.slots;
    this.#prompts = new PromptReader(model, vocabulary, template, context.slotTokens);
    this.#grammars = new GrammarCache(model, vocabulary);
    this.#scheduler = new Scheduler({
      model,
      context,
      vocabulary,
      partial: loaded.partial,
      maxSamplingMs: MAX_SAMPLING_MS,
      log,
    });
    this.failed = this.#scheduler.start();
  }

  /**
   * Loads and warms up. Rejects with `ModelFileError`, `NotEnoughMemory` and `BackendError`, of which none goes
   * away by itself, and with `Error` for what llama.cpp refuses.
   */
  static async load(options: LlamaOptions, hooks: LoadHooks): Promise<LlamaEngine> {
    return new LlamaEngine(await loadModel(options, hooks), hooks.log);
  }

  /**
   * Waits for slots in the order of calls. `started` comes with the first slot; choices that find none then take
   * theirs as they become free, so the cached tokens are final only in `end`. Reading slowly keeps nobody waiting:
   * text that was not read comes joined.
   */
  async *generate(
    request: GenerationRequest,
    signal: AbortSignal,
  ): AsyncGenerator<GenerationEvent, void, undefined> {
    signal.throwIfAborted();
    const choices = await this.#choices(request);
    signal.throwIfAborted();
    const job = choices[0]?.job;
    if (job === undefined) throw new TypeError('a request must have at least one choice');
    const abort = (): void => {
      job.outbox.fail(signal.reason);
      this.#scheduler.cancel(job);
    };
    signal.addEventListener('abort', abort, { once: true });
    try {
      this.#scheduler.submit(choices);
      for (;;) {
        const event = await job.outbox.next();
        if (event === null) return;
        yield event;
      }
    } finally {
      signal.removeEventListener('abort', abort);
      this.#scheduler.cancel(job);
    }
  }

  health(): Omit<LocalEngineHealth, 'memoryBytes'> {
    return this.#scheduler.health();
  }

  describe(): EngineDescription {
    const { context, info, template } = this.#loaded;
    return {
      contextTokens: context.slotTokens,
      maxCompletionTokens: context.slotTokens,
      quantization: info.quantization,
      tokenizer: info.tokenizerFamily,
      instructType: template?.instructType ?? null,
    };
  }

  /** Ends what still runs with 503 `shutting_down` and frees the model. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scheduler.stop(new ServiceError('shutting_down', 'The engine is stopping.'));
    await this.#loaded.context.dispose();
    await this.#loaded.model.dispose();
  }

  /** Checks all that can be wrong with a request before it takes a place in the queue. */
  async #choices(request: GenerationRequest): Promise<Choice[]> {
    const { model, context, vocabulary } = this.#loaded;
    const { sampling } = request;
    if (this.#scheduler.queuedChoices >= MOST_QUEUED)
      throw new ServiceError('queue_full', 'The queue of this model is full. Try again later.', {
        retryAfterMs: 1000,
      });
    if (request.kind === 'text' && request.echo && request.logprobs !== null)
      throw new ServiceError(
        'unsupported_parameter',
        '`echo` with `logprobs` is not supported: there are no log probabilities for the prompt.',
        {
          param: 'echo',
        },
      );
    checkLogitBias(sampling.logitBias, vocabulary.size);
    const grammar = this.#grammars.grammar(request.responseFormat);
    const prompts = await this.#prompts.read(request);
    const job = new Job({
      scope: request.cacheScope ?? Symbol('shared with nobody'),
      logprobs: request.logprobs,
      promptTokens: prompts.reduce((sum, prompt) => sum + prompt.length, 0),
      choices: prompts.length * request.choices,
    });
    const firstSeed = sampling.seed ?? randomInt(2 ** 32);
    const detokenize = (tokens: Uint32Array): string => vocabulary.text(tokens);
    return prompts.flatMap((prompt, p) =>
      Array.from({ length: request.choices }, (_, i) => {
        const index = p * request.choices + i;
        return new Choice({
          job,
          index,
          prompt,
          first: i === 0,
          limit: Math.min(request.maxTokens ?? Infinity, context.slotTokens - prompt.length),
          echo: request.kind === 'text' && request.echo ? (request.prompts[p] ?? '') : '',
          text: new TextStream({ detokenize, stop: request.stop }),
          constrained: grammar !== null,
          makeSampler: () => {
            // Choices of one request must differ, and a request sent again must not.
            const config = samplerConfig(sampling, (firstSeed + index) >>> 0, prompt, context.slotTokens);
            return model.sampler(config, grammar === null ? null : model.copyGrammar(grammar));
          },
        });
      }),
    );
  }
}

/** Schemas are refused that are expected to take a quarter of this: see `grammar-work.ts`. */
const MAX_SAMPLING_MS = 1000;

/** Choices that may wait inside the engine. The service's own queue is shorter; this bounds whoever calls without it. */
const MOST_QUEUED = 4096;
