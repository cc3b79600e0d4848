import { DEFAULT_SAMPLING, type RecommendedSampling, type Sampling } from './sampling.ts';

/** The types of generation requests and of the events that engines return. */

/**
 * Types of replicas; `openai` is any other server or provider. `features.ts` defines what each of them supports, and
 * `replicas/dialects.ts` their other differences.
 */
export const DIALECTS = ['sluice', 'vllm', 'sglang', 'llama-server', 'tgi', 'tei', 'openai'] as const;
export type Dialect = (typeof DIALECTS)[number];
/** The dialects of other servers. Sluice's own engines have a private protocol (`engine/engine-protocol.ts`). */
export type ServerDialect = Exclude<Dialect, 'sluice'>;

/** Images that a request can have. */
export const IMAGE_FORMATS = ['png', 'jpeg', 'gif', 'webp'] as const;
type ImageFormat = (typeof IMAGE_FORMATS)[number];

/** How closely the model looks at an image. */
export const IMAGE_DETAILS = ['auto', 'low', 'high', 'original'] as const;
export type ImageDetail = (typeof IMAGE_DETAILS)[number];

export interface Image {
  /** Number of UTF-16 code units of the message's content before the image. */
  at: number;
  /** A data URI, or an `https` URL, which only the server of the model fetches. */
  url: string;
  /** Null if the caller sent none. */
  detail: ImageDetail | null;
  /** Equal for equal images: takes their place in prefixes and in comparisons. */
  digest: string;
  /** Null if it has a URL, because it is not fetched. */
  file: ImageFile | null;
  /** Path of the image in the caller's request, for errors. */
  path: string;
}

export interface ImageFile {
  format: ImageFormat;
  bytes: number;
  /** Pixels. */
  width: number;
  height: number;
}

/** A message of a chat. */
export type Message =
  | { role: 'system'; content: string }
  | {
      role: 'user';
      content: string;
      /** In order. Absent: none. */
      images?: readonly Image[];
    }
  | {
      role: 'assistant';
      /** Null if the message has only tool calls. */
      content: string | null;
      /** Null if the caller sent none. */
      reasoning: string | null;
      toolCalls: readonly ToolCall[];
    }
  /** The result of a tool call. */
  | {
      role: 'tool';
      toolCallId: string;
      content: string;
      /** In order. Absent: none. */
      images?: readonly Image[];
    };

export type Role = Message['role'];

/** The bounds of the images in a request to a model that takes images. */
export interface ImageLimits {
  /** Whether the servers of the model may fetch images by URL. */
  urls: boolean;
  /** Maximum prompt tokens of an image. */
  tokens: number;
  /** Maximum number of images. */
  max: number;
  /** Maximum size of one, in bytes. */
  bytes: number;
}

/** A function call. */
export interface ToolCall {
  id: string;
  name: string;
  /** JSON text of an object. Responses of replicas may contain any text. */
  arguments: string;
}

/** A function that the model may call. */
export interface Tool {
  name: string;
  /** Null if there is none. */
  description: string | null;
  /** A JSON Schema object for the arguments. If `strict`, it is checked like the schema of a response format. */
  parameters: { readonly [keyword: string]: unknown };
  /** Whether the arguments must satisfy the schema. Otherwise, they only have to be a JSON object. */
  strict: boolean;
}

/** Which tools the model may or must call. */
export type ToolChoice =
  | { type: 'auto' | 'none' | 'required' }
  | { type: 'function'; name: string }
  /** Only these functions. `auto`: the model may call them. `required`: it must call at least one. */
  | { type: 'allowed'; mode: 'auto' | 'required'; names: readonly string[] };

export const REASONING_EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export type ReasoningEffort = (typeof REASONING_EFFORTS)[number];

/**
 * The maximum reasoning tokens of each effort, for models whose template does not read efforts. The other efforts have no
 * maximum.
 */
export const EFFORT_BUDGETS: readonly (readonly [effort: ReasoningEffort, tokens: number])[] = [
  ['minimal', 1024],
  ['low', 4096],
  ['medium', 16_384],
];

