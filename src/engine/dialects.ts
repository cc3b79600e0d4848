import type { Dialect, GenerationRequest } from '../generation.ts';
import { jsonObject, type JsonObject } from '../openai/values.ts';
import { readCount } from '../openai/usage.ts';
import type { EngineDescription, EngineHealth } from './engine.ts';

/** The properties of a replica type, except request fields (`openai/fields.ts`). */
export interface DialectTraits {
  /** Whether non-streaming responses are requested as such; otherwise they are assembled from streams. */
  wholeResponses: boolean;
  /** When `started` is emitted: at the first chunk if it has the prompt's token count, otherwise at the headers. */
  startedBy: 'chunk' | 'headers';
  /** Whether the server starts its response only when the request has a slot. */
  reportsSlot: boolean;
  /** Whether usage in a chunk of one choice counts only that choice. */
  usagePerChoice: boolean;
  /**
   * How prefix caches are separated between accounts: `salt`: by a field of the request; `off`: the request turns
   * the cache off; `operator`: only by the server's own settings.
   */
  isolation: 'salt' | 'off' | 'operator';
  /**
   * Request kinds for which the server applies its own limit if `max_tokens` is absent, such as 16 tokens for text
   * completions (vLLM and SGLang), `max_new_tokens` of `generation_config.json`, or `--predict`.
   */
  needsMaxTokens: readonly GenerationRequest['kind'][];
  /** Request kinds that can use the whole context without `max_tokens`. */
  fillsContext: readonly GenerationRequest['kind'][];
  /** Tokens of the context that neither prompt nor completion can use. */
  reservedTokens: number;
  /** Paths to request in order until one reports the context length. */
  describePaths: readonly string[];
  readDescription(body: JsonObject, model: string): Partial<EngineDescription>;
}

export const DIALECT_TRAITS: Readonly<Record<Dialect, DialectTraits>> = {
  sluice: {
    wholeResponses: false,
    startedBy: 'chunk',
    reportsSlot: true,
    usagePerChoice: false,
    isolation: 'salt',
    needsMaxTokens: [],
    fillsContext: [],
    reservedTokens: 0,
    describePaths: ['/v1/models'],
    readDescription: (body, model) => {
      const element = modelElement(body, model);
      const architecture = jsonObject(element['architecture']);
      return {
        contextTokens: readCount(element['context_length']),
        maxCompletionTokens: readCount(element['max_completion_tokens']),
        quantization: text(element['quantization']),
        tokenizer: text(architecture['tokenizer']),
        instructType: text(architecture['instruct_type']),
      };
    },
  },

  vllm: {
    wholeResponses: true,
    startedBy: 'chunk',
    reportsSlot: false,
    usagePerChoice: true,
    isolation: 'salt',
    needsMaxTokens: ['chat', 'text'],
    fillsContext: ['chat'],
    reservedTokens: 0,
    describePaths: ['/v1/models'],
    readDescription: (body, model) => ({
      contextTokens: readCount(modelElement(body, model)['max_model_len']),
    }),
  },

  /**
   * Releases before https://github.com/sgl-project/sglang/pull/23300 (April 2026) ignore the salt. Start them with
   * `--disable-radix-cache`.
   */
  sglang: {
    wholeResponses: true,
    startedBy: 'chunk',
    reportsSlot: false,
    usagePerChoice: true,
    isolation: 'salt',
    needsMaxTokens: ['text'],
    fillsContext: ['chat'],
    reservedTokens: 1,
    describePaths: ['/v1/models', '/get_server_info'],
    readDescription: (body, model) => ({
      contextTokens:
        readCount(modelElement(body, model)['max_model_len']) ?? readCount(body['context_length']),
      quantization: text(body['quantization']),
    }),
  },

  /** `cache_prompt: false` prevents reuse of a slot's previous prompt; slots share nothing else. */
  'llama-server': {
    wholeResponses: true,
    startedBy: 'headers',
    reportsSlot: false,
    usagePerChoice: false,
    isolation: 'off',
    needsMaxTokens: ['chat', 'text'],
    fillsContext: [],
    reservedTokens: 0,
    describePaths: ['/props', '/v1/models'],
    readDescription: (body, model) => {
      const meta = jsonObject(modelElement(body, model)['meta']);
      return {
        // The context of a slot. `n_ctx_train` of the model may be larger.
        contextTokens:
          readCount(jsonObject(body['default_generation_settings'])['n_ctx']) ?? readCount(meta['n_ctx']),
      };
    },
  },

  /** Only the operator can turn off its prefix cache: `PREFIX_CACHING=0`. */
  tgi: {
    wholeResponses: true,
    startedBy: 'headers',
    reportsSlot: false,
    usagePerChoice: false,
    isolation: 'operator',
    needsMaxTokens: [],
    fillsContext: ['chat', 'text'],
    reservedTokens: 0,
    describePaths: ['/info'],
    readDescription: (body) => ({ contextTokens: readCount(body['max_total_tokens']) }),
  },
};

/** Reads the response of `GET /health`. Only Sluice reports more than the status. */
export function readHealth(body: JsonObject): EngineHealth {
  return {
    slots: readCount(body['slots']),
    slotsInUse: readCount(body['slotsInUse']),
    queued: readCount(body['queued']),
    lastStepAgeMs: number(body['lastStepAgeMs']),
    promptTokens: readCount(body['promptTokens']),
    cachedTokens: readCount(body['cachedTokens']),
    completionTokens: readCount(body['completionTokens']),
    memoryBytes: readCount(body['memoryBytes']),
  };
}

/** Splits a replica's base URL, with or without `/v1`, into its origin and the path before `/v1`. */
export function replicaAddress(url: string): { origin: string; basePath: string } {
  const { origin, pathname } = new URL(url);
  return { origin, basePath: pathname.replace(/\/+$/, '').replace(/\/v1$/, '') };
}

/** Returns the element with this ID, or the first element. */
function modelElement(body: JsonObject, model: string): JsonObject {
  const data: unknown[] = Array.isArray(body['data']) ? body['data'] : [];
  return jsonObject(data.find((element) => jsonObject(element)['id'] === model) ?? data[0]);
}

function number(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null;
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}
