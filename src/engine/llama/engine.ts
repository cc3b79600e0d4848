import { randomInt } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { refuseOtherKind } from '../../core/features.ts';
import { ServiceError } from '../../core/errors.ts';
import {
  type ChatRequest,
  type CompletionRequest,
  type Continuation,
  type GenerationRequest,
  type ResponseFormat,
  type ToolChoice,
  asChat,
  echoedPrompts,
} from '../../core/generation.ts';
import type { Log } from '../../support/log.ts';
import type { GgufInfo } from '../../models/gguf.ts';
import type { ModelDescription, Engine, EngineHealth } from '../engine.ts';
import { ChoiceOutput, type ChoiceOutputOptions } from './output/choice-output.ts';
import { type GrammarField, Job, JobChoice, type JobChoiceOptions } from './decode/job.ts';
import { FairTurns } from './prompt/fair-turns.ts';
import { GrammarCache } from './output/response-grammar.ts';
import { loadModel, type LlamaOptions, type LoadedModel, type LoadHooks } from './load-model.ts';
import type { EventQueue } from './output/event-queue.ts';
import { OutputConstraint, type OutputGrammars } from './output/output-constraint.ts';
import { PromptTokenizer } from './prompt/prompt-tokenizer.ts';
import { checkLogitBias, samplerConfig } from './decode/sampling.ts';
import { Scheduler } from './decode/scheduler.ts';
import { offeredTools } from './prompt/template-messages.ts';
import { GENERIC } from './tool-calls/json-formats.ts';
import type { PromptReasoning } from './tool-calls/reasoning.ts';

/**
 * llama.cpp in this process: one model, one context, one slot per running choice. Set `UV_THREADPOOL_SIZE` to 1:
 * decodes are a quarter faster if they all run on the same thread.
 */
export class LlamaEngine implements Engine, AsyncDisposable {
  /** For the log: `cuda`, `metal`, `vulkan` or `cpu`, with the number of threads or of layers on the GPU. */
  readonly backend: string;
  readonly slots: number;
  /** Rejects if the step loop fails; the process must end then. */
  readonly failed: Promise<void>;
  readonly #loaded: LoadedModel;
  readonly #scheduler: Scheduler;
  readonly #prompts: PromptTokenizer;
  readonly #grammars: GrammarCache;
  readonly #counts = new FairTurns();

  private constructor(loaded: LoadedModel, log: Log) {
    const { model, context, vocabulary } = loaded;
    this.#loaded = loaded;
    this.backend = loaded.backend;
    this.slots = context.slots;
    this.#prompts = new PromptTokenizer(loaded, context.slotTokens, log);
    this.#grammars = new GrammarCache(model, vocabulary);
    this.#scheduler = new Scheduler({ ...loaded, maxSamplingMs: MAX_SAMPLING_MS, log });
    this.failed = this.#scheduler.start();
  }

  /**
   * Loads the model and warms up. Rejects with `ModelFileError`, `NotEnoughMemory` and `BackendError`, which are
   * permanent, and with `Error` for other failures. `metadata`: that of the file, if it has been read.
   */
  static async load(options: LlamaOptions, hooks: LoadHooks, metadata?: GgufInfo): Promise<LlamaEngine> {
    return new LlamaEngine(await loadModel(options, hooks, metadata), hooks.log);
  }

  /**
   * A request enters the queue for slots when its prompts have been tokenized. Emits `started` when the first choice
   * gets a slot. Other choices may still wait for theirs, so the number of cached tokens is final only in `end`. A slow
   * reader does not delay other requests, because its unread text is joined.
   */
  async generate(request: GenerationRequest, signal: AbortSignal): Promise<EventQueue> {
    signal.throwIfAborted();
    refuseOtherKind(request, 'text');
    const choices = await this.#choices(request, signal);
    signal.throwIfAborted();
    const job = choices[0]?.job;
    if (job === undefined) throw new TypeError('a request must have at least one choice');
    job.events.onReturn = () => this.#scheduler.cancel(job);
    // The signal belongs to this request, so the listener is never removed.
    signal.addEventListener('abort', () => {
      job.events.fail(signal.reason);
      this.#scheduler.cancel(job);
    });
    const ended = await this.#replay(request, choices);
    if (!ended && !job.dropped) this.#scheduler.submit(choices);
    return job.events;
  }

  /**
   * Counts one request at a time, so that steps of running generations never wait for more than one piece of a text, and
   * in turns between scopes.
   */
  async countPromptTokens(request: GenerationRequest, signal: AbortSignal): Promise<number> {
    refuseOtherKind(request, 'text');
    using _ = await this.#counts.take(request.cacheScope, signal);
    const { prompts } = await this.#prompts.tokenize(request, signal);
    return prompts.reduce((sum, prompt) => sum + prompt.length, 0);
  }

