import type { Dialect, GenerationRequest } from '../generation.ts';
import type { EngineDescription, EngineHealth } from './engine.ts';

/** A JSON object of a replica, read with the functions below. */
export type ReplicaJson = Readonly<Record<string, unknown>>;

/** How one kind of server differs from the others, beyond the fields of a request (those are the codec's). */
export interface DialectTraits {
  /** Whether an answer that the caller wants whole is asked for as one; else it is streamed and put together. */
  wholeAnswers: boolean;
  /**
   * What says that the request has been taken: `chunk` where the first chunk tells the prompt's tokens,
   * `headers` where there is no more to be learnt from it.
   */
  startedBy: 'chunk' | 'headers';
  /**
   * Whether the server holds `started` back until the request has a slot. Other servers do not report it, and a
   * request that was sent to them counts as having one.
   */
  reportsSlot: boolean;
  /** Whether usage on a chunk of one choice is that choice's own, and not the request's. */
  usagePerChoice: boolean;
  /**
   * How prefixes are kept apart between accounts: `salt`, the request carries the scope; `off`, the request
   * turns the cache off; `operator`, nothing in a request can, only how the server was started.
   */
  isolation: 'salt' | 'off' | 'operator';
  /**
   * Kinds of request that the server may end early when they have no `max_tokens`, by a default of its own: 16
   * tokens for text completions of vLLM and SGLang, `max_new_tokens` of `generation_config.json`, `--predict`.
   */
  needsMaxTokens: readonly GenerationRequest['kind'][];
  /** Kinds of request that the server lets run to the end of the context when they have no `max_tokens`. */
  fillsContext: readonly GenerationRequest['kind'][];
  /** Tokens of the context that prompt and completion together must leave free. */
  reservedTokens: number;
  /** Path that answers 200 when the server is healthy, and what its body tells. */
  healthPath: string;
  readHealth(body: ReplicaJson): EngineHealth;
  /** Paths asked for a description, in turn, until one has told the context; what their bodies tell. */
  describePaths: readonly string[];
  readDescription(body: ReplicaJson, model: string): Partial<EngineDescription>;
}

const UNTOLD: EngineHealth = {
  slots: null,
  slotsInUse: null,
  queued: null,
  lastStepAgeMs: null,
  promptTokens: null,
  cachedTokens: null,
  completionTokens: null,
  memoryBytes: null,
};

/** The servers a replica can be. */
export const DIALECT_TRAITS: Readonly<Record<Dialect, DialectTraits>> = {
  sluice: {
    wholeAnswers: false,
    startedBy: 'chunk',
    reportsSlot: true,
    usagePerChoice: false,
    isolation: 'salt',
    needsMaxTokens: [],
    fillsContext: [],
    reservedTokens: 0,
    healthPath: '/health',
    readHealth: (body) => ({
      slots: integer(body['slots']),
      slotsInUse: integer(body['slotsInUse']),
      queued: integer(body['queued']),
      lastStepAgeMs: number(body['lastStepAgeMs']),
      promptTokens: integer(body['promptTokens']),
      cachedTokens: integer(body['cachedTokens']),
      completionTokens: integer(body['completionTokens']),
      memoryBytes: integer(body['memoryBytes']),
    }),
    describePaths: ['/v1/models'],
    readDescription: (body, model) => {
      const element = modelElement(body, model);
      const architecture = object(element['architecture']);
      return {
        contextTokens: integer(element['context_length']),
        maxCompletionTokens: integer(element['max_completion_tokens']),
        quantization: text(element['quantization']),
        tokenizer: text(architecture['tokenizer']),
        instructType: text(architecture['instruct_type']),
      };
    },
  },

  vllm: {
    wholeAnswers: true,
    startedBy: 'chunk',
    reportsSlot: false,
    usagePerChoice: true,
    isolation: 'salt',
    needsMaxTokens: ['chat', 'text'],
    fillsContext: ['chat'],
    reservedTokens: 0,
    healthPath: '/health',
    readHealth: () => UNTOLD,
    describePaths: ['/v1/models'],
    readDescription: (body, model) => ({
      contextTokens: integer(modelElement(body, model)['max_model_len']),
    }),
  },

  /**
   * Releases from before https://github.com/sgl-project/sglang/pull/23300 (April 2026) take the salt and share
   * the cache all the same; such a server is to be started with `--disable-radix-cache`.
   */
  sglang: {
    wholeAnswers: true,
    startedBy: 'chunk',
    reportsSlot: false,
    usagePerChoice: true,
    isolation: 'salt',
    needsMaxTokens: ['text'],
    fillsContext: ['chat'],
    reservedTokens: 1,
    healthPath: '/health',
    readHealth: () => UNTOLD,
    describePaths: ['/v1/models', '/get_server_info'],
    readDescription: (body, model) => ({
      contextTokens: integer(modelElement(body, model)['max_model_len']) ?? integer(body['context_length']),
      quantization: text(body['quantization']),
    }),
  },

  /** `cache_prompt: false` keeps a slot's earlier prompt from being used; slots share nothing else. */
  'llama-server': {
    wholeAnswers: true,
    startedBy: 'headers',
    reportsSlot: false,
    usagePerChoice: false,
    isolation: 'off',
    needsMaxTokens: ['chat', 'text'],
    fillsContext: [],
    reservedTokens: 0,
    healthPath: '/health',
    readHealth: () => UNTOLD,
    describePaths: ['/props', '/v1/models'],
    readDescription: (body, model) => {
      const meta = object(modelElement(body, model)['meta']);
      return {
        // Of one slot: the model's `n_ctx_train` would promise more than a request can have.
        contextTokens:
          integer(object(body['default_generation_settings'])['n_ctx']) ?? integer(meta['n_ctx']),
      };
    },
  },

  /** Its prefix cache is turned off only at its start: `PREFIX_CACHING=0`. */
  tgi: {
    wholeAnswers: true,
    startedBy: 'headers',
    reportsSlot: false,
    usagePerChoice: false,
    isolation: 'operator',
    needsMaxTokens: [],
    fillsContext: ['chat', 'text'],
    reservedTokens: 0,
    healthPath: '/health',
    readHealth: () => UNTOLD,
    describePaths: ['/info'],
    readDescription: (body) => ({ contextTokens: integer(body['max_total_tokens']) }),
  },
};

/** Where a replica answers, from its configured address with or without `/v1`, with or without a path before it. */
export interface ReplicaAddress {
  /** `scheme://host:port`. */
  origin: string;
  chatPath: string;
  textPath: string;
  /** The path of one of the dialect's own endpoints. */
  at(path: string): string;
}

/** Takes a replica's base address apart. */
export function replicaAddress(url: string): ReplicaAddress {
  const { origin, pathname } = new URL(url);
  const base = pathname.replace(/\/+$/, '').replace(/\/v1$/, '');
  return {
    origin,
    chatPath: `${base}/v1/chat/completions`,
    textPath: `${base}/v1/completions`,
    at: (path) => base + path,
  };
}

/** The element of a model list that has this id, else its first. */
function modelElement(body: ReplicaJson, model: string): ReplicaJson {
  const data: unknown[] = Array.isArray(body['data']) ? body['data'] : [];
  return object(data.find((element) => object(element)['id'] === model) ?? data[0]);
}

function object(value: unknown): ReplicaJson {
  // A value that is an object and no list can be read by any key.
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as ReplicaJson) : {};
}

function number(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null;
}

function integer(value: unknown): number | null {
  return Number.isSafeInteger(value) ? number(value) : null;
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}
