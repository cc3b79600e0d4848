import {
  type Dialect,
  type ServerDialect,
  type GenerationRequest,
  type JsonSchema,
  type ResponseFormat,
  IMAGE_MARKER,
  contentParts,
  asChat,
  echoedPrompts,
  imagesOfMessage,
  promptCount,
  promptTexts,
  withImageText,
  type CompletionKind,
  type CompletionRequest,
  type EmbeddingRequest,
  type RerankRequest,
  type GenerationKind,
  type ChatRequest,
  type Image,
  type Message,
  type Tool,
} from '../../core/generation.ts';
import { SAMPLING_LIST, type Sampling } from '../../core/sampling.ts';
import type { RefusableField } from './replica-error.ts';

interface ReplicaRequestOptions {
  /** Name of the model on the replica. */
  model: string;
  stream: boolean;
  dialect: ServerDialect;
  /** Maximum completion tokens of a choice, at least 1; null: omitted. */
  maxTokens: number | null;
  /** Whether the replica must not reuse prefixes, because it cannot separate accounts. */
  cacheOff: boolean;
  /** For `openai`: the field for the reasoning of earlier turns. Default: it is not sent. */
  reasoningField?: ReasoningField | undefined;
  /** Fields that the server has refused by name. Default: none. */
  refused?: ReadonlySet<RefusableField>;
}

type Body = Record<string, unknown>;

/**
 * Formats a request for a replica. Includes all sampling parameters, because servers have different defaults: vLLM reads
 * the model's `generation_config.json`, llama-server has top_k 40 and min_p 0.05. `openai` gets only those that the caller
 * set, because some models of providers refuse them. Omits fields that the dialect does not support: they are neutral,
 * because `refuseUnsupported` has checked the request.
 */
export function formatRequest(request: GenerationRequest, options: ReplicaRequestOptions): Body {
  switch (request.kind) {
    case 'embedding':
      return formatEmbedding(request, options);
    case 'rerank':
      return formatRerank(request, options);
    case 'chat':
    case 'text':
      return formatCompletion(request, options);
  }
}

/** Asks for the scores of all documents: the service returns the first of them itself. */
function formatRerank({ query, documents }: RerankRequest, { model, dialect }: ReplicaRequestOptions): Body {
  return dialect === 'tei' ? { query, texts: documents } : { model, query, documents };
}

/** Asks for Base64, which takes a third of the time to read. Servers that do not know it send numbers. */
function formatEmbedding(
  { inputs, dimensions }: EmbeddingRequest,
  { model, refused }: ReplicaRequestOptions,
): Body {
  return {
    model,
    input: inputs,
    ...(refused?.has('encoding_format') ? {} : { encoding_format: 'base64' }),
    ...(dimensions === null ? {} : { dimensions }),
  };
}

function formatCompletion(request: CompletionRequest, options: ReplicaRequestOptions): Body {
  const { dialect, stream, refused } = options;
  const body: Body = { model: options.model, ...formatInput(request, options) };
  body.stream = stream;
  if (stream && !refused?.has('stream_options')) body.stream_options = streamOptions(request, dialect);
  if (options.maxTokens !== null) {
    body[refused?.has('max_tokens') ? NEW_MAX_TOKENS[request.kind] : 'max_tokens'] = options.maxTokens;
  }
  addSampling(body, request.sampling, dialect);
  if (request.stop.length > 0) body.stop = request.stop;
  if (request.choices > 1) body.n = request.choices;
  if (request.logprobs !== null) Object.assign(body, logprobs(request, dialect, request.logprobs));
  if (echoedPrompts(request).length > 0) body.echo = true;
  Object.assign(body, responseFormat(request, dialect));
  if (SALTED.has(dialect) && request.cacheScope !== null) body.cache_salt = request.cacheScope;
  if (dialect === 'llama-server' && options.cacheOff) body.cache_prompt = false;
  // Releases from September 2025 on report the progress of the prompt. Older ones ignore the field.
  if (dialect === 'llama-server' && stream) body.return_progress = true;
  if (request.tokenIds && stream) body.return_token_ids = true;
  // An output that can be continued there has no reasoning left.
  const budget = asChat(request)?.reasoningBudget ?? null;
  if (budget !== null && request.continuation === null)
    Object.assign(body, reasoningBudget(budget, dialect, refused));
  return body;
}

/**
 * Returns the field that ends the reasoning after this number of tokens. SGLang reads it if it was started with
 * `--enable-strict-thinking`.
 */