  forget(cacheScope: string): void {
    this.#scheduler.forget(cacheScope);
  }

  health(): EngineHealth {
    return this.#scheduler.health();
  }

  describe(): ModelDescription {
    const { context, info, template } = this.#loaded;
    return {
      contextTokens: context.slotTokens,
      maxCompletionTokens: context.slotTokens,
      quantization: info.quantization,
      tokenizer: info.tokenizerFamily,
      instructType: template?.instructType ?? null,
      toolFormat: template?.toolFormat.name ?? null,
      recommendedSampling: info.sampling,
    };
  }

  /** Ends running requests with 503 `shutting_down` and frees the model. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scheduler.stop(new ServiceError('shutting_down', 'The engine is stopping.'));
    await this.#prompts[Symbol.asyncDispose]();
    await this.#loaded.store?.[Symbol.asyncDispose]();
    await this.#loaded.context.dispose();
    await this.#loaded.model.dispose();
  }

  /** Validates the request and creates its choices, before they enter the queue. */
  async #choices(request: CompletionRequest, signal: AbortSignal): Promise<JobChoice[]> {
    const { model, vocabulary } = this.#loaded;
    const { slotTokens } = this.#loaded.context;
    const { sampling } = request;
    if (this.#scheduler.queuedChoices >= MAX_QUEUED)
      throw new ServiceError('queue_full', 'The queue of this model is full. Try again later.', {
        retryAfterMs: 1000,
      });
    const echoed = echoedPrompts(request);
    if (echoed.length > 0 && request.logprobs !== null)
      throw new ServiceError(
        'unsupported_parameter',
        '`echo` with `logprobs` is not supported: there are no log probabilities for the prompt.',
        { param: 'echo' },
      );
    checkLogitBias(sampling.logitBias, vocabulary.size);
    const continued = checkedTokens(request.continuation, vocabulary.size);
    const { prompts, reasoning } = await this.#prompts.tokenize(request, signal);
    const createOutput = this.#outputFactory(request, reasoning);
    const job = new Job(request, prompts);
    // Only a request with a single choice can continue an earlier generation.
    const contexts = continued.length === 0 ? prompts : prompts.map((prompt) => joined(prompt, continued));
    const firstSeed = sampling.seed ?? randomInt(2 ** 32);
    return prompts.flatMap((prompt, p) =>
      Array.from({ length: request.choices }, (_, i) => {
        const index = p * request.choices + i;
        const output = createOutput();
        const context = contexts[p] ?? prompt;
        return new JobChoice({
          job,
          index,
          prompt: context,
          first: i === 0,
          limit: Math.min(request.maxTokens ?? Infinity, slotTokens - prompt.length),
          echo: echoed[p] ?? '',
          ...output,
          createSampler: () => {
            // Each choice of a request has its own seed. A repeated request with `seed` gets the same seeds.
            const after = { prompt: context, continued: continued.length };
            const config = samplerConfig(sampling, (firstSeed + index) >>> 0, after, slotTokens);
            return model.sampler(config, output.constraint.initial());
          },
        });
      }),
    );
  }

