import { ServiceError } from './errors.ts';
import {
  DIALECTS,
  tokenInputs,
  hasImages,
  isForText,
  toolsOf,
  type CompletionRequest,
  type Dialect,
  type EmbeddingRequest,
  type GenerationKind,
  type GenerationRequest,
  type RerankRequest,
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

/** What a model returns. Each kind of model serves only requests for it. */
export type ModelOutput = 'text' | 'embedding' | 'rerank';

interface RequestFor {
  text: CompletionRequest;
  embedding: EmbeddingRequest;
  rerank: RerankRequest;
}

/** Returns what a model of this modality, such as `text->embedding`, returns. */
export function outputOf(modality: string): ModelOutput {
  const output = modality.slice(modality.indexOf('->') + 2);
  return output === 'embedding' || output === 'rerank' ? output : 'text';
}

/** Returns the modality of a model file. `embedding`: how it computes vectors or scores; null: it generates text. */
export function modalityOf(embedding: { readonly pooling: string } | null): string {
  if (embedding === null) return 'text->text';
  return embedding.pooling === 'rank' ? 'text->rerank' : 'text->embedding';
}

const OUTPUTS: Readonly<Record<ModelOutput, { does: string; path: string }>> = {
  text: { does: 'generates text', path: '/v1/chat/completions' },
  embedding: { does: 'returns embeddings', path: '/v1/embeddings' },
  rerank: { does: 'ranks documents', path: '/v1/rerank' },
};

/** Throws 400 `unsupported_parameter` for a request of another kind than the model serves, with the endpoint to use. */
export function refuseOtherKind<O extends ModelOutput>(
  request: GenerationRequest,
  served: O,
): asserts request is RequestFor[O] {
  const asked = isForText(request) ? 'text' : request.kind;
  if (asked === served) return;
  const { does, path } = OUTPUTS[served];
  const other = asked === 'text' ? '' : `, or a model whose \`architecture.modality\` is \`text->${asked}\``;
  throw new ServiceError('unsupported_parameter', `This model only ${does}. Use \`POST ${path}\`${other}.`, {
    param: 'model',
  });
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
  /** Whether other servers are asked without it. Else, the request is refused. */
  readonly isOptional?: true;
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
  reasoningBudget: {
    servers: SAMPLERS,
    isUsed: inChats(({ reasoningBudget }) => reasoningBudget !== null),
    isOptional: true,
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
  embeddings: { servers: [...WITH_OPENAI, 'tei'], isUsed: inEmbeddings(() => true) },
  rerank: { servers: [...WITH_OPENAI, 'tei'], isUsed: only('rerank')(() => true) },
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

/** Returns, by server, the features that it does not support. */
function lackedBy(isLacked: (feature: FeatureSupport) => boolean): ReadonlyMap<Dialect, typeof ALL> {
  return new Map(
    DIALECTS.map((server) => [
      server,
      ALL.filter(([, feature]) => !feature.servers.includes(server) && isLacked(feature)),
    ]),
  );
}

const UNSUPPORTED = lackedBy(({ isOptional }) => isOptional !== true);
const IGNORED = lackedBy(({ isOptional }) => isOptional === true);

/** Returns a feature of a request that one of these servers does not support; null: none. */
export function unsupportedFeature(request: GenerationRequest, servers: readonly Dialect[]): Feature | null {
  return firstUsed(UNSUPPORTED, request, servers);
}

/** Returns an optional feature of a request that one of these servers does not support; null: none. */
export function ignoredFeature(request: GenerationRequest, servers: readonly Dialect[]): Feature | null {
  return firstUsed(IGNORED, request, servers);
}

function firstUsed(
  lacked: ReadonlyMap<Dialect, typeof ALL>,
  request: GenerationRequest,
  servers: readonly Dialect[],
): Feature | null {
  for (const server of servers) {
    const found = lacked.get(server)?.find(([, feature]) => feature.isUsed(request));
    if (found !== undefined) return found[0];
  }
  return null;
}