function reasoningBudget(
  tokens: number,
  dialect: ServerDialect,
  refused: ReplicaRequestOptions['refused'],
): Body {
  switch (dialect) {
    case 'vllm':
      return refused?.has('thinking_token_budget') ? {} : { thinking_token_budget: tokens };
    case 'sglang':
      return { custom_params: { thinking_budget: tokens } };
    case 'llama-server':
      return { thinking_budget_tokens: tokens };
    case 'tgi':
    case 'tei':
    case 'openai':
      return {};
  }
}

const PATHS: Readonly<Record<GenerationKind, string>> = {
  chat: '/v1/chat/completions',
  text: '/v1/completions',
  embedding: '/v1/embeddings',
  rerank: '/v1/rerank',
};

/** Returns the path of a request on a server. */
export function replicaPath(request: GenerationRequest, dialect: Dialect): string {
  const kind = replicaKind(request, dialect);
  return kind === 'rerank' && dialect === 'tei' ? '/rerank' : PATHS[kind];
}

/** The field to send if the server has refused `max_tokens`. Text completions have no other name for it. */
const NEW_MAX_TOKENS: Readonly<Record<CompletionKind, string>> = {
  chat: 'max_completion_tokens',
  text: 'max_tokens',
};

/**
 * Returns the kind of request to send. vLLM continues a generation from token IDs, which only its text completions accept.
 */
export function replicaKind({ kind, continuation }: GenerationRequest, dialect: Dialect): GenerationKind {
  return dialect === 'vllm' && continuation !== null ? 'text' : kind;
}

function formatInput(request: CompletionRequest, { dialect, reasoningField }: ReplicaRequestOptions): Body {
  const { continuation } = request;
  if (dialect === 'vllm' && continuation !== null) {
    return { prompt: [...(continuation.promptTokenIds ?? []), ...continuation.tokenIds] };
  }
  switch (request.kind) {
    case 'chat':
      return {
        ...formatChat(request, dialect, reasoningField),
        ...(dialect === 'sglang' && continuation !== null ? CONTINUE_ON_SGLANG : {}),
      };
    case 'text':
      return { prompt: request.prompts.length === 1 ? request.prompts[0] : request.prompts };
  }
}

/**
 * Makes SGLang append the last message to the prompt as it is, and not look for reasoning in the rest of the text.
 */
const CONTINUE_ON_SGLANG: Body = { continue_final_message: true, separate_reasoning: false };

/** Dialects that share cached prefixes only between requests with the same salt. */
const SALTED: ReadonlySet<ServerDialect> = new Set(['vllm', 'sglang']);

function streamOptions(request: GenerationRequest, dialect: ServerDialect): Body {
  // With several prompts, the usage in a chunk of vLLM or SGLang counts only the prompt of the chunk's choice.
  const continuous = (dialect === 'vllm' || dialect === 'sglang') && promptCount(request) === 1;
  return continuous ? { include_usage: true, continuous_usage_stats: true } : { include_usage: true };
}

/** The parameters that a server supports, with its names. `openai` gets those with a default only if they are set. */
const sentTo = (dialect: ServerDialect) =>
  SAMPLING_LIST.filter(([, { servers }]) => servers?.includes(dialect) ?? true).map(
    ([id, { name, names, fallback, sent }]) => ({
      id,
      name: names?.[dialect] ?? name,
      ifSet: dialect === 'openai' && fallback !== null,
      sent,
    }),
  );

const SENT_TO: Readonly<Record<ServerDialect, ReturnType<typeof sentTo>>> = {
  vllm: sentTo('vllm'),
  sglang: sentTo('sglang'),
  'llama-server': sentTo('llama-server'),
  tgi: sentTo('tgi'),
  tei: sentTo('tei'),
  openai: sentTo('openai'),
};

function addSampling(body: Body, sampling: Sampling, dialect: ServerDialect): void {
  const { explicit, logitBias } = sampling;
  for (const { id, name, ifSet, sent } of SENT_TO[dialect]) {
    if (ifSet && !explicit.has(id)) continue;
    const value = sent === undefined ? sampling[id] : sent(sampling[id], dialect);
    if (value !== null) body[name] = value;
  }
  if (logitBias.size === 0) return;
  // All versions of llama-server accept a list of pairs.
  body.logit_bias = dialect === 'llama-server' ? [...logitBias] : Object.fromEntries(logitBias);
}

function logprobs(request: CompletionRequest, dialect: ServerDialect, alternatives: number): Body {
  const count = alternativesToRequest(dialect, alternatives);
  switch (request.kind) {
    case 'chat':
      return { logprobs: true, top_logprobs: count };
    case 'text':
      return { logprobs: count };
  }
}

