import { IMAGE_MODALITY } from '../core/features.ts';
import type { Dialect, GenerationRequest } from '../core/generation.ts';
import { asList, jsonObject, type JsonObject, readCount } from '../json/values.ts';
import type { ModelDescription } from '../engine/engine.ts';
import type { GaugeNames } from './replica-report.ts';
import type { RefusableField } from './wire/replica-error.ts';

/** The properties of a replica type, except request fields (`protocols/openai/fields.ts`). */
export interface DialectTraits {
  /**
   * Whether the server is an engine of Sluice, which speaks the private protocol (`engine/engine-protocol.ts`): all of its
   * responses are streams. It starts a response only when the request has a slot, and then reports how much of the prompt
   * it has computed (`prefill`).
   */
  isEngine: boolean;
  /**
   * When `started` is emitted. `chunk`: with the first chunk, in which the server reports the prompt's token count.
   * `headers`: with the response headers.
   */
  startedBy: 'chunk' | 'headers';
  /** Whether the usage in a chunk with a single choice counts only that choice. */
  usagePerChoice: boolean;
  /**
   * How prefix caches are separated between accounts. `salt`: a field of the request separates them. `off`: a field of
   * the request turns the cache off. `operator`: only the server's own settings can separate them. `none`: it has no such
   * cache.
   */
  isolation: 'salt' | 'off' | 'operator' | 'none';
  /**
   * Request kinds for which the server applies its own limit if `max_tokens` is absent, such as 16 tokens for text
   * completions (vLLM and SGLang), `max_new_tokens` of `generation_config.json`, or `--predict`.
   */
  needsMaxTokens: readonly GenerationRequest['kind'][];
  /** Request kinds that can use the whole context if `max_tokens` is absent. */
  defaultsToFullContext: readonly GenerationRequest['kind'][];
  /** Tokens of the context that neither prompt nor completion can use. */
  reservedTokens: number;
  /**
   * Output of an interrupted generation that the server can continue (`continuation.ts`). `output`: text and reasoning of
   * any request, because the engine restores the state of its parser and grammar. `tokens`: plain text, which is
   * sent as token IDs. `text`: plain text, which the server splits into tokens again. `nothing`: none.
   */
  continues: 'output' | 'tokens' | 'text' | 'nothing';
  /** Fields without which a request is sent again if the server refused them by name (`wire/replica-error.ts`). */
  adaptsFields: readonly RefusableField[];
  healthCheck: HealthCheck;
  /** The metrics with its load, at `/metrics`; null: it reports the load in its health check, or not at all. */
  gauges: GaugeNames | null;
  /** Paths to request in order until one reports the context length. */
  describePaths: readonly string[];
  readDescription(body: JsonObject, model: string): Partial<ModelDescription>;
}

/** Times in milliseconds. */
export interface HealthCheck {
  path: '/health' | '/v1/models';
  /** Time between checks of a healthy replica (`intervalMs`) and of an unhealthy one (`retryMs`). */
  intervalMs: number;
  retryMs: number;
  /** Timeout of a check and of a connection attempt. */
  timeoutMs: number;
}

const HEALTH_ENDPOINT: HealthCheck = { path: '/health', intervalMs: 5000, retryMs: 1000, timeoutMs: 2000 };

/** The traits that most servers have. */
const MOST_SERVERS = {
  isEngine: false,
  startedBy: 'chunk',
  usagePerChoice: false,
  reservedTokens: 0,
  adaptsFields: [],
  healthCheck: HEALTH_ENDPOINT,
  gauges: null,
} as const satisfies Partial<DialectTraits>;

