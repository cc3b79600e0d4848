import { ServiceError } from './errors.ts';
import {
  DIALECTS,
  tokenInputs,
  hasImages,
  toolsOf,
  type CompletionRequest,
  type Dialect,
  type EmbeddingRequest,
  type GenerationKind,
  type GenerationRequest,
} from './generation.ts';
import {
  SAMPLING,
  type LimitedSampling,
  type RecommendedSampling,
  type Sampling,
  type SamplingNumber,
} from './sampling.ts';

/** The modality of a model that takes images. */
export const IMAGE_MODALITY = 'text+image->text';

/** Whether a model of this modality, such as `text->embedding`, returns vectors instead of text. */
export function isEmbeddingModality(modality: string): boolean {
  return modality.endsWith('->embedding');
}

/** Throws 400 `unsupported_parameter` for a request of another kind than the model serves, with the endpoint to use. */
export function refuseOtherKind<E extends boolean>(
  request: GenerationRequest,
  embeds: E,
): asserts request is E extends true ? EmbeddingRequest : CompletionRequest {
  if ((request.kind === 'embedding') === embeds) return;
  const message = embeds
    ? 'This model returns embeddings and generates no text. Send texts to `POST /v1/embeddings`.'
    : 'This model generates text and returns no embeddings. Use `POST /v1/chat/completions`, or a model whose `architecture.modality` is `text->embedding`.';
  throw new ServiceError('unsupported_parameter', message, { param: 'model' });
}

/** Something that a request can ask for and that not every server supports. */
interface FeatureSupport {
  /**
   * The servers that support it. It follows their source code (vLLM and SGLang `protocol.py`, llama-server
   * `server-schema.cpp`, TGI `lib.rs`). What a server accepts and ignores is not supported. `openai` has what OpenAI's API
   * has.
   */
  readonly servers: readonly Dialect[];
  readonly isUsed: (request: GenerationRequest) => boolean;
}

const SAMPLERS: readonly Dialect[] = ['sluice', 'vllm', 'sglang', 'llama-server'];
const WITH_OPENAI: readonly Dialect[] = [...SAMPLERS, 'openai'];
const MANY_CHOICES: readonly Dialect[] = ['sluice', 'vllm', 'sglang', 'openai'];
/** vLLM and SGLang must be started with a parser for tool calls, and llama-server with the model's chat template. */
const TOOLS: readonly Dialect[] = ['sluice', 'vllm', 'sglang', 'llama-server', 'tgi', 'openai'];
/** TGI constrains arguments to the properties of the schema, but ignores its references and other keywords. */
const STRICT_TOOLS: readonly Dialect[] = ['sluice', 'vllm', 'sglang', 'llama-server', 'openai'];

type IsUsed<R extends GenerationRequest> = (request: R) => boolean;

/** Only requests of this kind can ask for the feature. */
const only =
  <K extends GenerationKind>(kind: K) =>
  (isUsed: IsUsed<Extract<GenerationRequest, { kind: K }>>): IsUsed<GenerationRequest> =>
  (request) =>
    request.kind === kind && isUsed(request as Extract<GenerationRequest, { kind: K }>); // It is of the kind.

const inChats = only('chat');
const inTexts = only('text');
const inEmbeddings = only('embedding');

type Servers = {
  readonly servers?: readonly Dialect[];
  readonly fallback: number | null;
  readonly off?: number;
};

const PARAMETERS: Readonly<Record<SamplingNumber, Servers>> = SAMPLING;

/** The sampling parameters that not every server supports. */
function samplingFeatures(): Readonly<Record<LimitedSampling, FeatureSupport>> {
  const limited = Object.entries(PARAMETERS).flatMap(([id, { servers, fallback, off }]) => {
    if (servers === undefined) return [];
    const isUsed = ({ sampling }: GenerationRequest): boolean => {
      const value = sampling[id as SamplingNumber];
      return value !== fallback && value !== off;
    };
    return [[id, { servers, isUsed }]];
  });
  return Object.fromEntries(limited) as Record<LimitedSampling, FeatureSupport>;
}