/** vLLM's default of `--max-logprobs`. */
const VLLM_MAX_LOGPROBS = 20;

/** Returns how many alternatives to request. Surplus alternatives are removed from the response. */
function alternativesToRequest(dialect: ServerDialect, alternatives: number): number {
  switch (dialect) {
    case 'llama-server':
    case 'sglang':
      // These servers return no log probabilities for 0.
      return Math.max(alternatives, 1);
    case 'vllm':
      // Requests one more, because a sampled token that is not among the most likely ones takes the place of the last
      // alternative.
      return alternatives === 0 ? 0 : Math.min(alternatives + 1, VLLM_MAX_LOGPROBS);
    default:
      return alternatives;
  }
}

/** Whether llama-server reads `response_format` at this endpoint. At the other, it reads `json_schema`. */
const RESPONSE_FORMAT_OF_LLAMA_SERVER: Readonly<Record<CompletionKind, boolean>> = {
  chat: true,
  text: false,
};

function responseFormat(request: CompletionRequest, dialect: ServerDialect): Body {
  const format = request.responseFormat;
  if (format.type === 'text') return {};
  if (dialect === 'llama-server' && !RESPONSE_FORMAT_OF_LLAMA_SERVER[request.kind]) {
    return { json_schema: schemaOf(format) };
  }
  if (format.type === 'json_object') return { response_format: { type: 'json_object' } };
  const { name, strict } = format;
  const schema = schemaOf(format);
  return {
    response_format: {
      type: 'json_schema',
      json_schema: strict === null ? { name, schema } : { name, schema, strict },
    },
  };
}

/** Returns the schema as an object, because not all servers accept `true`. */
function schemaOf(format: Exclude<ResponseFormat, { type: 'text' }>): JsonSchema {
  if (format.type === 'json_object') return { type: 'object' };
  return format.schema === true ? {} : format.schema;
}

/** Formats the fields that only chats have: messages, tools and reasoning. */
export function formatChat(
  request: ChatRequest,
  dialect: ServerDialect,
  reasoningField?: ReasoningField,
): Body {
  const field = dialect === 'openai' ? (reasoningField ?? null) : REASONING_FIELD[dialect];
  const messages: Body[] = [];
  for (const message of withImagesOfUser(request.messages))
    messages.push(...formatMessage(message, dialect, field));
  const body: Body = { messages };
  if (request.tools.length > 0) Object.assign(body, formatTools(request, dialect));
  return Object.assign(body, formatReasoning(request, dialect));
}

/**
 * Formats the requests that count the tokens of each prompt, for the path `/tokenize`. The usage of a generation has the
 * same tokens.
 */
export function formatTokenize(
  request: GenerationRequest,
  { model, dialect }: { model: string; dialect: 'vllm' | 'sglang' },
): Body[] {
  const chat = asChat(request);
  if (chat === null) return promptTexts(request).map((prompt) => ({ model, prompt }));
  return [{ model, ...formatChat(chat, dialect), ...(dialect === 'vllm' ? vllmVariables(chat) : {}) }];
}

/** vLLM reads the effort only for a generation, and then sets these variables. */
function vllmVariables({ reasoningEffort, templateVariables }: ChatRequest): Body {
  if (reasoningEffort === null) return {};
  const enable_thinking = reasoningEffort !== 'none';
  return {
    chat_template_kwargs: { enable_thinking, ...templateVariables, reasoning_effort: reasoningEffort },
  };
}

/** The field of an assistant message that contains its reasoning. The name depends on the server. */
export type ReasoningField = 'reasoning' | 'reasoning_content';

/**
 * The field that each server reads; null: none. `openai` is missing because the field depends on the provider: some require
 * a field, and others refuse it.
 */
const REASONING_FIELD: Readonly<Record<Exclude<ServerDialect, 'openai'>, ReasoningField | null>> = {
  vllm: 'reasoning',
  sglang: 'reasoning_content',
  'llama-server': 'reasoning_content',
  tgi: null,
  tei: null,
};

/**
 * Moves the images of results to the message of the user after them, or to a new one, because servers accept images only
 * from the user. The results have markers in their place.
 */