/** A JSON Schema. A strict one is of the supported subset, with checked keywords and depth; others have any keywords. */
export type JsonSchema = boolean | { readonly [keyword: string]: unknown };

export type ResponseFormat =
  | { type: 'text' }
  | { type: 'json_object' }
  | { type: 'json_schema'; name: string; schema: JsonSchema; strict: boolean | null };

interface GenerationRequestBase {
  /** Model ID from the caller. */
  model: string;
  /**
   * Maximum completion tokens per choice; 0 for requests that generate no text, otherwise at least 1. If null, they are
   * limited only by the model and its context.
   */
  maxTokens: number | null;
  sampling: Sampling;
  /** A few sequences, none empty. */
  stop: readonly string[];
  /** Choices per prompt, at least 1. */
  choices: number;
  /** Number of alternatives per token (0 to 20); null for no log probabilities. */
  logprobs: number | null;
  responseFormat: ResponseFormat;
  /** Whether the caller wants server-sent events. */
  stream: boolean;
  /**
   * `stream_options.include_usage`. If true, the usage is sent in a separate chunk. Null if the caller did not set it.
   */
  includeUsage: boolean | null;
  /** Whether events contain the IDs of their tokens. Set by the service for its replicas, never by callers. */
  tokenIds: boolean;
  /**
   * The interrupted generation that this request continues; null for a new one. Set by the service for its replicas,
   * never by callers. The request has one choice.
   */
  continuation: Continuation | null;
  /** Prefixes are only reused between requests with the same scope. If null, they are never reused. */
  cacheScope: string | null;
  /** The header `traceparent` for the replica. Set by the service, never by callers; null or absent: not traced. */
  traceparent?: string | null;
  /** The caller's end-user identifier, which is not logged. */
  user: string | null;
}

/** The output that a generation of one choice sent before it was interrupted. */
export interface Continuation {
  /** IDs of the prompt's tokens; null if the replica did not report them. */
  promptTokenIds: readonly number[] | null;
  /** IDs of all tokens whose events were received, in order. Their text is not sent again. */
  tokenIds: readonly number[];
  /** The text of these tokens, for replicas that continue from it; otherwise empty. */
  text: string;
  /** The usage so far. The usage that a continued generation reports includes it. */
  usage: Readonly<Usage>;
}

export interface ChatRequest extends GenerationRequestBase {
  kind: 'chat';
  /** Not empty. The role `developer` was converted to `system`, and content parts were joined. */
  messages: readonly Message[];
  /** Maximum prompt tokens of an image. Set by the service, never by callers; absent: there are no images. */
  imageTokens?: number;
  /** Functions with unique names; empty if there are none. */
  tools: readonly Tool[];
  toolChoice: ToolChoice;
  /** Whether one response may have several calls. */
  parallelToolCalls: boolean;
  /** `none` for no reasoning; null for the default of the model. */
  reasoningEffort: ReasoningEffort | null;
  /** Number of reasoning tokens of a choice after which its reasoning is ended, 0 or more; null: it is not. */
  reasoningBudget: number | null;
  /** Variables for the chat template, from `chat_template_kwargs`. */
  templateVariables: { readonly [name: string]: unknown };
}

export interface TextRequest extends GenerationRequestBase {
  kind: 'text';
  /** Not empty. Choice `p * choices + i` belongs to prompt `p`. */
  prompts: readonly string[];
  /** Whether the text of each choice begins with the prompt. */
  echo: boolean;
}

/** A request for text. */
export type CompletionRequest = ChatRequest | TextRequest;

/** A request for a vector of each input. It generates no tokens, so the other parameters are those of `NO_OUTPUT`. */
export interface EmbeddingRequest extends GenerationRequestBase {
  kind: 'embedding';
  /** Not empty, and none of them is. */
  inputs: readonly EmbeddingInput[];
  /** Length of the vectors; null for that of the model. */
  dimensions: number | null;
}