/** Each protocol has its own names for these: see `Protocol.paramOf`. */
export const FEATURES = {
  severalPrompts: {
    servers: MANY_CHOICES,
    isUsed: inTexts(({ prompts }) => prompts.length > 1),
  },
  ...samplingFeatures(),
  logitBias: { servers: WITH_OPENAI, isUsed: ({ sampling }) => sampling.logitBias.size > 0 },
  choices: { servers: MANY_CHOICES, isUsed: ({ choices }) => choices > 1 },
  logprobs: { servers: WITH_OPENAI, isUsed: ({ logprobs }) => logprobs !== null },
  topLogprobs: {
    servers: WITH_OPENAI,
    isUsed: inChats(({ logprobs }) => (logprobs ?? 0) > 0),
  },
  echo: { servers: MANY_CHOICES, isUsed: inTexts(({ echo }) => echo) },
  chatFormat: {
    servers: WITH_OPENAI,
    isUsed: inChats(({ responseFormat }) => responseFormat.type !== 'text'),
  },
  textFormat: {
    servers: SAMPLERS,
    isUsed: inTexts(({ responseFormat }) => responseFormat.type !== 'text'),
  },
  earlierCalls: {
    servers: TOOLS,
    isUsed: inChats(({ messages }) =>
      messages.some((message) => message.role === 'assistant' && message.toolCalls.length > 0),
    ),
  },
  tools: { servers: TOOLS, isUsed: (request) => toolsOf(request).length > 0 },
  strictTools: { servers: STRICT_TOOLS, isUsed: (request) => toolsOf(request).some(({ strict }) => strict) },
  toolChoice: {
    servers: TOOLS,
    isUsed: inChats(({ toolChoice }) => toolChoice.type !== 'auto' && toolChoice.type !== 'none'),
  },
  singleCalls: { servers: TOOLS, isUsed: inChats(({ parallelToolCalls }) => !parallelToolCalls) },
  reasoningEffort: {
    servers: [...SAMPLERS, 'openai'],
    isUsed: inChats(({ reasoningEffort }) => reasoningEffort !== null && reasoningEffort !== 'none'),
  },
  images: {
    servers: ['vllm', 'sglang', 'llama-server', 'tgi', 'openai'],
    isUsed: hasImages,
  },
  templateVariables: {
    servers: SAMPLERS,
    isUsed: inChats(({ templateVariables }) => Object.keys(templateVariables).length > 0),
  },
  /** TGI has no endpoint for them. */
  embeddings: { servers: WITH_OPENAI, isUsed: inEmbeddings(() => true) },
  tokenInputs: { servers: WITH_OPENAI, isUsed: inEmbeddings((request) => tokenInputs(request).length > 0) },
} as const satisfies Readonly<Record<string, FeatureSupport>>;

export type Feature = keyof typeof FEATURES;

/**
 * Returns a sampling with the parameters that a model recommends and that the caller did not set, as far as these servers
 * support them.
 */
export function withRecommended(
  sampling: Sampling,
  recommended: RecommendedSampling,
  servers: readonly Dialect[],
): Sampling {
  let changed: (Sampling & { explicit: Set<SamplingNumber> }) | null = null;
  for (const name in recommended) {
    const parameter = name as keyof RecommendedSampling; // The parser of the configuration and of GGUF files allows no others.
    const value = recommended[parameter];
    if (value === undefined || sampling.explicit.has(parameter)) continue;
    const { servers: supporting } = PARAMETERS[parameter];
    if (supporting !== undefined && !servers.every((server) => supporting.includes(server))) continue;
    changed ??= { ...sampling, explicit: new Set(sampling.explicit) };
    changed[parameter] = value;
    changed.explicit.add(parameter);
  }
  return changed ?? sampling;
}

const ALL = Object.entries(FEATURES) as readonly (readonly [Feature, FeatureSupport])[];

/** By server, the features that it does not support. */
const UNSUPPORTED: ReadonlyMap<Dialect, typeof ALL> = new Map(
  DIALECTS.map((server) => [server, ALL.filter(([, { servers }]) => !servers.includes(server))]),
);

/** Returns a feature of a request that one of these servers does not support; null: none. */
export function unsupportedFeature(request: GenerationRequest, servers: readonly Dialect[]): Feature | null {
  for (const server of servers) {
    const found = UNSUPPORTED.get(server)?.find(([, feature]) => feature.isUsed(request));
    if (found !== undefined) return found[0];
  }
  return null;
}
