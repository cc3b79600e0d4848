/** The types that every side shares: what is asked of an engine, and what comes back. */

/** The kinds of server a replica can be. What each honours is in `openai/fields.ts`; how each differs, in `engine/dialects.ts`. */
export const DIALECTS = ['sluice', 'vllm', 'sglang', 'llama-server', 'tgi'] as const;
export type Dialect = (typeof DIALECTS)[number];

export type Role = 'system' | 'user' | 'assistant';

export interface Message {
  role: Role;
  content: string;
}

/** Sampling as asked for; null where the caller said nothing and the engine's neutral value holds. */
export interface Sampling {
  /** 0 to 2; 0 is greedy. */
  temperature: number;
  /** Above 0, up to 1. */
  topP: number;
  /** Number of candidates kept; 0 or null: all. 0 given explicitly also lifts the engine's own bound. */
  topK: number | null;
  /** 0 to 1, relative to the likeliest token; 0: off. */
  minP: number;
  /** Unsigned 32 bits; null: the engine draws one. */
  seed: number | null;
  /** -2 to 2. */
  presencePenalty: number;
  /** -2 to 2. */
  frequencyPenalty: number;
  /** Above 0; 1: off. */
  repetitionPenalty: number;
  /** Token id to bias, -100 to 100. */
  logitBias: ReadonlyMap<number, number>;
}

/** A JSON Schema of the supported subset, already checked for keywords, size and depth by the codec. */
export type JsonSchema = boolean | { readonly [keyword: string]: unknown };

export type ResponseFormat =
  | { type: 'text' }
  | { type: 'json_object' }
  | { type: 'json_schema'; name: string; schema: JsonSchema; strict: boolean | null };

interface GenerationRequestBase {
  /** Model id as the caller named it. */
  model: string;
  /** Upper bound of completion tokens a choice, at least 1; null: what the model and the context leave. */
  maxTokens: number | null;
  sampling: Sampling;
  /** Up to 4 sequences, none empty. */
  stop: readonly string[];
  /** Choices for each prompt, at least 1. */
  choices: number;
  /** Alternatives listed beside each token (0 to 20); null: no log probabilities at all. */
  logprobs: number | null;
  responseFormat: ResponseFormat;
  /** Whether the caller wants server-sent events. */
  stream: boolean;
  /** `stream_options.include_usage` as it was given: true moves the usage to a chunk of its own; null: not given. */
  includeUsage: boolean | null;
  /** Whether each chunk tells the usage so far. Set by the service toward its engines, never by callers. */
  continuousUsage: boolean;
  /** Prefixes are reused only between requests of the same scope; null: reuse with none but itself. */
  cacheScope: string | null;
  /** The caller's opaque end-user name, kept out of logs; null: none. */
  user: string | null;
}

export interface ChatRequest extends GenerationRequestBase {
  kind: 'chat';
  /** Not empty, in order. `developer` has become `system`; parts have been joined. */
  messages: readonly Message[];
}

export interface TextRequest extends GenerationRequestBase {
  kind: 'text';
  /** Not empty. Choice `p * choices + i` belongs to prompt `p`. */
  prompts: readonly string[];
  /** Whether the prompt comes before the completion in each choice's text. */
  echo: boolean;
}

export type GenerationRequest = ChatRequest | TextRequest;

/**
 * The source of the counts. `engine`: reported. `estimated`: the engine reported none, and the service counted the events
 * that it received. `clamped`: the engine reported more than the request could use, and the most it could use counts.
 */
export type UsageSource = 'engine' | 'estimated' | 'clamped';

/** Token counts of a whole request, all its choices together. */
export interface Usage {
  promptTokens: number;
  completionTokens: number;
  /** Prompt tokens that were not computed anew, of `promptTokens`. */
  cachedTokens: number;
}

export type FinishReason = 'stop' | 'length' | 'tool_calls';

/** One token with its log probability (natural logarithm) and, when asked for, the likeliest others. */
export interface TokenLogprob {
  token: string;
  logprob: number;
  /** The token's bytes, which need not be whole characters; null where a replica does not tell. */
  bytes: readonly number[] | null;
  top: readonly { token: string; logprob: number; bytes: readonly number[] | null }[];
}

/** Generated text of one choice. */
interface TextDelta {
  choice: number;
  /** Whole characters, never part of a stop sequence; may be empty when only log probabilities came. */
  text: string;
  /** Completion tokens of the whole request so far, reasoning included: as reported, else as counted. */
  completionTokens: number;
  logprobs: readonly TokenLogprob[] | null;
}

/**
 * What an engine answers with, in this order: `started` once; then `token`s and, for each choice, one `finish`
 * after its last token; then `end` once. `reasoning` is what a chat model thinks before it responds: its tokens
 * count as completion tokens. A stream that stops earlier threw a `ServiceError`.
 */
export type GenerationEvent =
  | {
      type: 'started';
      /** Null where the replica tells no counts before the end. */
      promptTokens: number | null;
      cachedTokens: number | null;
    }
  | ({ type: 'token' } & TextDelta)
  | ({ type: 'reasoning' } & TextDelta)
  | { type: 'finish'; choice: number; reason: FinishReason }
  | {
      type: 'end';
      usage: Usage;
      usageSource: UsageSource;
    };

/** An event with generated text. */
export type TextEvent = Extract<GenerationEvent, { type: 'token' | 'reasoning' }>;

/** Tokens of a request's prompts, at about four characters per token: for where no one counts them. */
export function estimatedPromptTokens(request: GenerationRequest): number {
  const texts = request.kind === 'chat' ? request.messages.map(({ content }) => content) : request.prompts;
  return texts.reduce((sum, text) => sum + Math.ceil(text.length / 4), 0);
}

/** What is known of a model for `GET /v1/models`, in the words of the list response. */
export interface ModelCard {
  id: string;
  architecture: { instruct_type: string | null; modality: string; tokenizer: string };
  /** Tokens that one request really gets. */
  context_length: number;
  max_completion_tokens: number;
  /** USD per million tokens, decimal strings as configured. */
  pricing: { prompt: string; completion: string };
  quantization: string;
  /** Unix seconds. */
  created: number;
  owned_by: string;
}