/** A text, or the IDs of its tokens. */
export type EmbeddingInput = string | readonly number[];

/** A request for a score of each document: how relevant it is to the query. It generates no tokens either. */
export interface RerankRequest extends GenerationRequestBase {
  kind: 'rerank';
  /** Not empty. */
  query: string;
  /** Not empty, and none of them is. */
  documents: readonly string[];
}

/** The parameters of requests that generate no tokens. */
export const NO_OUTPUT = {
  maxTokens: 0,
  sampling: DEFAULT_SAMPLING,
  stop: [],
  choices: 1,
  logprobs: null,
  responseFormat: { type: 'text' },
  stream: false,
  includeUsage: null,
  tokenIds: false,
  continuation: null,
} as const satisfies Partial<GenerationRequestBase>;

export type GenerationRequest = CompletionRequest | EmbeddingRequest | RerankRequest;

/** The kind of a request; each has its own endpoint. */
export type GenerationKind = GenerationRequest['kind'];
export type CompletionKind = CompletionRequest['kind'];

/** Whether a request is for text, not for vectors or scores. */
export function isForText(request: GenerationRequest): request is CompletionRequest {
  switch (request.kind) {
    case 'chat':
    case 'text':
      return true;
    case 'embedding':
    case 'rerank':
      return false;
  }
}

/**
 * The source of the token counts. `engine`: the engine reported them. `estimated`: the engine did not report all of
 * them, so the service estimated them. `clamped`: the engine reported more tokens than the request could use, and the
 * counts were lowered to that maximum.
 */
export type UsageSource = 'engine' | 'estimated' | 'clamped';

/** Token counts of a request, over all choices. */
export interface Usage {
  promptTokens: number;
  completionTokens: number;
  /** Part of `promptTokens` from the prefix cache. */
  cachedTokens: number;
  /** Part of `completionTokens` that is reasoning. */
  reasoningTokens: number;
}

/** The usage before any tokens. */
export const NO_USAGE: Readonly<Usage> = {
  promptTokens: 0,
  completionTokens: 0,
  cachedTokens: 0,
  reasoningTokens: 0,
};

/**
 * `content_filter`: the provider of a replica withheld or cut off the response. `replicas/wire/response-reader.ts` converts the
 * reasons of replicas.
 */
export const FINISH_REASONS = ['stop', 'length', 'tool_calls', 'content_filter'] as const;
export type FinishReason = (typeof FINISH_REASONS)[number];

/** Whether the response may end in the middle of its text or of a call. */
export function isCutOff(reason: FinishReason): boolean {
  switch (reason) {
    case 'length':
    case 'content_filter':
      return true;
    case 'stop':
    case 'tool_calls':
      return false;
  }
}

/** A token with its log probability (natural logarithm). */
export interface Logprob {
  token: string;
  logprob: number;
  /** The bytes of the token, which may be partial characters; null if the replica does not report them. */
  bytes: readonly number[] | null;
}

/** A generated token with the most likely alternatives, if requested. */
export interface TokenLogprob extends Logprob {
  top: readonly Logprob[];
}

/** Generated text of one choice. */
interface TextDelta {
  choice: number;
  /** Complete characters, never part of a stop sequence. May be empty if there are only log probabilities. */
  text: string;
  /** Completion tokens of the request so far, including reasoning. Reported by the engine, or else counted. */
  completionTokens: number;
  logprobs: readonly TokenLogprob[] | null;
  /** See `TokenIds`. */
  tokenIds?: TokenIds;
}

interface ToolCallDelta {
  choice: number;
  /** Index of the call in its choice. */
  call: number;
  /** Completion tokens of the request so far. */
  completionTokens: number;
  /** See `TokenIds`. */
  tokenIds?: TokenIds;
}

/**
 * IDs of the tokens since the last event with IDs, including those that have no text. A generation can be continued
 * after these tokens. Absent if the request did not ask for IDs, or if the generation cannot be continued here, because
 * the text so far ends in the middle of a token.
 */