function withImagesOfUser(messages: readonly Message[]): readonly Message[] {
  if (!messages.some((message) => message.role === 'tool' && imagesOfMessage(message).length > 0))
    return messages;
  const placed: Message[] = [];
  let moved: Image[] = [];
  for (const message of messages) {
    if (message.role === 'tool') {
      moved.push(...imagesOfMessage(message).map((image) => ({ ...image, at: 0 })));
      placed.push(withImageText(message, IMAGE_MARKER));
    } else if (moved.length === 0) placed.push(message);
    else {
      if (message.role === 'user')
        placed.push({ ...message, images: [...moved, ...imagesOfMessage(message)] });
      else placed.push({ role: 'user', content: '', images: moved }, message);
      moved = [];
    }
  }
  if (moved.length > 0) placed.push({ role: 'user', content: '', images: moved });
  return placed;
}

function formatMessage(message: Message, dialect: ServerDialect, field: ReasoningField | null): Body[] {
  switch (message.role) {
    case 'system':
      return [{ role: 'system', content: message.content }];
    case 'user':
      return [{ role: 'user', content: formatContent(message.content, message.images ?? []) }];
    case 'tool':
      return [{ role: 'tool', tool_call_id: message.toolCallId, content: message.content }];
    case 'assistant': {
      const { role, content, reasoning, toolCalls } = message;
      if (toolCalls.length === 0) return [{ role, content, ...reasoningOf(reasoning, field) }];
      const calls = toolCalls.map(({ id, name, arguments: text }) => ({
        id,
        type: 'function',
        function: { name, arguments: text },
      }));
      // TGI reads either the content or the calls of a message.
      if (dialect === 'tgi') {
        return [...(content ? [{ role, content }] : []), { role, tool_calls: calls }];
      }
      // Providers that require the field, such as DeepSeek, accept an empty text from a turn without reasoning.
      const required = dialect === 'openai' ? (reasoning ?? '') : reasoning;
      return [{ role, content, ...reasoningOf(required, field), tool_calls: calls }];
    }
  }
}

function formatContent(content: string, images: readonly Image[]): string | Body[] {
  if (images.length === 0) return content;
  return contentParts(content, images).map((part) => {
    if (typeof part === 'string') return { type: 'text', text: part };
    const { url, detail } = part;
    return { type: 'image_url', image_url: detail === null ? { url } : { url, detail } };
  });
}

function reasoningOf(reasoning: string | null, field: ReasoningField | null): Body {
  return reasoning === null || field === null ? {} : { [field]: reasoning };
}

function formatTools(request: ChatRequest, dialect: ServerDialect): Body {
  const { tools, choice } = toolChoice(request, dialect);
  const body: Body = { tools: tools.map(formatTool) };
  // `auto` is the default of all servers.
  if (choice !== 'auto') body.tool_choice = choice;
  // The default of llama-server is false; TGI never generates more than one call.
  if (dialect === 'llama-server' || (!request.parallelToolCalls && dialect !== 'tgi')) {
    body.parallel_tool_calls = request.parallelToolCalls;
  }
  return body;
}

function formatTool({ name, description, parameters, strict }: Tool): Body {
  return {
    type: 'function',
    function: {
      name,
      ...(description === null ? {} : { description }),
      parameters,
      ...(strict ? { strict } : {}),
    },
  };
}

/** Returns the tools to send, and the choice: few providers have `allowed_tools`, so only the allowed functions are sent. */
function toolChoice(
  { tools, toolChoice: choice }: ChatRequest,
  dialect: ServerDialect,
): { tools: readonly Tool[]; choice: unknown } {
  switch (choice.type) {
    case 'auto':
    case 'none':
    case 'required':
      return { tools, choice: choice.type };
    case 'function':
      // llama-server ignores a `tool_choice` that is not a string.
      return dialect === 'llama-server'
        ? { tools: tools.filter(({ name }) => name === choice.name), choice: 'required' }
        : { tools, choice: { type: 'function', function: { name: choice.name } } };
    case 'allowed': {
      const allowed = new Set(choice.names);
      return { tools: tools.filter(({ name }) => allowed.has(name)), choice: choice.mode };
    }
  }
}

function formatReasoning({ reasoningEffort, templateVariables }: ChatRequest, dialect: ServerDialect): Body {
  // TGI supports neither field, and only values without effect get here.
  if (dialect === 'tgi') return {};
  const body: Body = {};
  let variables = templateVariables;
  if (reasoningEffort !== null) {
    // llama-server has no field for the effort. Templates read it from variables.
    if (dialect === 'llama-server') variables = { ...effortVariables(reasoningEffort), ...variables };
    else body.reasoning_effort = reasoningEffort;
  }
  if (Object.keys(variables).length > 0) body.chat_template_kwargs = variables;
  return body;
}

function effortVariables(effort: string): Body {
  return effort === 'none' ? { enable_thinking: false } : { enable_thinking: true, reasoning_effort: effort };
}