export const DIALECT_TRAITS: Readonly<Record<Dialect, DialectTraits>> = {
  sluice: {
    ...MOST_SERVERS,
    isEngine: true,
    isolation: 'salt',
    needsMaxTokens: [],
    defaultsToFullContext: [],
    continues: 'output',
    describePaths: ['/model'],
    readDescription: (body) => ({
      contextTokens: readCount(body['contextTokens']),
      maxCompletionTokens: readCount(body['maxCompletionTokens']),
      quantization: text(body['quantization']),
      tokenizer: text(body['tokenizer']),
      instructType: text(body['instructType']),
      modality: text(body['modality']),
      toolFormat: text(body['toolFormat']),
    }),
  },

  vllm: {
    ...MOST_SERVERS,
    adaptsFields: ['thinking_token_budget'],
    usagePerChoice: true,
    isolation: 'salt',
    needsMaxTokens: ['chat', 'text'],
    defaultsToFullContext: ['chat'],
    continues: 'tokens',
    gauges: {
      slotsInUse: ['vllm:num_requests_running'],
      queued: ['vllm:num_requests_waiting'],
      cacheUsage: ['vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc'],
      promptTokens: ['vllm:prompt_tokens_total'],
      completionTokens: ['vllm:generation_tokens_total'],
    },
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
    ...MOST_SERVERS,
    usagePerChoice: true,
    isolation: 'salt',
    needsMaxTokens: ['text'],
    defaultsToFullContext: ['chat'],
    reservedTokens: 1,
    continues: 'text',
    gauges: {
      slotsInUse: ['sglang:num_running_reqs'],
      queued: ['sglang:num_queue_reqs'],
      cacheUsage: ['sglang:token_usage'],
      promptTokens: ['sglang:prompt_tokens_total'],
      completionTokens: ['sglang:generation_tokens_total'],
    },
    describePaths: ['/v1/models', '/get_server_info'],
    readDescription: (body, model) => ({
      contextTokens:
        readCount(modelElement(body, model)['max_model_len']) ?? readCount(body['context_length']),
      quantization: text(body['quantization']),
    }),
  },

  /** `cache_prompt: false` prevents reuse of a slot's previous prompt. Requests share nothing else. */
  'llama-server': {
    ...MOST_SERVERS,
    startedBy: 'headers',
    isolation: 'off',
    needsMaxTokens: ['chat', 'text'],
    defaultsToFullContext: [],
    continues: 'text',
    gauges: {
      slotsInUse: ['llamacpp:requests_processing'],
      queued: ['llamacpp:requests_deferred'],
      cacheUsage: ['llamacpp:kv_cache_usage_ratio'],
      promptTokens: ['llamacpp:prompt_tokens_total'],
      completionTokens: ['llamacpp:tokens_predicted_total'],
    },
    describePaths: ['/props', '/v1/models'],
    readDescription: (body, model) => {
      const meta = jsonObject(modelElement(body, model)['meta']);
      return {
        // The context of a slot. `n_ctx_train` of the model may be larger.
        contextTokens:
          readCount(jsonObject(body['default_generation_settings'])['n_ctx']) ?? readCount(meta['n_ctx']),
        slots: readCount(body['total_slots']),
        modality: jsonObject(body['modalities'])['vision'] === true ? IMAGE_MODALITY : null,
      };
    },
  },

  /** Only the operator can turn off its prefix cache: `PREFIX_CACHING=0`. */
  tgi: {
    ...MOST_SERVERS,
    startedBy: 'headers',
    isolation: 'operator',
    needsMaxTokens: [],
    defaultsToFullContext: ['chat', 'text'],
    continues: 'nothing',
    describePaths: ['/info'],
    readDescription: (body) => ({ contextTokens: readCount(body['max_total_tokens']) }),
  },

  /** Text Embeddings Inference. */
  tei: {
    ...MOST_SERVERS,
    startedBy: 'headers',
    isolation: 'none',
    needsMaxTokens: [],
    defaultsToFullContext: [],
    continues: 'nothing',
    describePaths: ['/info'],
    readDescription: (body) => ({
      contextTokens: readCount(body['max_input_length']),
      modality: 'reranker' in jsonObject(body['model_type']) ? 'text->rerank' : 'text->embedding',
    }),
  },

  /**
   * Health is checked less often, because providers bill requests and limit their rate, and a list of models can be a
   * megabyte long.
   */
  openai: {
    ...MOST_SERVERS,
    isolation: 'operator',
    needsMaxTokens: ['text'],
    defaultsToFullContext: ['chat'],
    continues: 'nothing',
    adaptsFields: ['max_tokens', 'stream_options', 'encoding_format'],
    healthCheck: { path: '/v1/models', intervalMs: 30_000, retryMs: 5000, timeoutMs: 10_000 },
    describePaths: ['/v1/models'],
    readDescription: (body, model) => {
      const element = listedModel(body, model) ?? {};
      const provider = jsonObject(element['top_provider']);
      return {
        contextTokens: firstCount(element, [
          'context_length', // OpenRouter, Together, Sluice.
          'context_window', // Groq.
          'max_context_length', // Mistral.
          'max_model_len',
        ]),
        maxCompletionTokens:
          firstCount(element, ['max_completion_tokens']) ?? firstCount(provider, ['max_completion_tokens']),
      };
    },
  },
};

/** The parts of a replica's URL. */
export interface ReplicaAddress {
  origin: string;
  /** The path of the server, before `/health`. */
  basePath: string;
  /** The path of its API, before `/chat/completions`. */
  apiPath: string;
}

/**
 * Splits a replica's base URL, with or without `/v1`. For `openai`, adds `/v1` only if the URL has no path, because the
 * API paths of some providers do not end in `/v1`.
 */
export function replicaAddress(url: string, dialect: Dialect): ReplicaAddress {
  const { origin, pathname } = new URL(url);
  const path = pathname.replace(/\/+$/, '');
  const basePath = path.replace(/\/v1$/, '');
  return { origin, basePath, apiPath: dialect === 'openai' && path !== '' ? path : `${basePath}/v1` };
}

/** Returns the element with this ID, or the first element. */
function modelElement(body: JsonObject, model: string): JsonObject {
  return listedModel(body, model) ?? jsonObject(asList(body['data'])[0]);
}

function listedModel(body: JsonObject, model: string): JsonObject | undefined {
  return asList(body['data'])
    .map(jsonObject)
    .find(({ id }) => id === model);
}

/** Returns the first of these fields that is a positive whole number, or null. */
function firstCount(element: JsonObject, fields: readonly string[]): number | null {
  return (
    fields.map((field) => readCount(element[field])).find((count) => count !== null && count > 0) ?? null
  );
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}