type TokenIds = readonly number[];

/**
 * How many tokens of the prompts of a request have been computed or were cached. Sent between `started` and the first
 * token by the engines of the service and llama-server.
 */
export interface PrefillEvent {
  type: 'prefill';
  promptTokens: number;
  doneTokens: number;
  /** How many of them were cached. Absent if `started` has reported it. */
  cachedTokens?: number;
  /** How long the replica has computed the prompt, in milliseconds. Absent: since `started`. */
  elapsedMs?: number;
}

/**
 * The events of a generation. First comes one `started`, then the text and the tool calls, the vectors, or the scores.
 * Each choice has one `finish` after its last part. One `end` comes last. A call is one `tool-call`, followed by the parts
 * of its arguments; the calls of a choice do not overlap. Reasoning and calls count as completion tokens. A stream that
 * throws a `ServiceError` has no `end`.
 */
export type GenerationEvent =
  | {
      type: 'started';
      /** Null if the replica reports counts only at the end. */
      promptTokens: number | null;
      cachedTokens: number | null;
      /** IDs of the prompt's tokens. Absent if the request did not ask for them, or the replica did not send them. */
      promptTokenIds?: readonly number[];
    }
  | ({ type: 'token' } & TextDelta)
  | ({ type: 'reasoning' } & TextDelta)
  | ({ type: 'tool-call'; id: string; name: string } & ToolCallDelta)
  | ({ type: 'tool-arguments'; text: string } & ToolCallDelta)
  | {
      type: 'finish';
      choice: number;
      reason: FinishReason;
      /** The stop sequence of the request that ended the choice; null if none did, or the replica did not report it. */
      stopSequence: string | null;
    }
  | {
      /** The vector of one input. If the request was sent to another replica, an input can have several, which are equal. */
      type: 'embedding';
      /** Index of the input. */
      index: number;
      /** Finite numbers, as many for each input. */
      vector: Float32Array;
    }
  | {
      /** The score of one document. A document can have several, as an input can have several vectors. */
      type: 'score';
      /** Index of the document. */
      index: number;
      /** A finite number: the higher, the more relevant. */
      score: number;
    }
  | {
      type: 'end';
      usage: Usage;
      usageSource: UsageSource;
    };

/** An event that a replica sends. */
export type EngineEvent = PrefillEvent | GenerationEvent;

/** An event with generated text. */
export type TextEvent = Extract<GenerationEvent, { type: 'token' | 'reasoning' }>;

export type ToolEvent = Extract<GenerationEvent, { type: 'tool-call' | 'tool-arguments' }>;

/**
 * Updates the usage with the tokens that were generated since the last event. They count as reasoning tokens if this
 * event is of the type `reasoning`.
 */
export function countTokens(usage: Usage, { type, completionTokens }: TextEvent | ToolEvent): void {
  const added = type === 'reasoning' ? Math.max(0, completionTokens - usage.completionTokens) : 0;
  usage.reasoningTokens = Math.min(usage.reasoningTokens + added, completionTokens);
  usage.completionTokens = completionTokens;
}

/** Returns the number of choices of all prompts together. All inputs of an embedding are one choice, and all documents. */
export function totalChoices(request: GenerationRequest): number {
  return promptCount(request) * request.choices;
}

/** Returns the number of prompts that have completions of their own. */
export function promptCount(request: GenerationRequest): number {
  switch (request.kind) {
    case 'chat':
    case 'embedding':
    case 'rerank':
      return 1;
    case 'text':
      return request.prompts.length;
  }
}

/** Returns a request that has messages, tools and images; null for one that has only texts. */
export function asChat(request: GenerationRequest): ChatRequest | null {
  switch (request.kind) {
    case 'chat':
      return request;
    case 'text':
    case 'embedding':
    case 'rerank':
      return null;
  }
}

/** Returns the tools that the model may call. */
export function toolsOf(request: GenerationRequest): readonly Tool[] {
  return asChat(request)?.tools ?? [];
}