  /**
   * Restores the state of the generation that the request continues, if any. Returns whether that generation had
   * already ended, or the request was dropped. Throws 400 `invalid_value` for tokens that the response format does not allow.
   */
  async #replay({ continuation }: GenerationRequest, [choice]: readonly JobChoice[]): Promise<boolean> {
    if (continuation === null || choice === undefined) return false;
    const { vocabulary } = this.#loaded;
    for (const [index, token] of continuation.tokenIds.entries()) {
      if (choice.replay(token, vocabulary) !== null) return true;
      if (index % REPLAYED_AT_ONCE === REPLAYED_AT_ONCE - 1) await nextTurn();
      if (choice.job.dropped) return true;
    }
    return false;
  }

  /** Compiles the grammars of a request. Returns a function that creates the output of a choice. */
  #outputFactory(request: CompletionRequest, prompt: PromptReasoning): OutputFactory {
    switch (request.kind) {
      case 'chat':
        return this.#chatFactory(request, prompt);
      case 'text': {
        const whole = this.#grammars.grammar(request.responseFormat);
        const grammars = { first: whole, answer: whole, call: null };
        return this.#factory(request, grammars, Infinity, TEXT_ONLY);
      }
    }
  }

  #chatFactory(request: ChatRequest, prompt: PromptReasoning): OutputFactory {
    const { template } = this.#loaded;
    const { toolChoice, responseFormat, parallelToolCalls } = request;
    const tools = offeredTools(request);
    const reasoning = template?.reasoning ?? null;
    const format = tools.length > 0 ? (template?.toolFormat ?? null) : null;
    // A model that was not trained to call tools may never end a list of calls.
    const parallel = parallelToolCalls && format !== GENERIC;
    const grammars: OutputGrammars = { first: null, answer: null, call: null };
    const place = { opening: '', before: reasoning?.answer ?? '' };
    const first = { ...place, opening: prompt === 'none' ? (reasoning?.open ?? '') : '' };
    if (format === null) {
      grammars.first = this.#grammars.grammar(responseFormat, first);
      grammars.answer = this.#grammars.grammar(responseFormat, place);
    } else {
      const callable =
        toolChoice.type === 'function' ? tools.filter(({ name }) => name === toolChoice.name) : tools;
      const constraint = { format, tools: callable, parallel };
      if (mustCall(toolChoice) || responseFormat.type !== 'text') {
        const alternative: ResponseFormat = mustCall(toolChoice) ? { type: 'text' } : responseFormat;
        grammars.first = this.#grammars.calls(constraint, alternative, first);
        grammars.answer = this.#grammars.calls(constraint, alternative, place);
      } else {
        // Compile the most common grammar in advance. Most calls begin at the start of a token, so `before` is empty.
        this.#grammars.call(constraint, '');
        grammars.call = (before) => this.#grammars.call(constraint, before);
      }
    }
    const budget = request.reasoningBudget ?? template?.budgetOf(request.reasoningEffort) ?? Infinity;
    return this.#factory(request, grammars, budget, {
      format,
      reasoning,
      insideReasoning: prompt === 'open',
      tools,
      oneCall: format !== null && !parallel,
    });
  }

  #factory(
    request: CompletionRequest,
    grammars: OutputGrammars,
    reasoningBudget: number,
    parsing: Omit<ChoiceOutputOptions, 'vocabulary' | 'stop' | 'acceptCall'>,
  ): OutputFactory {
    const { model, vocabulary } = this.#loaded;
    const { reasoning } = parsing;
    const tokenize = (text: string): number[] => [...model.tokenize(text, true)];
    const closing = reasoning === null ? [] : tokenize(reasoning.close);
    const opensAnswer = reasoning?.opensAnswer === undefined ? [] : tokenize(reasoning.opensAnswer);
    const grammarField = grammarFieldOf(request);
    return () => {
      const constraint = new OutputConstraint(model, vocabulary, grammars, parsing.insideReasoning);
      const acceptCall = (text: string): boolean => constraint.acceptCall(text);
      const output = new ChoiceOutput({ ...parsing, vocabulary, acceptCall, stop: request.stop });
      return { output, constraint, tokenize, closing, opensAnswer, reasoningBudget, grammarField };
    };
  }
}

const TEXT_ONLY = { format: null, reasoning: null, insideReasoning: false, tools: [], oneCall: false };

/** Returns the tokens to continue after. Throws 400 `invalid_value` for tokens that the model does not have. */
function checkedTokens(continuation: Continuation | null, vocabularySize: number): readonly number[] {
  const tokens = continuation?.tokenIds ?? [];
  const unknown = tokens.findIndex((token) => token >= vocabularySize);
  if (unknown === -1) return tokens;
  const param = `continuation.tokenIds[${unknown}]`;
  throw new ServiceError('invalid_value', `\`${param}\` is not a token of this model.`, { param });
}

function joined(prompt: Uint32Array, tokens: readonly number[]): Uint32Array {
  const whole = new Uint32Array(prompt.length + tokens.length);
  whole.set(prompt);
  whole.set(tokens, prompt.length);
  return whole;
}

type OutputFactory = () => Pick<
  JobChoiceOptions,
  'output' | 'constraint' | 'tokenize' | 'closing' | 'opensAnswer' | 'reasoningBudget' | 'grammarField'
>;

/** Whether a response must have a call. */
function mustCall(choice: ToolChoice): boolean {
  switch (choice.type) {
    case 'auto':
    case 'none':
      return false;
    case 'required':
    case 'function':
      return true;
    case 'allowed':
      return choice.mode === 'required';
  }
}

/**
 * Returns the request field to name in errors about the grammar. If both fields have a schema, a strict tool is the
 * more likely cause.
 */
function grammarFieldOf(request: CompletionRequest): GrammarField {
  const chat = asChat(request);
  const tools = chat === null ? [] : offeredTools(chat);
  const byTools =
    request.responseFormat.type === 'text' ? tools.length > 0 : tools.some(({ strict }) => strict);
  return byTools ? 'tools' : 'response_format';
}

/**
 * Maximum time to sample one token with a grammar. Schemas whose estimated time exceeds a quarter of this are refused
 * in advance (`grammar-work.ts`).
 */
const MAX_SAMPLING_MS = 1000;

/** Tokens that are replayed before the event loop gets a turn. */
const REPLAYED_AT_ONCE = 64;

/** Maximum choices in the engine's queue. Only matters if the engine runs without the service, which has its own. */
const MAX_QUEUED = 4096;