const NO_IMAGES: readonly Image[] = [];

export function hasImages(request: GenerationRequest): boolean {
  return asChat(request)?.messages.some((message) => imagesOfMessage(message).length > 0) === true;
}

/** Returns the images of all messages, in order. */
export function imagesOf(request: GenerationRequest): readonly Image[] {
  return hasImages(request) ? (asChat(request)?.messages.flatMap(imagesOfMessage) ?? NO_IMAGES) : NO_IMAGES;
}

/** Returns the images of a message, in order. */
export function imagesOfMessage(message: Message): readonly Image[] {
  return 'images' in message ? (message.images ?? NO_IMAGES) : NO_IMAGES;
}

/** Returns the texts and images of a message in their order. No text is empty. */
export function contentParts(content: string, images: readonly Image[]): readonly (string | Image)[] {
  const parts: (string | Image)[] = [];
  let end = 0;
  for (const image of images) {
    if (image.at > end) parts.push(content.slice(end, image.at));
    parts.push(image);
    end = image.at;
  }
  if (end < content.length) parts.push(content.slice(end));
  return parts;
}

/** What models get in the place of an image in a text. */
export const IMAGE_MARKER = '[image]';

/** Returns a message with a text in the place of each of its images. */
export function withImageText(message: Message, text: string): Message {
  if (!('images' in message)) return message;
  const { images = [], ...rest } = message;
  const parts = contentParts(message.content, images);
  return { ...rest, content: parts.map((part) => (typeof part === 'string' ? part : text)).join('') };
}

/** Returns the request with markers in the places of its images. */
export function withoutImages(request: GenerationRequest): GenerationRequest {
  const chat = asChat(request);
  if (chat === null) return request;
  return { ...chat, messages: chat.messages.map((message) => withImageText(message, IMAGE_MARKER)) };
}

/** Returns the maximum prompt tokens of all images. */
export function imageTokens(request: GenerationRequest): number {
  const most = maxTokensOfImage(request);
  return most === 0 ? 0 : imagesOf(request).length * most;
}

/** Returns 0 if there are no images. */
function maxTokensOfImage(request: GenerationRequest): number {
  return asChat(request)?.imageTokens ?? 0;
}

/** Pixels of an image that become one token in many models: 28 x 28. */
const PIXELS_PER_TOKEN = 784;

/** Estimates the prompt tokens of all images from their size, and takes the maximum for those whose size is unknown. */
function estimatedImageTokens(request: GenerationRequest): number {
  const most = maxTokensOfImage(request);
  if (most === 0) return 0;
  const estimate = ({ file }: Image): number =>
    file === null ? most : Math.min(most, Math.ceil((file.width * file.height) / PIXELS_PER_TOKEN));
  return imagesOf(request).reduce((sum, image) => sum + estimate(image), 0);
}

/** Returns the prompts that are repeated at the start of the choices. Empty if none are. */
export function echoedPrompts(request: GenerationRequest): readonly string[] {
  switch (request.kind) {
    case 'chat':
    case 'embedding':
    case 'rerank':
      return [];
    case 'text':
      return request.echo ? request.prompts : [];
  }
}

/**
 * Context length assumed for a model that has not reported its own yet. Requests to such a model usually fail anyway.
 */
export const UNKNOWN_CONTEXT = 131_072;

/** Average length of a token, for estimates. */
export const CHARACTERS_PER_TOKEN = 4;

/** Estimates the tokens of the prompts from their length. Used if the engine reports no counts. */
export function estimatedPromptTokens(request: GenerationRequest): number {
  let sum = estimatedImageTokens(request);
  for (const text of promptTexts(request)) sum += Math.ceil(text.length / CHARACTERS_PER_TOKEN);
  for (const tokens of tokenInputs(request)) sum += tokens.length;
  return sum + repeatedQueryTokens(request);
}

/** The model reads the query once for each document, and the texts of the prompt have it once. */
function repeatedQueryTokens(request: GenerationRequest): number {
  if (request.kind !== 'rerank') return 0;
  return (request.documents.length - 1) * Math.ceil(request.query.length / CHARACTERS_PER_TOKEN);
}

/** Returns the number of inputs that get a vector or a score. */
export function inputCount(request: GenerationRequest): number {
  switch (request.kind) {
    case 'chat':
    case 'text':
      return 0;
    case 'embedding':
      return request.inputs.length;
    case 'rerank':
      return request.documents.length;
  }
}

const NO_TOKENS: readonly (readonly number[])[] = [];

/** Returns the inputs of an embedding that are token IDs. */
export function tokenInputs(request: GenerationRequest): readonly (readonly number[])[] {
  switch (request.kind) {
    case 'chat':
    case 'text':
    case 'rerank':
      return NO_TOKENS;
    case 'embedding':
      return request.inputs.filter((input) => typeof input !== 'string');
  }
}

/**
 * Returns the texts that are sent to the model, for estimates: one per prompt, tool and message, in this order. An image
 * is represented by its digest. The variables of the template come last, so that they do not change the prefix.
 */
export function promptTexts(request: GenerationRequest): readonly string[] {
  switch (request.kind) {
    case 'text':
      return request.prompts;
    case 'embedding':
      return request.inputs.filter((input) => typeof input === 'string');
    case 'rerank':
      return [request.query, ...request.documents];
    case 'chat': {
      const tools = toolTexts(request.tools);
      const messages = request.messages.map(messageText);
      const variables = variableTexts(request.templateVariables);
      // Most chat templates put the tools first.
      return tools.length + variables.length === 0 ? messages : tools.concat(messages, variables);
    }
  }
}

const NO_TEXTS: readonly string[] = [];

const TOOL_TEXTS = new WeakMap<readonly Tool[], readonly string[]>();

/** Returns the tools as JSON. Kept for the next estimate of the same request, because their schemas can be large. */
export function toolTexts(tools: readonly Tool[]): readonly string[] {
  if (tools.length === 0) return NO_TEXTS;
  let texts = TOOL_TEXTS.get(tools);
  if (texts === undefined) TOOL_TEXTS.set(tools, (texts = tools.map((tool) => JSON.stringify(tool))));
  return texts;
}

function variableTexts(variables: ChatRequest['templateVariables']): readonly string[] {
  return Object.keys(variables).length === 0 ? NO_TEXTS : [JSON.stringify(variables)];
}

function messageText(message: Message): string {
  switch (message.role) {
    case 'system':
      return message.content;
    case 'user':
    case 'tool': {
      const { content, images } = message;
      if (images === undefined) return content;
      const parts = contentParts(content, images);
      return parts.map((part) => (typeof part === 'string' ? part : part.digest)).join('');
    }
    case 'assistant': {
      const calls = message.toolCalls.map((call) => call.name + call.arguments);
      return (message.content ?? '') + (message.reasoning ?? '') + calls.join('');
    }
  }
}

/** A model in the response of `GET /v1/models`. */
export interface ModelCard {
  id: string;
  architecture: { instruct_type: string | null; modality: string; tokenizer: string };
  /** Tokens per request. */
  context_length: number;
  max_completion_tokens: number;
  /** USD per million tokens, as configured decimal strings. `input_cache_read`: cached prompt tokens. */
  pricing: { prompt: string; completion: string; input_cache_read?: string | undefined };
  quantization: string;
  /** Unix seconds. */
  created: number;
  owned_by: string;
  recommendedSampling: RecommendedSampling;
  /** The recommended parameters that requests without them get. */
  defaultSampling: RecommendedSampling;
  /** The format in which the model writes tool calls; null if unknown. */
  toolFormat: string | null;
  /** Whether the model calls tools; null if unknown. */
  tools: boolean | null;
  /** Whether the model can reason before it answers; null if unknown. */
  reasoning: boolean | null;
}

/** Tool calls per message. */
export const MAX_TOOL_CALLS = 128;
